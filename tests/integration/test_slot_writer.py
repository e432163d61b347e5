"""A slot and its coordinator on a real broker, without Spark between them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lifecycle.events import EventType, LifecycleEvent, decode
from pipeline.coordinator import Coordinator
from pipeline.recovery import Recovery
from pipeline.settings import PipelineSettings
from pipeline.slot_writer import SlotWriter
from resource_managers.kafka_connection import KafkaConnection
from tests.integration.kafka_fixtures import Sink, make_sink, rows
from tests.integration.pipeline_process import make_topics, read_committed, wait_until

pytestmark = pytest.mark.integration


def settings_for(sink: Sink, directory: Path, **more: object) -> PipelineSettings:
    given = {
        "job": "passthrough",
        "bootstrap_servers": sink.connection.bootstrap_servers,
        "checkpoint": str(directory / "checkpoint"),
        "prefix": sink.prefix,
        "source": f"in-{sink.topic}",
        "sink": sink.topic,
        "lifecycle_topic": f"events-{sink.topic}",
        **more,
    }
    make_topics(sink.connection, given["lifecycle_topic"], partitions=1)
    return PipelineSettings.read(given)


def events_of(connection: KafkaConnection, topic: str, kind: EventType) -> list[LifecycleEvent]:
    return [event for value in read_committed(connection, topic) if (event := decode(value)).type is kind]


def test_a_timeout_near_is_told_once_and_while_the_slot_still_writes(connection, tmp_path, caplog):
    sink = make_sink(connection)
    settings = settings_for(sink, tmp_path, transaction_timeout_ms=20_000, timeout_warning_ratio=0.05)
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
    assert message.timeout_told == {handle.key for handle in message.handles}
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
