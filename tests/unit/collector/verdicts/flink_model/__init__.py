"""A small model of Flink applications, which knows what is true: which transactions the work of each job rests on.

Begin with ``applications.py`` (checkpoints, restores); ``sinks.py`` has what their writers do, ``world.py`` the broker, the
databases and what a collector sees of all, ``histories.py`` how random histories are made.
"""
