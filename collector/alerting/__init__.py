"""Who must be notified, and when: numbered rules, their state machine, silences and notifiers.

Rules and state machine are pure. Imports ``sources`` and all below. Begin with ``rules.py``; docs/alerts.md says what to
do about each alert.
"""
