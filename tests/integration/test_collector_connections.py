"""Connections that the collector loses or cannot make: each observer says why, and goes on by itself once it can."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from demo.broker import Broker
from tests.integration.certificates import make_authority, tls_client, tls_listener
from tests.integration.collector_process import CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
TOPICS = ("lifecycle events", "decision log", "transaction log")
ELSEWHERE = "kafka-0.elsewhere.invalid:29092"
LIMIT_S = 60.0


class MisadvertisedBroker(Broker):
    """A broker that tells its clients an address at which they cannot reach it."""

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True


def errors_of(collector: CollectorProcess) -> dict[str, str]:
    return {row["name"]: row["error"] for row in collector.get("status")["observers"] if row["state"] == "down"}


def wait_for_errors(collector: CollectorProcess, said: str) -> None:
    """Wait until every reader of a topic, and the observer of partitions, says this."""

    def is_said() -> bool:
        errors = errors_of(collector)
        return all(said in errors.get(name, "") for name in (*TOPICS, "partitions"))

    try:
        wait_until(f"errors with {said!r}", is_said, LIMIT_S)
    except AssertionError as error:
        raise AssertionError(f"{error}; there is {errors_of(collector)}") from None


def test_the_name_that_a_broker_is_advertised_under_is_said(tmp_path: Path) -> None:
    settings = {"advertised.listeners": f"PLAINTEXT://{ELSEWHERE}"}
    with (
        MisadvertisedBroker(tmp_path / "broker", settings=settings) as broker,
        running(broker.bootstrap_servers, tmp_path / "collector") as collector,
    ):
        wait_for_errors(
            collector, f"broker 1 is advertised as {ELSEWHERE}, which cannot be resolved: advertised.listeners"
        )


def test_observers_recover_when_the_certificate_authority_was_renewed(tmp_path: Path) -> None:
    live, old, new = (tmp_path / name for name in ("live", "old", "new"))
    for directory in (live, old, new):
        directory.mkdir()
    for authority in (old, new):
        make_authority(authority)
        tls_listener(authority)

    def install(authority: Path, *names: str) -> None:
        for name in names:
            shutil.copy(authority / name, live / f"{name}.draft")
            (live / f"{name}.draft").rename(live / name)

    install(old, "cert.pem", "key.pem", "ca.pem")
    listener = tls_listener(live)
    both = live / "both.pem"
    listener["ssl.truststore.location"] = str(both)  # a broker trusts itself, or does not start
    both.write_text((old / "ca.pem").read_text() + (new / "ca.pem").read_text())
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in tls_client(live).items()))
    broker = Broker(tmp_path / "broker", settings=listener, client=tls_client(live, "both.pem"))
    with (
        broker,
        running(
            broker.bootstrap_servers,
            tmp_path / "collector",
            environment={"INDOUBT_KAFKA_PROPERTIES": str(properties)},
        ) as collector,
    ):
        wait_until("no observer down", lambda: not errors_of(collector), LIMIT_S)
        broker.stop()
        install(new, "cert.pem", "key.pem")
        tls_listener(live)
        broker.start()
        wait_for_errors(collector, "certificate verify failed")
        install(new, "ca.pem")
        wait_until("no observer down with the new authority", lambda: not errors_of(collector), LIMIT_S)
