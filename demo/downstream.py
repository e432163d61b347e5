"""A reader of the pipeline's output: an ordinary read_committed consumer group, which an open transaction blocks.

``python -m demo.downstream --bootstrap-servers B --topic T`` runs until SIGTERM and prints one JSON object, ``{"read": n}``.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from types import FrameType

from confluent_kafka import Consumer, KafkaException

GROUP = "ip-count-dashboard"
POLL_S = 0.2
COMMIT_EVERY_MS = 1_000


class Downstream:
    """A member of the group; it commits its offsets every second."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": COMMIT_EVERY_MS,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe([topic])
        self._stopped = False
        self.read = 0

    def stop(self) -> None:
        """Make ``run`` return after its current poll."""
        self._stopped = True

    def run(self) -> None:
        """Read until ``stop``. Prints a transient error and goes on. Raises KafkaException for a fatal error."""
        try:
            while not self._stopped:
                for message in self._consumer.consume(1000, timeout=POLL_S):
                    error = message.error()
                    if error is None:
                        self.read += 1
                    elif error.fatal():
                        raise KafkaException(error)
                    else:
                        print(error.str(), file=sys.stderr, flush=True)
        finally:
            self._consumer.close()


def main() -> int:
    """Read; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    arguments = parser.parse_args()
    downstream = Downstream(arguments.bootstrap_servers, arguments.topic)

    def stop(number: int, frame: FrameType | None) -> None:
        downstream.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        downstream.run()
    except KafkaException as error:
        print(f"group {GROUP} cannot read {arguments.topic}: {error.args[0].str()}", file=sys.stderr)
        return 1
    print(json.dumps({"read": downstream.read}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
