"""A view as the API tells it: one function a row, from the views' values to JSON values.

Imports ``views`` and all below. Begin with ``transactions.py``.
"""
