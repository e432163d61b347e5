"""Group offsets of finished checkpoints: lag tools see them, and a broker that does not answer never holds a stop."""

from __future__ import annotations

import logging
import signal
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from demo.broker import Broker
from indoubt.lifecycle.child_processes import with_descendants
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.identity import Marker
from indoubt.pipeline.run.group_offsets import GroupOffsets, refuse_foreign_group
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.crash.processes import send
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import make_topics, produce, stands_still

# A close without a limit hangs for as long as the broker is frozen.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
ANSWER_LIMIT_S = 10.0


def progress(batch: int, **ends: int) -> dict[str, Any]:
    """Return Spark's progress of a finished batch that read topic ``in`` to these offsets."""
    return {"batchId": batch, "sources": [{"description": "KafkaV2[Subscribe[in]]", "endOffset": {"in": ends}}]}


def committed(connection: KafkaConnection, group: str) -> int | None:
    """Return the group's offset in ``in``; None while its coordinator moves."""
    reader = Consumer(connection.for_librdkafka(**{"group.id": group}))
    try:
        (position,) = reader.committed([TopicPartition("in", 0)], ANSWER_LIMIT_S)
        return int(position.offset)
    except KafkaException:
        return None
    finally:
        reader.close()


@pytest.mark.long
def test_a_frozen_broker_does_not_hold_the_close(tmp_path, caplog):
    with Broker(tmp_path / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        make_topics(connection, "in")
        offsets = GroupOffsets(connection, "reader")
        offsets.note(progress(0, **{"0": 7}))
        wait_until("the committed offset", lambda: committed(connection, "reader") == 7)
        assert broker.pid is not None
        frozen = with_descendants([broker.pid])
        send(signal.SIGSTOP, frozen)
        try:
            wait_until("all of the broker stands still", lambda: all(map(stands_still, frozen)))
            offsets.note(progress(1, **{"0": 9}))
            with caplog.at_level(logging.WARNING):
                offsets.close()
        finally:
            send(signal.SIGCONT, frozen)
        said = caplog.text
        assert "the last group offsets may not be committed" in said, f"committed: {committed(connection, 'reader')}"


def test_the_last_offsets_are_committed_before_the_close_returns(broker, connection):
    make_topics(connection, "in")
    offsets = GroupOffsets(connection, "reader-of-last")
    offsets.note(progress(0, **{"0": 5}))
    offsets.close()
    assert committed(connection, "reader-of-last") == 5


def test_a_group_of_another_application_is_refused_and_not_moved(broker, connection):
    make_topics(connection, "in", partitions=1)
    produce(connection, "in", [b"1", b"2", b"3"])
    other = Consumer(connection.for_librdkafka(**{"group.id": "orders", "enable.auto.commit": False}))
    other.subscribe(["in"])
    wait_until("the group's member", lambda: other.poll(0.1) or other.assignment())
    with pytest.raises(SettingsError, match=r"'orders' is the name of a consumer group that another.*member rdkafka"):
        refuse_foreign_group(connection, "orders")
    other.commit(offsets=[TopicPartition("in", 0, 2)], asynchronous=False)
    other.close()
    with pytest.raises(SettingsError, match=r"uses \(offset 2 of in-0\)"):
        refuse_foreign_group(connection, "orders")
    offsets = GroupOffsets(connection, "orders")
    offsets.note(progress(0, **{"0": 3}))
    offsets.close()
    assert committed(connection, "orders") == 2


def test_the_pipelines_own_group_and_those_of_slots_are_no_others(broker, connection):
    make_topics(connection, "in", partitions=1)
    refuse_foreign_group(connection, "own")
    for end in (3, 4):
        offsets = GroupOffsets(connection, "own")
        offsets.note(progress(0, **{"0": end}))
        offsets.close()
        refuse_foreign_group(connection, "own")
    assert committed(connection, "own") == 4
    offsets_of_slot = Marker(batch=7, attempt=3, checkpoint_id="c").metadata()
    reader = Consumer(connection.for_librdkafka(**{"group.id": "own-0"}))
    reader.commit(offsets=[TopicPartition("in", 0, 7, offsets_of_slot)], asynchronous=False)
    reader.close()
    refuse_foreign_group(connection, "own-0")
