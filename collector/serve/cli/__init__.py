"""The same answers and orders from a terminal, over the HTTP API.

Imports ``serve.api.auth`` (for the command ``token``) and ``runtime``, never the collector's service: a command starts fast.
Begin with ``main.py``; docs/command_line.md lists the commands.
"""
