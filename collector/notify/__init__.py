"""Who must be notified, and when: how long what was found must hold, silences, the outbox and notifiers.

The state machine is pure. Begin with ``state_machine.py``; ``assess/rules`` has what is found.
"""
