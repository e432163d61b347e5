"""Dialogs that give an order: evidence, dry run, reason, typed confirmation, result.

Imports ``live`` and all below. Begin with ``order_dialog.py``.
"""
