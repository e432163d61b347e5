"""The two-phase-commit sink: a Spark data source, the tasks that prepare a batch, and the coordinator that decides about it.

Imports ``config`` and ``runtime``. Begin with ``data_source.py``; docs/sink.md says how to use it.
"""
