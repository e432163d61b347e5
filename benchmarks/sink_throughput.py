"""Claim: exactly once costs no throughput. A topic with records of 100 bytes is copied, as benchmarks/throughput.py says.

    python -m benchmarks.sink_throughput [--flink DIR] [--records 20000000] [--rounds 3] [--json]

The sides are indoubt's sink exactly once and at least once, Spark's own Kafka source and sink, and Flink's KafkaSink exactly
once and at least once (--flink: the directory of flink.sh; without it Flink is not measured). Only when it is named: a
Python sink that drops all. Each record must be in the sink once.
"""

from __future__ import annotations

import sys

from benchmarks import throughput
from benchmarks.topics import VALUE_BYTES, count_committed, fill
from indoubt.resource_managers.kafka.connection import KafkaConnection


def require(connection: KafkaConnection, sink: str, records: int, whose: str) -> None:
    """Return when the sink has each record once. Raises AssertionError."""
    count_committed(connection, sink, records).require(records, whose)


WORK = throughput.Work(job="passthrough", flink_mode="pass", record_bytes=VALUE_BYTES, fill=fill, require=require)

if __name__ == "__main__":
    sys.exit(throughput.run(WORK, __doc__))
