"""Claim: counting per IP and 5 s window is as fast as Flink, exactly once. The job is compared as benchmarks/throughput.py says.

    python -m benchmarks.ip_count_throughput [--flink DIR] [--records 20000000] [--rounds 3] [--json]

Records are ``ip,event time in ms``: 10,000 IPs, 100,000 records in a second of event time, in order, over 4 partitions, and at
the end a record in each partition that closes every window. Of these windows each must be in the sink once, and their counts
must add up to the number of records. Spark's own side computes by Spark's operators.
Flink's steady rate is that of its windows, each of which stands for as many records as the others.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import throughput
from benchmarks.topics import PARTITIONS, READ_LIMIT_S, produce
from indoubt.resource_managers.kafka.connection import KafkaConnection

IPS, PER_MS = 10_000, 100
BASE_MS = 1_700_000_000_000
CLOSED_MS = 60_000
"""How far behind the last record the closing ones are."""
CHUNK = 20_000
RECORD_BYTES = 25
SEED = 42


def values(records: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (partition, values), in order of event time."""
    dice = random.Random(SEED)
    ips = [f"10.0.{number >> 8}.{number & 255}".encode() for number in range(IPS)]
    for number, start in enumerate(range(0, records, CHUNK)):
        chunk = range(start, min(start + CHUNK, records))
        yield (
            number % PARTITIONS,
            [
                b"%s,%d" % (ip, BASE_MS + n // PER_MS)
                for n, ip in zip(chunk, dice.choices(ips, k=len(chunk)), strict=True)
            ],
        )
    for partition in range(PARTITIONS):
        yield partition, [b"255.255.255.255,%d" % (BASE_MS + records // PER_MS + CLOSED_MS)]


def fill(connection: KafkaConnection, topic: str, records: int) -> None:
    """Write the records. Raises TimeoutError if the broker does not accept them."""
    produce(connection, topic, values(records))


def require(connection: KafkaConnection, sink: str, records: int, whose: str) -> None:
    """Return when the windows add up to ``records``, and none is there twice. Raises AssertionError, TimeoutError."""
    settings = {"group.id": "count", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(connection.for_librdkafka(**settings, **{"enable.auto.commit": False}))
    partitions = consumer.list_topics(sink, timeout=READ_LIMIT_S).topics[sink].partitions
    consumer.assign([TopicPartition(sink, partition, 0) for partition in partitions])
    seen: set[bytes] = set()
    twice, counted, ended, deadline = 0, 0, 0, time.monotonic() + READ_LIMIT_S
    while ended < len(partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the reader did not reach the end of {sink} in {READ_LIMIT_S:.0f} s")
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                twice += message.key() in seen
                seen.add(message.key())
                counted += json.loads(message.value())["count"]
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise KafkaException(error)
    consumer.close()
    if (counted, twice) != (records, 0):
        raise AssertionError(
            f"{whose}: windows count {counted:,} of {records:,} records, {twice:,} windows are there twice"
        )


WORK = throughput.Work(job="ip_count", flink_mode="count", record_bytes=RECORD_BYTES, fill=fill, require=require)

if __name__ == "__main__":
    sys.exit(throughput.run(WORK, __doc__))
