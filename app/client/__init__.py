"""The collector's HTTP API as the pages see it: one client, and the rows that its answers are read into.

Imports ``settings`` only. Begin with ``collector_client.py``.
"""
