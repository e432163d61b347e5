"""What an operator may do: commit, abort, settle, restart; each planned, checked again, carried out and audited.

Imports ``views`` and all below. Begin with ``service.py`` and ``plan.py``; docs/orders.md says what is checked.
"""
