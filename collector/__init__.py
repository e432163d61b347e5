"""The collector: it gathers what brokers, databases and checkpoints say, keeps it, judges it, alerts, and acts.

The packages stand in the order in which an event passes through them: ``runtime``, ``config``, ``records``, ``history``
and ``state``, ``verdicts``, ``views``, ``sources``, ``assess``, ``alerting``, ``orders``, ``standing_orders``, ``api``, ``cli``.
Each imports only those before it; ``service.py`` puts them together. Begin with ``service.py``, then docs/architecture.md.
"""
