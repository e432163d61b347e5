"""What is kept on disk: the one owner of DuckDB.

Only this package imports ``duckdb``. It may import ``runtime`` and ``records``. Begin with ``store.py``; the tables are
in ``schema.sql``, the queries in ``sql.py``, the reasons in docs/history.md.
"""
