"""Topics that are logs of ours: the decision log, and the orders to pipelines.

Imports ``kafka`` and ``lifecycle``. Begin with ``decision_log.py``; docs/protocol.md has the rules of the log.
"""
