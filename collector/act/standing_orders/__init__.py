"""Standing orders: what is done without a person, where a file says so; off without one.

``decision.py`` says what to order and what to hold back, pure; ``service.py`` evaluates it each second and gives the orders
through ``act/orders/service.py``, as a person does. docs/standing_orders.md is the manual.
"""
