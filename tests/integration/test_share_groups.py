"""Share groups (KIP-932) among those who wait behind an open transaction, as their isolation level has it."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from demo.prerequisites import JARS, java_home
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import running
from tests.integration.kafka_fixtures import LIMIT_S, wait_until
from tests.integration.pipeline_process import make_topics

pytestmark = [pytest.mark.integration, pytest.mark.long]
JAVA_LIMIT_S = 60.0


def java(*arguments: str) -> list[str]:
    return [f"{java_home()}/bin/java", "-Xmx128m", "-cp", f"{JARS / 'broker'}/*", *arguments]


@contextmanager
def share_consumer(broker: Broker, topic: str, group: str, isolation: str, said: Path) -> Iterator[None]:
    """Run a member of a share group, which writes what it reads to a file."""
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    settings = f"share.isolation.level={isolation},share.auto.offset.reset=earliest"
    alter = ("--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", settings)
    subprocess.run(java("kafka.admin.ConfigCommand", *servers, *alter), check=True, timeout=JAVA_LIMIT_S)
    consume = ("--topic", topic, "--group", group)
    program = java("org.apache.kafka.tools.consumer.ConsoleShareConsumer", *servers, *consume)
    with said.open("w") as out, subprocess.Popen(program, stdout=out, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_share_group_waits_only_where_it_reads_what_is_committed(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    groups = {f"{name}-{isolation}": isolation for isolation in ("read_committed", "read_uncommitted")}
    make_topics(connection, name)
    plain = Producer(connection.for_librdkafka())
    plain.produce(name, b"before", partition=0)
    assert plain.flush(LIMIT_S) == 0
    waiting, passing = (share_consumer(broker, name, g, i, tmp_path / f"{i}.txt") for g, i in groups.items())
    with waiting, passing:
        for isolation in groups.values():
            said = tmp_path / f"{isolation}.txt"
            wait_until(f"what {isolation} reads", lambda said=said: "before" in said.read_text(), JAVA_LIMIT_S)
        stuck = Producer(connection.for_librdkafka(**{"transactional.id": name, "transaction.timeout.ms": 600_000}))
        stuck.init_transactions(LIMIT_S)
        stuck.begin_transaction()
        stuck.produce(name, b"in doubt", partition=0)
        assert stuck.flush(LIMIT_S) == 0
        plain.produce(name, b"after", partition=0)
        assert plain.flush(LIMIT_S) == 0
        with running(broker.bootstrap_servers, tmp_path / "collector") as collector:

            def readers() -> dict[str, str]:
                rows = [row for row in collector.rows("blocked?all=true") if row["topic"] == name]
                return {reader["group"]: reader["kind"] for row in rows for reader in row["groups"]}

            wait_until("who waits", lambda: readers() == {f"{name}-read_committed": "waiting"}, JAVA_LIMIT_S)
            stuck.abort_transaction(LIMIT_S)
            wait_until("nobody waits", lambda: "waiting" not in readers().values(), JAVA_LIMIT_S)
