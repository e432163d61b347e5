"""Spark's Python daemon with everything loaded that a task of the sink needs: its workers are forked and begin at once.

``spark.python.daemon.module`` names it. Spark's own daemon loads nothing, for fear of threads that an import might start and a
fork would not copy: each worker then imports for 0.8 s before its first row. What is imported here starts one thread, that of
the allocator jemalloc, which knows of forks; a test looks that there is no other.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401 (PySpark's worker loads it for any Arrow array)
import pyspark.sql.worker.write_into_data_source
import pyspark.worker  # noqa: F401
from pyspark import daemon

from indoubt.pipeline.jobs import ip_count  # noqa: F401
from indoubt.pipeline.sink import slot_writer  # noqa: F401
from indoubt.resource_managers.kafka import resource_manager, transaction  # noqa: F401
from indoubt.resource_managers.kafka.reading import committed_records  # noqa: F401

if __name__ == "__main__":
    # What is loaded stays shared between the workers: their garbage collectors do not touch it.
    gc.freeze()
    daemon.manager()
