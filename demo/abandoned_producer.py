"""A foreign application that opens a transaction on a topic, writes rows, and dies without ending the transaction.

``python -m demo.abandoned_producer --bootstrap-servers B --topic T --transactional-id ID`` delivers its rows and then kills
itself (SIGKILL). The broker keeps the transaction open for 10 minutes; until then it blocks every read_committed reader of
these partitions.
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
"""The key of each of its rows. A reader that gets one of them as committed has read uncommitted data."""


def main() -> int:
    """Open the transaction and die; return 1 only if that failed."""
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
        reason = failures[0] if failures else f"the broker did not acknowledge {left} rows in {LIMIT_S:.0f} s"
        print(f"{arguments.transactional_id} could not write to {arguments.topic}: {reason}", file=sys.stderr)
        return 1
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(main())
