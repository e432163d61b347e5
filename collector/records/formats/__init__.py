"""Decoders of wire formats: ``__transaction_state``, lifecycle events, Flink's REST answers and ``_metadata`` files.

Each decoder raises MalformedRecord for damage. Imports nothing of the collector but the records it returns.
Begin with ``transaction_state.py``.
"""
