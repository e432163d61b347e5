"""What a pipeline's processes say, and how crash tests stop them: lifecycle events, status file, exit codes, crash points.

Imports ``resource_managers`` and ``lifecycle``. Begin with ``event_sender.py``.
"""
