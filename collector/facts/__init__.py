"""What is known now: a pure fold of observations into transactions, branches, ids and checkpoints.

It joins what is known of a transaction into one view (``transaction_view.py``) and makes no rows. No clock, no disk, no
network. Imports ``records``. Begin with ``state.py`` and ``fold.py``.
"""
