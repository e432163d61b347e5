"""A steady stream of other transactions: ``python -m benchmarks.coordinator_load BOOTSTRAP RATE IDS`` writes RATE states a
second into ``__transaction_state`` until its input ends, then prints how many it wrote."""

from __future__ import annotations

import itertools
import select
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks import coordinator_log
from benchmarks.coordinator_log import STATE_TOPIC
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.kafka.connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
STEP_S = 0.02
FLUSH_LIMIT_S = 30.0
MAX_TRANSACTIONS = 10**9


class CoordinatorLoad:
    """The stream in a process of its own, so that it does not share the measuring process's interpreter."""

    def __init__(self, bootstrap_servers: str, rate: int, ids: int) -> None:
        self._command = [sys.executable, "-m", "benchmarks.coordinator_load", bootstrap_servers, str(rate), str(ids)]
        self._process: subprocess.Popen[str] | None = None
        self.written = 0
        """How many states it wrote; known after its end."""

    def __enter__(self) -> CoordinatorLoad:
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        output = self._process.communicate(timeout=2 * FLUSH_LIMIT_S)[0]
        if self._process.returncode != 0:
            raise RuntimeError(f"the load ended with code {self._process.returncode}; read its error above")
        self.written = int(output)


def main() -> int:
    """Write at the rate, in steps."""
    bootstrap_servers, rate, ids = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    settings = {"client.id": "__admin_client", "linger.ms": 5}
    producer = Producer(KafkaConnection(bootstrap_servers).for_librdkafka(**settings))
    records = coordinator_log.states(MAX_TRANSACTIONS, ids, time.time_ns() // 1_000_000)
    written, started = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], STEP_S)[0]:
        due = int((time.monotonic() - started) * rate) - written
        for key, value in itertools.islice(records, due):
            producer.produce(STATE_TOPIC, value, key)
        producer.poll(0)
        written += due
    if producer.flush(FLUSH_LIMIT_S):
        raise TimeoutError(f"the broker did not accept every record for {STATE_TOPIC} in {FLUSH_LIMIT_S:.0f} s")
    print(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
