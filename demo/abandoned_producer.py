"""A foreign application that opens a transaction on a topic, writes rows, and dies: nobody will ever end it.

``python -m demo.abandoned_producer --bootstrap-servers B --topic T --transactional-id ID`` ends by killing itself (SIGKILL)
with its rows delivered. The broker keeps the transaction open for 10 minutes; until then every read_committed reader of
these partitions stands before it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

from confluent_kafka import KafkaError, Message, Producer

TIMEOUT_MS = 600_000
LIMIT_S = 30.0
ROWS_PER_PARTITION = 3
KEY = b"billing-export"
"""The key of each of its rows: whoever reads one as committed has read something that never was."""


def main() -> int:
    """Open the transaction and die; return 1 only when that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--transactional-id", required=True)
    arguments = parser.parse_args()
    producer = Producer(
        {
            "bootstrap.servers": arguments.bootstrap_servers,
            "transactional.id": arguments.transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
        }
    )
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for partition in producer.list_topics(arguments.topic, timeout=LIMIT_S).topics[arguments.topic].partitions:
        for row in range(ROWS_PER_PARTITION):
            value = json.dumps({"application": arguments.transactional_id, "row": row})
            producer.produce(arguments.topic, value, KEY, partition=partition, on_delivery=delivered)
    left = producer.flush(LIMIT_S)
    if failures or left:
        print(f"{left} rows were not delivered in {LIMIT_S:.0f} s {failures[:1]}", file=sys.stderr)
        return 1
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(main())
