"""One run: the driver recovers, starts the query, sweeps now and then, and stops in order.

Imports ``jobs``, ``recovery``, ``sink``, ``config`` and ``runtime``. Begin with ``driver.py``.
"""
