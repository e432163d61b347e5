"""Who asks, and how often: tokens, roles and rate limits.

Imports ``runtime`` only. Begin with ``authentication.py``; docs/security.md says who is kept from what.
"""
