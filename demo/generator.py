"""The demo's traffic: ``<ip>,<event time in epoch ms>`` at a steady rate, partly out of order, sometimes late.

``python -m demo.generator --bootstrap-servers B --topic T --rate 200 [--close]`` runs in a process of its own until SIGTERM.
With ``--close`` it then writes a closing record to each partition. Its event time is a day ahead, so the watermark passes
every window, and the pipeline writes every window. It prints one JSON object, ``{"produced": n}``.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from types import FrameType

from confluent_kafka import KafkaError, Message, Producer

from indoubt.lifecycle.clock import now_ms

TICK_S = 0.05
FLUSH_LIMIT_S = 30.0
ADDRESSES = 40
CLOSING_AHEAD_MS = 24 * 3_600_000
CLOSING_ADDRESS = "0.0.0.0"
LATE_SHARE = 0.003
"""The share of records 30 to 60 s old: behind the watermark of 5 s, so the pipeline may drop them."""
OUT_OF_ORDER_SHARE = 0.3
"""The share of records up to 4 s old: out of order but within the lateness, so the pipeline must count them."""


class NotDelivered(Exception):
    """The broker did not accept a record; the message names the topic and the reason."""


def event_time_ms(now_ms: int, dice: random.Random) -> int:
    """Return the next record's event time: mostly now, often up to 4 s ago, seldom 30 to 60 s ago."""
    draw = dice.random()
    if draw < LATE_SHARE:
        return now_ms - dice.randint(30_000, 60_000)
    if draw < LATE_SHARE + OUT_OF_ORDER_SHARE:
        return now_ms - dice.randint(0, 4_000)
    return now_ms


class Generator:
    """Writes records to the topic's partitions in turn until ``stop``."""

    def __init__(self, bootstrap_servers: str, topic: str, rate: float, seed: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20, "acks": "all"}
        )
        self._topic, self._rate = topic, rate
        self._dice = random.Random(seed)
        self._addresses = [f"10.0.{self._dice.randint(0, 3)}.{number}" for number in range(1, ADDRESSES + 1)]
        self._stopped = False
        self._failure: str | None = None
        self.produced = 0

    def stop(self) -> None:
        """Make ``run`` return after its current tick."""
        self._stopped = True

    def run(self, *, close: bool) -> None:
        """Write until ``stop``, then write the closing records if ``close``. Raises NotDelivered."""
        partitions = len(self._producer.list_topics(self._topic, timeout=FLUSH_LIMIT_S).topics[self._topic].partitions)
        started = time.monotonic()
        while not self._stopped:
            due = int((time.monotonic() - started) * self._rate)
            while self.produced < due:
                address = self._dice.choice(self._addresses)
                self._write(self.produced % partitions, address, event_time_ms(now_ms(), self._dice))
            self._producer.poll(TICK_S)
            self._raise_failure()
        self._flush()
        if close:
            for partition in range(partitions):
                self._write(partition, CLOSING_ADDRESS, now_ms() + CLOSING_AHEAD_MS)
            self._flush()

    def _write(self, partition: int, address: str, at_ms: int) -> None:
        value = f"{address},{at_ms}".encode()
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                break
            except BufferError:
                self._producer.poll(TICK_S)
        self.produced += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = f"the broker did not accept a record for {message.topic()}: {error.str()}"

    def _flush(self) -> None:
        left = self._producer.flush(FLUSH_LIMIT_S)
        self._raise_failure()
        if left:
            raise NotDelivered(
                f"the broker did not acknowledge {left} records for {self._topic} in {FLUSH_LIMIT_S:.0f} s: check that it runs"
            )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise NotDelivered(self._failure)


def main() -> int:
    """Generate; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, default=200.0, help="records per second")
    parser.add_argument("--close", action="store_true", help="end with a record that closes every window")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator = Generator(arguments.bootstrap_servers, arguments.topic, arguments.rate, arguments.seed)

    def stop(number: int, frame: FrameType | None) -> None:
        generator.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        generator.run(close=arguments.close)
    except NotDelivered as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({"produced": generator.produced}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
