"""The reference exactly-once pipeline: Spark micro-batches committed by two-phase commit.

Begin with ``sink/data_source.py``. ``spark.py`` is what jobs of other projects call, ``__main__.py`` the command line.
"""
