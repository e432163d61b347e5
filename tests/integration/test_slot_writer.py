"""A slot, its coordinator and recovery on a real broker and a real database, without Spark between them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError
from indoubt.lifecycle.events import EventType, LifecycleEvent, decode
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.recovery.recovery import Recovery
from indoubt.pipeline.runtime import timeout_watch
from indoubt.pipeline.sink import coordinator
from indoubt.pipeline.sink.coordinator import Coordinator
from indoubt.pipeline.sink.slot_writer import SlotWriter
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.database_fixtures import ask
from tests.integration.kafka_fixtures import Sink, make_sink, rows
from tests.integration.pipeline_process import make_topics, open_transactions, read_committed, wait_until
from tests.integration.protocol_run import spark_checkpoint

pytestmark = pytest.mark.integration


def settings_for(to: Sink, directory: Path, **more: object) -> PipelineSettings:
    given = {
        "job": "passthrough",
        "bootstrap_servers": to.connection.bootstrap_servers,
        "checkpoint": str(directory / "checkpoint"),
        "prefix": to.prefix,
        "source": f"in-{to.topic}",
        "sink": to.topic,
        "lifecycle_topic": f"events-{to.topic}",
        **more,
    }
    make_topics(to.connection, given["lifecycle_topic"], partitions=1)
    return PipelineSettings.read(given)


def events_of(connection: KafkaConnection, topic: str, kind: EventType) -> list[LifecycleEvent]:
    return [event for value in read_committed(connection, topic) if (event := decode(value)).type is kind]


def test_a_near_timeout_is_reported_once_while_the_slot_still_writes(connection, tmp_path, caplog, monkeypatch):
    sink = make_sink(connection)
    settings = settings_for(sink, tmp_path, transaction_timeout_ms=20_000)
    for module in (timeout_watch, coordinator):
        monkeypatch.setattr(module, "WARNING_RATIO", 0.05)
    recovery = Recovery(settings, connection)
    options = recovery.options(recovery.recover())

    def told() -> list[LifecycleEvent]:
        return events_of(connection, settings.lifecycle_topic, EventType.TRANSACTION_TIMEOUT_NEAR)

    written: list[bytes] = []

    def rows_until_told() -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + 15
        while not told():
            assert time.monotonic() < deadline, "waited 15 s in vain for the warning, writing all the while"
            written.append(b"%d" % len(written))
            yield rows(written[-1])

    message = SlotWriter(options, slot=0, batch=0).write(rows_until_told())
    assert message.timeout_reported == {handle.key for handle in message.handles}
    Coordinator(options).commit([message], 0)
    wait_until(
        "the end of the checkpoint",
        lambda: events_of(connection, settings.lifecycle_topic, EventType.CHECKPOINT_COMPLETED),
    )
    (event,) = told()
    assert event.subject == message.handles[0].key
    assert event.data["timeout_ms"] == 20_000
    assert event.data["age_ms"] >= 1_000
    assert [record.message for record in caplog.records if "of its timeout of 20000 ms have passed" in record.message]
    assert read_committed(connection, sink.topic) == Counter(written)


def test_a_changed_sink_is_refused_while_a_batch_is_unfinished(connection, tmp_path):
    sink, other = make_sink(connection), make_sink(connection)
    settings = settings_for(sink, tmp_path)
    first = Recovery(settings, connection).recover()
    spark_checkpoint(tmp_path / "checkpoint", planned=0, committed=-1)
    with pytest.raises(
        SettingsError, match=f"was used with .* sink '{sink.topic}' .*, and its last batch is unfinished"
    ):
        Recovery(replace(settings, sink=other.topic), connection).recover()
    assert (
        Recovery(replace(settings, sink=f"kafka:{sink.topic}"), connection).recover().identity.checkpoint_id
        == first.identity.checkpoint_id
    )
    spark_checkpoint(tmp_path / "checkpoint", planned=0, committed=0)
    moved = Recovery(replace(settings, sink=other.topic), connection).recover()
    assert moved.identity.sink == other.topic
    assert moved.identity.checkpoint_id != first.identity.checkpoint_id, (
        "what the log says of the first one was written elsewhere"
    )


def test_what_an_abandoned_checkpoint_decided_is_settled_first(connection, mariadb, tmp_path):
    sink = make_sink(connection)
    table = f"left_{sink.topic.replace('-', '_')}"
    ask(mariadb.connection, f"create table {table} (value varbinary(100) not null)")
    old = settings_for(sink, tmp_path, sink=f"{sink.topic},mysql:{table}", database_properties="unused")
    recovery = Recovery(old, connection, {"mysql": mariadb.connection})
    recovery.verify([("value", pa.binary())])
    options = recovery.options(recovery.recover())
    message = SlotWriter(options, slot=0, batch=0).write(iter([rows(b"a")]))
    batch_attempt = BatchAttempt(checkpoint_id=options.checkpoint_id, batch=0, attempt=options.attempt)
    DecisionLog(connection).decide(
        Decision(
            prefix=old.prefix,
            batch_attempt=batch_attempt,
            ruling=Ruling.COMMIT,
            handles=message.handles,
            who="run",
            at_ms=0,
        )
    )
    new = replace(old, checkpoint=str(tmp_path / "new"), sink=sink.topic)
    with pytest.raises(SettingsError, match="no setting says how to reach 'mysql'"):
        Recovery(new, connection).recover()
    assert read_committed(connection, sink.topic).total() == 0
    recovered = Recovery(new, connection, {"mysql": mariadb.connection}).recover()
    assert (recovered.committed, recovered.lost, recovered.plan) == (2, 0, None)
    wait_until("the row in the topic", lambda: read_committed(connection, sink.topic) == Counter([b"a"]))
    assert ask(mariadb.connection, f"select value from {table}") == [(b"a",)]  # noqa: S608 (a name made here)


def test_a_slot_that_cannot_prepare_everywhere_leaves_nothing(connection, mariadb, tmp_path):
    sink = make_sink(connection)
    table = f"narrow_{sink.topic.replace('-', '_')}"
    ask(mariadb.connection, f"create table {table} (value varbinary(3) not null)")
    settings = settings_for(sink, tmp_path, sink=f"{sink.topic},mysql:{table}", database_properties="unused")
    recovery = Recovery(settings, connection, {"mysql": mariadb.connection})
    recovery.verify([("value", pa.binary())])
    options = recovery.options(recovery.recover())
    with pytest.raises(ResourceManagerError, match="value"):
        SlotWriter(options, slot=0, batch=0).write(iter([rows(b"ok"), rows(b"too long")]))
    assert open_transactions(connection, sink.prefix) == []
    assert not [data for *_, data in ask(mariadb.connection, "xa recover") if data.startswith(sink.prefix.encode())]
    assert read_committed(connection, sink.topic).total() == 0
