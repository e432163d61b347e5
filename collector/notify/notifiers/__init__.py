"""Ways to a receiver: webhook, Slack, Alertmanager. Each renders a notification; ``delivery.py`` sends and tries again.

Imports the findings of ``assess`` only. Begin with ``delivery.py``.
"""
