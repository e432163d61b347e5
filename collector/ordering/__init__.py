"""What an order does, by kind: each kind checks first and gives a plan; only the plan's ``carry_out`` changes anything."""
