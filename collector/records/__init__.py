"""What an observation is, and how it is read from bytes.

``formats`` holds the wire formats, one a file. Imports ``runtime`` only. Begin with ``observations.py``.
"""
