"""The checkpoint directory: Spark's files in it, and what indoubt keeps there.

Imports ``config``. Begin with ``checkpoint_directory.py``.
"""
