"""A steady stream of records into a topic, each stamped when it is produced: ``python -m benchmarks.steady_load BOOTSTRAP
TOPIC RATE SECONDS`` prints how many records it wrote."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.topics import value_of
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.kafka.connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
TICK_S = 0.001
FLUSH_LIMIT_S = 60.0


class SteadyLoad:
    """The stream in a process of its own, so that its rate does not depend on a reader."""

    def __init__(self, connection: KafkaConnection, topic: str, rate: int, seconds: float) -> None:
        self._produced: int | None = None
        command = [sys.executable, "-m", "benchmarks.steady_load", connection.bootstrap_servers, topic]
        self._process = subprocess.Popen(
            [*command, str(rate), str(seconds)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    @property
    def produced(self) -> int | None:
        """Return how many records were written, or None while it runs. Raises RuntimeError if it failed."""
        if self._process.poll() is None:
            return None
        if self._process.returncode != 0:
            raise RuntimeError(f"the load ended with code {self._process.returncode}; read its error above")
        if self._produced is None:
            assert self._process.stdout is not None
            self._produced = int(self._process.stdout.read())
        return self._produced

    def stop(self) -> None:
        """End it if it still runs."""
        self._process.kill()
        self._process.wait()


def main() -> int:
    """Produce at the rate, in ticks of a millisecond; a late tick catches up."""
    bootstrap_servers, topic, rate, seconds = sys.argv[1:]
    producer = Producer(KafkaConnection(bootstrap_servers).for_librdkafka(**{"linger.ms": 1, "acks": "all"}))
    producer.list_topics(topic, timeout=FLUSH_LIMIT_S)
    total, sent, started = int(float(seconds) * int(rate)), 0, time.monotonic()
    while sent < total:
        due = min(total, int((time.monotonic() - started) * int(rate)))
        now_us = time.time_ns() // 1000
        for serial in range(sent, due):
            producer.produce(topic, value_of(serial, now_us))
        sent = due
        producer.poll(0)
        time.sleep(TICK_S)
    if producer.flush(FLUSH_LIMIT_S):
        raise TimeoutError(f"the broker did not accept every record for {topic} in {FLUSH_LIMIT_S:.0f} s")
    print(sent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
