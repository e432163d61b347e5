"""The process itself: its clock, its logs, its memory, and time as text.

Imports nothing of the collector. Begin with ``clock.py``.
"""
