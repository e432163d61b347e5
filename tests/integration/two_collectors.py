"""Two real collectors of one name on one broker, and what an independent reader finds in their topic."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, KafkaError, TopicPartition

from demo.ports import free_port
from tests.integration.collector_process import CollectorProcess
from tests.integration.kafka_fixtures import wait_until

TAKEN_OVER_S = 30.0
"""Far more than a takeover takes: machines that run tests are busy."""
READ_LIMIT_S = 20.0


class OneOfTwo(CollectorProcess):
    """One of them: its role, and what a test does to it."""

    def role(self) -> str:
        """Return what it says it is; empty while it does not answer."""
        try:
            return str(httpx.get(f"{self.url}/api/v1/health", timeout=2.0).json().get("role", ""))
        except httpx.HTTPError:
            return ""

    def wait_to_lead(self) -> None:
        """Return once it leads."""
        wait_until("it leads", lambda: self.role() == "leader", TAKEN_OVER_S)

    def wait_to_stand_by(self) -> None:
        """Return once it is the standby."""
        wait_until("it is the standby", lambda: self.role() == "standby", TAKEN_OVER_S)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def freeze(self) -> None:
        """Let it stand still."""
        self.signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)


class TwoCollectors:
    """``a`` and ``b``, not started yet."""

    def __init__(
        self,
        servers: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        arguments: Sequence[str] = (),
    ) -> None:
        """``servers``: what each of them takes for the broker's address."""
        self.name = f"pair-{uuid.uuid4().hex[:8]}"
        ports = (free_port(), free_port())

        def one(own: int, other: int) -> OneOfTwo:
            settings = {"INDOUBT_STANDBY_NAME": self.name, "INDOUBT_STANDBY_PEER": f"http://127.0.0.1:{ports[other]}"}
            more = ["--port", str(ports[own]), *arguments]
            return OneOfTwo(servers[own], directory / "ab"[own], more, {**environment, **settings})

        self.a, self.b = one(0, 1), one(1, 0)

    @property
    def topic(self) -> str:
        """Return their topic, which their transactional id is called like."""
        return f"indoubt-collector-{self.name}"

    def end(self) -> None:
        """End both."""
        for each in (self.a, self.b):
            each.kill()

    def entries(self, server: str) -> list[list[tuple[str, list[Any]]]]:
        """Return what is written down in their topic, as a read_committed reader finds it: statements and their values."""
        settings = {"bootstrap.servers": server, "group.id": "judge", "enable.partition.eof": True}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
        found: list[list[tuple[str, list[Any]]]] = []
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            while True:
                message = consumer.poll(READ_LIMIT_S)
                assert message is not None, "the topic has an end"
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                if dict(message.headers())["kind"] == b"entry":
                    found.append([(name, values) for name, values in json.loads(message.value())])
        finally:
            consumer.close()

    def written(self, server: str, statement: str) -> list[list[Any]]:
        """Return the values of one kind of statement, in the order of the topic."""
        return [values for entry in self.entries(server) for name, values in entry if name == statement]


@contextmanager
def two_collectors(
    servers: Sequence[str], directory: Path, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> Iterator[TwoCollectors]:
    """Start ``a``, which leads, then ``b``, its standby; end both afterwards."""
    both = TwoCollectors(servers, directory, environment, arguments)
    try:
        both.a.start()
        both.a.wait_to_lead()
        both.b.start()
        both.b.wait_to_stand_by()
        yield both
    finally:
        both.end()
