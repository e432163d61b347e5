"""Kafka as a resource manager: transactions that another process can finish, their markers, and the wire below them.

Imports the protocol and ``lifecycle``. Begin with ``resource_manager.py``; docs/brokers.md says what brokers do.
"""
