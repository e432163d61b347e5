"""The live state, the questions that are put to it, and the rows that answer them.

``current_state.py`` holds the fold behind a lock and rebuilds it from history at start. ``*_rows.py`` make each row of the
API from one thing that ``facts`` joined and ``verdicts`` judged; no other package does that for transactions, batches,
partitions and checkpoints. Imports ``verdicts`` and all below. Begin with ``current_state.py``.
"""
