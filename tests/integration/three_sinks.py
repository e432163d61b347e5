"""A topic and a table in each database for one pipeline, and readers of their own that judge what is in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from demo.database_server import DatabaseServer
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.database_fixtures import ask
from tests.integration.pipeline_process import make_topics, read_committed

VALUES = {"mysql": "value varbinary(100) not null", "postgres": "value bytea not null"}
"""A table for the values of records. Without a primary key: a row that is written twice is there twice."""
COUNTS = {
    "mysql": "word varchar(255) character set utf8mb4 collate utf8mb4_bin primary key, count bigint not null",
    "postgres": "word varchar(255) primary key, count bigint not null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """Names that no other test uses; the databases by resource manager."""

    connection: KafkaConnection
    name: str
    databases: dict[str, DatabaseServer]
    properties_file: Path

    @property
    def source(self) -> str:
        """Return the topic that the pipeline reads."""
        return f"in-{self.name}"

    @property
    def topic(self) -> str:
        """Return the topic that the pipeline may write."""
        return f"out-{self.name}"

    @property
    def table(self) -> str:
        """Return the table that the pipeline may write, in every database."""
        return f"t_{self.name.replace('-', '_')}"

    def settings(self, *names: str, **more: Any) -> dict[str, Any]:
        """Return the settings of a pipeline that writes to the resource managers of these names, in this order."""
        sinks = [self.topic if name == "kafka" else f"{name}:{self.table}" for name in names]
        fixed = {"source": self.source, "prefix": self.name, "database_properties": self.properties_file}
        return {**fixed, "sink": ",".join(sinks), **more}

    def in_topic(self) -> Counter[bytes]:
        """Return the values that a read_committed reader sees."""
        return read_committed(self.connection, self.topic)

    def in_table(self, name: str) -> Counter[bytes]:
        """Return the values that another connection sees in the database's table."""
        rows = ask(self.databases[name].connection, f"select value from {self.table}")  # noqa: S608 (a name made here)
        return Counter(bytes(value) for (value,) in rows)

    def everywhere(self) -> dict[str, Counter[bytes]]:
        """Return the values that are seen in the topic and in each table."""
        return {"kafka": self.in_topic(), **{name: self.in_table(name) for name in self.databases}}

    def counts(self, name: str) -> dict[str, int]:
        """Return the word counts that another connection sees in the database's table."""
        return dict(ask(self.databases[name].connection, f"select word, count from {self.table}"))  # noqa: S608

    def prepared(self, name: str) -> int:
        """Return how many branches of this test the database itself lists as prepared."""
        connection = self.databases[name].connection
        if name == "postgres":
            return len(ask(connection, "select gid from pg_prepared_xacts where gid like %s", (f"{self.name}:%",)))
        return sum(data.startswith(f"{self.name}:".encode()) for *_, data in ask(connection, "xa recover"))

    def latest_by_key(self) -> dict[str, Any]:
        """Return the last JSON value of each key in the topic, as a read_committed reader of its own sees it."""
        consumer = Consumer(
            self.connection.for_librdkafka(**{"group.id": "judge", "isolation.level": "read_committed"})
        )
        found: dict[str, Any] = {}
        try:
            for partition in consumer.list_topics(self.topic, timeout=30).topics[self.topic].partitions:
                place = TopicPartition(self.topic, partition, 0)
                end = consumer.get_watermark_offsets(place, timeout=30)[1]
                consumer.assign([place])
                # The last offset may be a transaction's end, which no reader is given: the position tells.
                while consumer.position([place])[0].offset < end:
                    message = consumer.poll(0.5)
                    if message is not None and message.error() is None:
                        found[message.key().decode()] = json.loads(message.value())
        finally:
            consumer.close()
        return found


def make_sinks(
    connection: KafkaConnection,
    directory: Path,
    servers: Sequence[DatabaseServer],
    definitions: dict[str, str],
) -> Sinks:
    """Create topics, tables and the file that says how to reach the databases."""
    DecisionLog(connection).ensure_topic()
    lines = []
    for server in servers:
        access = server.connection
        lines += [
            f"{server.kind}.{field}={getattr(access, field)}"
            for field in ("host", "port", "user", "password", "database")
        ]
    file = directory / "database.properties"
    file.touch(mode=0o600)
    file.write_text("\n".join(lines))
    sinks = Sinks(
        connection=connection,
        name=f"sinks-{uuid4().hex[:8]}",
        databases={server.kind: server for server in servers},
        properties_file=file,
    )
    make_topics(connection, "transaction_lifecycle", sinks.source, sinks.topic)
    for server in servers:
        ask(server.connection, f"create table {sinks.table} ({definitions[server.kind]})")
    return sinks
