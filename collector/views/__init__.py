"""The live state, and the questions that are put to it.

``current_state.py`` holds the fold behind a lock and rebuilds it from history at start. Imports ``verdicts`` and all
below. Begin there.
"""
