"""Where observations come from: topics, brokers, databases, checkpoint directories, Flink's REST API.

One source a file; each is able to fail alone while the others go on. Imports ``views`` (to hand observations over) and
``config``. Begin with ``source.py``.
"""
