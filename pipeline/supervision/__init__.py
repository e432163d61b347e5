"""The supervisor: it keeps a driver running, takes operators' orders, and ends every process that it started.

Imports ``config`` and ``runtime``; a driver is a process of its own. Begin with ``supervisor.py``.
"""
