"""Orders that are cut short: the broker or the collector ends at the very request, and the follow-up finds out, acting once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle.decisions import Settled
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, SHORT_ORDERS, CollectorProcess
from tests.integration.cutting_proxy import END_TXN, CuttingProxy, broker_behind_proxy
from tests.integration.kafka_fixtures import make_sink, wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]
LIFECYCLE = f"lifecycle-{uuid.uuid4().hex[:8]}"
TIMEOUT_MS = 600_000
"""Longer than any broker takes to come back: nothing here may end by its timeout."""
SETTLED_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A broker behind the proxy, and a collector of its own."""

    broker: Broker
    proxy: CuttingProxy
    connection: KafkaConnection
    collector: CollectorProcess

    def audit(self, key: str) -> list[dict[str, Any]]:
        """Return the audit rows about a transaction, oldest first."""
        return [row for row in reversed(self.collector.rows("audit")) if key in row["keys"]]

    def under_way(self, key: str) -> list[dict[str, Any]]:
        """Return the orders about a transaction that are under way."""
        return self.collector.rows(f"orders/under-way?key={quote(key, safe='')}")

    def outcomes(self, key: str) -> list[tuple[str, int | None]]:
        """Return (outcome, which audit row it refers to) of each."""
        return [(row["outcome"], row["refers_to"]) for row in self.audit(key)]

    def wait_settled(self, key: str, audit: int, outcome: str = "accepted") -> None:
        """Wait for the later row that says how the order ended."""
        wanted = [("pending", None), (outcome, audit)]
        wait_until(f"{wanted} in the audit", lambda: self.outcomes(key) == wanted, SETTLED_S)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with broker_behind_proxy(tmp_path_factory.mktemp("broker")) as (broker, proxy, address):
        connection = KafkaConnection(address)
        DecisionLog(connection).ensure_topic()
        admin = AdminClient(connection.for_librdkafka())
        admin.create_topics([NewTopic(LIFECYCLE, 1, 1)])[LIFECYCLE].result(LIMIT_S)
        collector = _collector(connection, tmp_path_factory.mktemp("collector"))
        collector.start()
        try:
            yield Site(broker=broker, proxy=proxy, connection=connection, collector=collector)
        finally:
            collector.kill()


def _collector(connection: KafkaConnection, directory: Path) -> CollectorProcess:
    settings = {"INDOUBT_LIFECYCLE_TOPIC": LIFECYCLE}
    return CollectorProcess(connection.bootstrap_servers, directory, environment=settings, defaults=SHORT_ORDERS)


@pytest.mark.parametrize(
    "answer_lost",
    [pytest.param(False, id="request lost"), pytest.param(True, id="answer lost")],
)
def test_a_commit_cut_by_its_broker_is_pending_and_settled_later(site: Site, answer_lost: bool) -> None:
    pipeline = ReportedPipeline(site.connection, LIFECYCLE, TIMEOUT_MS)
    handle = pipeline.prepare(b"once")
    pipeline.decide(handle)
    row = site.collector.wait_for(handle.transaction, verdict="commit it", may_commit=True)
    executed: list[dict[str, Any]] = []

    def look_and_kill() -> None:
        executed.extend(site.under_way(row["key"]))
        site.broker.kill()

    cut = site.proxy.at_next(END_TXN, look_and_kill, answer_lost=answer_lost)
    answer = site.collector.order("commit", row, idempotency_key=f"cut-{answer_lost}").json()
    assert cut.done.is_set()
    assert [(one["action"], one["keys"], one["who"], one["audit"]) for one in executed] == [
        ("commit", [row["key"]], "anna", None)
    ]
    assert [one["audit"] for one in site.under_way(row["key"])] == [answer["audit"]]
    assert site.under_way("kafka:another:1:1") == []
    assert (answer["outcome"], [s["outcome"] for s in answer["steps"]]) in [
        ("pending", ["retry later"]),
        ("pending", ["unknown"]),
    ]
    assert site.outcomes(row["key"]) == [("pending", None)]
    site.broker.start()
    site.wait_settled(row["key"], answer["audit"])
    wait_until("nothing is under way", lambda: site.under_way(row["key"]) == [])
    _wait_visible(site, pipeline, handle.transaction)
    assert pipeline.visible() == [b"once"]
    outcome = pipeline.log.read_to_end().outcome(handle.key)
    assert outcome is not None
    assert (outcome.settled, outcome.who) == (Settled.COMMITTED, "operator:anna")
    again = site.collector.order("commit", row, idempotency_key=f"cut-{answer_lost}").json()
    assert again == answer, "the same key gets the first answer"


def _wait_visible(site: Site, pipeline: ReportedPipeline, transaction: str) -> None:
    """Wait for the row of what was committed.

    A coordinator that was just started accepts the end before its markers are written. Half the time it never writes them: then
    an order for the commit marker does.
    """
    ordered: list[str] = []

    def visible() -> bool:
        hanging = [row for row in site.collector.rows("hanging") if row["transaction"] == transaction]
        for row in hanging:
            assert (row["rule"], row["may_commit"], row["may_abort"]) == (6, True, False)
            if row["key"] not in ordered:
                ordered.append(row["key"])
                assert site.collector.order("commit", row).json()["outcome"] == "accepted"
        return bool(pipeline.visible())

    wait_until("the row is visible", visible, SETTLED_S)


def test_an_abort_of_a_foreign_transaction_cut_by_its_broker_is_settled(site: Site) -> None:
    sink, id_ = make_sink(site.connection, partitions=1), f"abandoned-{uuid.uuid4().hex[:8]}"
    settings = {"transactional.id": id_, "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer(site.connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"never committed")
    assert producer.flush(LIMIT_S) == 0
    row = site.collector.wait_for(id_, verdict="foreign", may_abort=True)
    cut = site.proxy.at_next(END_TXN, site.broker.kill)
    answer = site.collector.order("abort", row, confirm=id_).json()
    assert cut.done.is_set()
    assert answer["outcome"] == "pending"
    site.broker.start()
    site.wait_settled(row["key"], answer["audit"])
    assert not read_committed(site.connection, sink.topic)
    wait_until(
        "the operator is its cause",
        lambda: [r["cause"] for r in site.collector.rows("aborts") if r["transaction"] == id_] == ["operator"],
    )


def test_a_collector_that_ends_in_the_middle_of_an_order_finds_it_again(site: Site) -> None:
    pipeline = ReportedPipeline(site.connection, LIFECYCLE, TIMEOUT_MS)
    handles = [pipeline.prepare(b"row-%d" % slot, slot=slot) for slot in (0, 1)]
    pipeline.decide(*handles)
    rows = [site.collector.wait_for(h.transaction, verdict="commit it") for h in handles]
    cut = site.proxy.at_next(END_TXN, site.collector.kill_process)
    with pytest.raises(httpx.HTTPError):
        pytest.fail(f"answered: {site.collector.order('commit', *rows, idempotency_key='ends').text}")
    assert cut.done.wait(LIMIT_S)
    site.collector.kill()
    site.collector.start()
    wait_until(
        "both are known to be committed",
        lambda: {step["key"] for step in _told(site, rows[0]["key"])} == {row["key"] for row in rows},
        SETTLED_S,
    )
    first, *later = site.audit(rows[0]["key"])
    assert (first["outcome"], sorted(first["keys"])) == ("pending", sorted(row["key"] for row in rows))
    assert {row["outcome"] for row in later} == {"accepted"}
    wait_until("both rows are visible", lambda: len(pipeline.visible()) >= 2)
    assert pipeline.visible() == [b"row-0", b"row-1"]
    answer = site.collector.order("commit", *rows, idempotency_key="ends").json()
    assert (answer["audit"], answer["outcome"]) == (first["audit"], "pending")
    refused = site.collector.order("commit", *rows, idempotency_key="ends", reason="another")
    assert refused.status_code == 409
    assert "came with another order" in refused.json()["detail"]


def _told(site: Site, key: str) -> list[dict[str, Any]]:
    """Return the steps of the rows that follow up the order about this transaction."""
    first = site.audit(key)
    if not first:
        return []
    later = [row for row in site.collector.rows("audit") if row["refers_to"] == first[0]["audit"]]
    return [step for row in later for step in json.loads(row["detail"])]
