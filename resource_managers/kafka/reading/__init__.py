"""Records of a topic as Arrow columns, by Fetch requests of our own: no library sees a single record.

Begin with ``committed_records.py``.
"""
