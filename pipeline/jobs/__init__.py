"""The jobs: what is read, what is computed, and which columns reach the sink.

Imports ``config``. Begin with ``job.py``.
"""
