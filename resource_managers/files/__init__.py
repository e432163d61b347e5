"""Files in a directory (local, S3, HDFS): rows are prepared under hidden names, a commit gives them their own.

Imports ``database`` for the terms in which branches are listed, and all below. Begin with ``resource_manager.py``;
docs/files.md says what is needed.
"""
