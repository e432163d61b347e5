"""A Flink job dies behind a completed checkpoint whose list this machine may not read: rule 30, on a real broker.

The JobManager's REST API gives a real Flink's answers; the checkpoint before it is a recorded one under another number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.flink_job_manager import JobManager
from tests.integration.flink_transactions import NAME, Prepared, prepare, write_checkpoint
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import read_committed

pytestmark = pytest.mark.integration
CLUSTER = "shop"
HEADER, BEFORE = b"\x49\x60\x67\x2d\x00\x00\x00\x06", 2
"""The first bytes of a ``_metadata`` of version 6; its checkpoint's number follows. The checkpoint before the recorded one."""
NOBODY_READS = "/proc/sys/vm/compact_memory"
"""A file that Linux lets nobody read, root neither."""


@dataclass
class Died:
    """A job that died: what it left open, and where the list is that names it."""

    prepared: Prepared
    list_: Path
    collector: CollectorProcess


def list_before(prepared: Prepared) -> bytes:
    """Return a ``_metadata`` of the checkpoint before: the same sink, and the ids before those that are open."""
    number = (3).to_bytes(8, "big")
    assert prepared.metadata.startswith(HEADER + number)
    data = HEADER + BEFORE.to_bytes(8, "big") + prepared.metadata[len(HEADER) + 8 :]
    for id_ in prepared.ids:
        assert id_.endswith("-3")
        data = data.replace(id_.encode(), id_.encode().removesuffix(b"3") + b"2")
    return data


@pytest.fixture
def died(broker: Broker, connection: KafkaConnection, tmp_path: Path) -> Iterator[Died]:
    prepared, manager = prepare(connection, timeout_ms=300_000), JobManager()
    before = write_checkpoint(tmp_path / "flink", list_before(prepared), f"chk-{BEFORE}")
    manager.take(before, triggered_ms=manager.now_ms - 30_000)
    directory = before.parent / NAME
    directory.mkdir()
    (directory / "_metadata").symlink_to(NOBODY_READS)
    # It began longer before than clocks may differ.
    manager.take(directory, triggered_ms=manager.now_ms + 1_100)
    places = ["--flink", f"{CLUSTER}={manager.url}", "--flink-checkpoints", f"{CLUSTER}={tmp_path / 'flink'}"]
    settings = {"INDOUBT_FLINK_POLLING_MS": "100"}
    try:
        with running(broker.bootstrap_servers, tmp_path / "collector", places, settings) as collector:
            for id_ in prepared.ids:
                collector.wait_for(id_, verdict="in progress", rule=27)
            manager.die()
            yield Died(prepared, directory / "_metadata", collector)
    finally:
        manager.die()


def offered(died: Died) -> list[dict[str, Any]]:
    """Return the rows of what is open, once rule 30 offers to commit it."""
    fields = {"verdict": "commit it", "rule": 30, "may_commit": True, "may_abort": True, "commit_confirmation": NAME}
    return [died.collector.wait_for(id_, **fields) for id_ in died.prepared.ids]


def test_what_a_completed_checkpoint_must_hold_is_committed(died: Died, connection: KafkaConnection) -> None:
    rows, topic = offered(died), died.prepared.sink.topic
    facts = json.dumps(rows[0]["evidence"])
    assert f"REST reported checkpoint 3 of {CLUSTER}/orders as completed" in facts
    assert "_metadata cannot be read: " in facts
    unconfirmed = died.collector.order("commit", *rows)
    assert unconfirmed.status_code == 409
    assert f"Repeat '{NAME}' in 'confirm'" in unconfirmed.json()["detail"]
    assert read_committed(connection, topic).total() == 0

    done = died.collector.order("commit", *rows, confirm=NAME, reason="the job manager is gone").json()
    assert (done["outcome"], [step["outcome"] for step in done["steps"]]) == ("accepted", ["committed"] * len(rows))
    expected = {b"of " + id_.encode(): 1 for id_ in died.prepared.ids}
    wait_until("the rows are seen", lambda: dict(read_committed(connection, topic)) == expected, LIMIT_S)
    for id_ in died.prepared.ids:
        died.collector.wait_for(id_, state="committed", verdict="settled")
    audit = died.collector.rows("audit")[0]
    assert (audit["outcome"], audit["reason"]) == ("accepted", "the job manager is gone")
    assert "as completed" in json.dumps(audit["evidence"])


def test_a_list_that_can_be_read_by_then_and_names_others_commits_nothing(
    died: Died, connection: KafkaConnection
) -> None:
    rows = offered(died)
    died.list_.unlink()
    died.list_.write_bytes(died.prepared.metadata.replace(b"-3", b"-9"))
    refused = died.collector.order("commit", *rows, confirm=NAME)
    assert refused.status_code == 409, refused.text
    for id_ in died.prepared.ids:
        died.collector.wait_for(id_, may_commit=False)
    assert read_committed(connection, died.prepared.sink.topic).total() == 0
