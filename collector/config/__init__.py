"""What is set at start: settings, databases, TLS, receivers of alerts.

Imports ``runtime`` only. Begin with ``settings.py``; docs/settings.md lists every setting.
"""
