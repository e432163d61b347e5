"""An order about a Flink job's transaction is cut by its broker: the follow-up gives it again if it still is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import FOLLOW_UP, SHORT_ORDERS, CollectorProcess, running
from tests.integration.cutting_proxy import END_TXN, CuttingProxy, broker_behind_proxy
from tests.integration.flink_transactions import NAME, Prepared, prepare, write_checkpoint
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import read_committed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
TIMEOUT_MS = 600_000
"""Longer than any broker takes to come back: nothing here may end by its timeout."""
SETTLED_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A broker behind the proxy, a collector of its own, and the transactions that a checkpoint lists, or will."""

    broker: Broker
    proxy: CuttingProxy
    connection: KafkaConnection
    collector: CollectorProcess
    prepared: Prepared
    checkpoints: Path

    def list_them(self) -> Path:
        """Write the checkpoint that lists the transactions; return its ``_metadata``."""
        return write_checkpoint(self.checkpoints, self.prepared.metadata) / "_metadata"

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit rows, oldest first."""
        return list(reversed(self.collector.rows("audit")))

    def rows_seen(self) -> dict[bytes, int]:
        return dict(read_committed(self.connection, self.prepared.sink.topic))


@contextmanager
def site(directory: Path, max_ms: int) -> Iterator[Site]:
    with broker_behind_proxy(directory / "broker") as (broker, proxy, address):
        connection = KafkaConnection(address)
        prepared = prepare(connection, TIMEOUT_MS)
        defaults = {**SHORT_ORDERS, f"{FOLLOW_UP}.max_ms": max_ms}
        options = ["--flink-checkpoints", f"shop={directory / 'flink'}"]
        with running(address, directory / "collector", options, defaults=defaults) as collector:
            yield Site(
                broker=broker,
                proxy=proxy,
                connection=connection,
                collector=collector,
                prepared=prepared,
                checkpoints=directory / "flink",
            )


@pytest.mark.long
def test_a_commit_that_its_coordinator_never_got_is_sent_again(tmp_path: Path) -> None:
    with site(tmp_path, max_ms=600_000) as at:
        at.list_them()
        row = at.collector.wait_for(at.prepared.ids[0], verdict="commit it", commit_confirmation=NAME)
        cut = at.proxy.at_next(END_TXN, at.broker.kill)
        answer = at.collector.order("commit", row, confirm=NAME).json()
        assert cut.done.is_set()
        assert answer["outcome"] == "pending"
        at.broker.start()

        expected = {b"of " + at.prepared.ids[0].encode(): 1}
        wait_until("the row is seen", lambda: at.rows_seen() == expected, SETTLED_S)
        wait_until("the order is settled", lambda: len(at.audit()) > 1, SETTLED_S)
        assert [(one["outcome"], one["refers_to"]) for one in at.audit()] == [
            ("pending", None),
            ("accepted", answer["audit"]),
        ]
        at.collector.wait_for(at.prepared.ids[0], state="committed")
        at.collector.wait_for(at.prepared.ids[1], verdict="commit it")


@pytest.mark.long
def test_what_no_checkpoint_lists_any_more_is_not_sent_again(tmp_path: Path) -> None:
    def kill_and_remove() -> None:
        metadata.unlink()
        at.broker.kill()

    with site(tmp_path, max_ms=20_000) as at:
        metadata, id_ = at.list_them(), at.prepared.ids[0]
        row = at.collector.wait_for(id_, verdict="commit it", commit_confirmation=NAME)
        cut = at.proxy.at_next(END_TXN, kill_and_remove)
        assert at.collector.order("commit", row, confirm=NAME).json()["outcome"] == "pending"
        assert cut.done.is_set()
        at.broker.start()
        wait_until("the order is given up", lambda: len(at.audit()) > 1, SETTLED_S)
        given_up = at.audit()[1]
        (step,) = json.loads(given_up["detail"])
        assert (given_up["outcome"], step["outcome"]) == ("failed", "unknown")
        assert "given up; its end is unknown: not sent again" in step["detail"]
        at.collector.wait_for(id_, state="open")
        assert at.rows_seen() == {}


@pytest.mark.long
def test_an_abort_of_what_is_to_be_committed_by_now_is_not_sent_again(tmp_path: Path) -> None:
    with site(tmp_path, max_ms=30_000) as at:
        id_ = at.prepared.ids[0]
        row = at.collector.wait_for(id_, verdict="foreign", may_abort=True)
        cut = at.proxy.at_next(END_TXN, at.broker.kill)
        assert at.collector.order("abort", row, confirm=id_).json()["outcome"] == "pending"
        assert cut.done.is_set()
        at.list_them()
        at.collector.wait_for(id_, verdict="commit it")
        at.broker.start()
        wait_until("the order is given up", lambda: len(at.audit()) > 1, SETTLED_S)
        (step,) = json.loads(at.audit()[1]["detail"])
        why = "its verdict is 'commit it' now, and was 'foreign' when the abort was ordered"
        assert step["detail"] == f"given up; its end is unknown: not sent again: {why}"
        at.collector.wait_for(id_, state="open", verdict="commit it")
