"""Standby: two collectors of one name, of which one leads: it alone orders and notifies. Off without a name.

``lease.py`` says by this machine's clock who may lead, pure; ``leadership.py`` follows the topic of both, takes the lead and lets
it go. What they write down goes through ``history/journal.py``. docs/standby.md is the manual.
"""
