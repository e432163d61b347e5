"""The list of whatever needs attention: pure functions of what is known and the time that is passed in.

Begin with ``listing.py``: it puts together what the other modules make, one of each kind of card.
"""
