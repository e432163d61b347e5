"""What is known now: a pure fold of observations into transactions, branches, ids and checkpoints.

No clock, no disk, no network. Imports ``records``. Begin with ``state.py`` and ``fold.py``.
"""
