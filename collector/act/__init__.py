"""What is done: orders of persons (``orders``), and those that a file allows without one (``standing_orders``)."""
