"""Two real collectors of one name on one broker, and what an independent reader finds in their topic."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, KafkaError, TopicPartition

from demo.broker import Broker
from demo.ports import free_port
from tests.integration.collector_process import CollectorProcess
from tests.integration.kafka_fixtures import wait_until
from tests.integration.struck_collector import REACHED

TAKEN_OVER_S = 30.0
"""Far more than a takeover takes: machines that run tests are busy."""
READ_LIMIT_S = 20.0


class Gate:
    """A way to the broker that can be shut: what is sent then is held, and gets through once it is open again.

    ``upstream``: the port behind it.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream, self._is_open = upstream, threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.open()
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """Let nothing through."""
        self._is_open.clear()

    def open(self) -> None:
        """Let everything through, what was held first."""
        self._is_open.set()

    def close(self) -> None:
        """Take no connection any more."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                broker = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:
                return
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                self._is_open.wait()
                sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def broker_behind_gates(directory: Path) -> Iterator[tuple[Broker, tuple[Gate, Gate]]]:
    """Run a broker with a gate for each of two collectors, beside its ordinary address for everybody else."""
    port, controller, first, second = free_port(), free_port(), free_port(), free_port()
    gates = Gate(first), Gate(second)
    own = {"PLAINTEXT": port, "FIRST": first, "SECOND": second}
    told = {"PLAINTEXT": port, "FIRST": gates[0].port, "SECOND": gates[1].port}
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in {**own, "CONTROLLER": controller}.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in told.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*own, "CONTROLLER")),
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    try:
        with Broker(directory, port, settings) as broker:
            yield broker, gates
    finally:
        for gate in gates:
            gate.close()


class OneOfTwo(CollectorProcess):
    """One of them: its role, and what a test does to it."""

    gate: Gate | None = None

    @property
    def mark(self) -> Path:
        """Return the file that names the step at which it stops (struck_collector.py)."""
        return self.directory / "mark"

    def strike_at(self, step: str) -> None:
        """Have it stop at the next step of this name."""
        self.mark.write_text(step)

    def wait_at_step(self) -> None:
        """Return once it stands there."""
        wait_until("it reaches the step", lambda: self.mark.read_text() == REACHED, TAKEN_OVER_S)

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
            made = OneOfTwo(servers[own], directory / "ab"[own], more, {**environment, **settings})
            made.program = (sys.executable, "-m", "tests.integration.struck_collector", made.mark)
            return made

        self.a, self.b = one(0, 1), one(1, 0)

    @property
    def topic(self) -> str:
        """Return their topic, which their transactional id is called like."""
        return f"indoubt-collector-{self.name}"

    def leader(self) -> tuple[OneOfTwo, OneOfTwo]:
        """Return the one that leads and the other one, once one leads and the other stands by."""

        def found() -> tuple[OneOfTwo, OneOfTwo] | None:
            roles = (self.a.role(), self.b.role())
            return {("leader", "standby"): (self.a, self.b), ("standby", "leader"): (self.b, self.a)}.get(roles)

        pair: tuple[OneOfTwo, OneOfTwo] = wait_until("one leads, one stands by", found, TAKEN_OVER_S)
        return pair

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


def strike(one: OneOfTwo, deed: str) -> None:
    """Do it to a collector that stands at its step."""
    match deed:
        case "kill":
            one.kill()
            one.mark.unlink()
        case "freeze":
            one.freeze()
            one.mark.unlink()
        case _:
            assert one.gate is not None
            one.gate.shut()
            one.mark.unlink()


def bring_back(one: OneOfTwo, deed: str) -> None:
    """Undo it."""
    match deed:
        case "kill":
            one.start()
        case "freeze":
            one.wake()
        case _:
            assert one.gate is not None
            one.gate.open()
