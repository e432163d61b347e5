"""The collector's HTTP API as the pages see it: one client, and the rows that its answers are read into.

Imports ``settings`` only. Begin with ``collector_client.py``: it asks; ``order_client.py`` gives orders, both by the one
``collector_connection.py``.
"""
