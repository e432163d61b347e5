"""What a pipeline was set to: its settings, its targets and its connections.

Imports ``resource_managers`` and ``lifecycle``. Begin with ``settings.py``; docs/settings.md lists every setting.
"""
