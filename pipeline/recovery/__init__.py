"""Before a run: whose checkpoint directory it is, what was decided is settled, what was not is rolled back. The sweep, too.

Imports ``sink`` (what a replay must write), ``checkpoints``, ``config`` and ``runtime``. Begin with ``recovery.py``.
"""
