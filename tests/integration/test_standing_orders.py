"""Standing orders on a real broker: a decided transaction without an operator is committed, tried in a dry run, or held back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.lifecycle.decisions import Settled
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, VIEWER, CollectorProcess, running
from tests.integration.command_line_process import command
from tests.integration.kafka_fixtures import wait_until
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration
OWNER = "night shift"
LIMIT_REACHED = "its limit of 1 in an hour is reached"
TIMEOUT_MS = 300_000
"""Two starts of a collector on a busy machine fit into it."""
ORDER = """
owner = "{owner}"

[[order]]
name = "save it"
act = "commit"
applications = ["{application}"]
less_than_s_left = 3600
most_per_hour = {most}
dry_run = {dry_run}
"""
Start = Callable[..., AbstractContextManager[CollectorProcess]]


@pytest.fixture
def pipeline(connection: KafkaConnection, lifecycle_topic: str) -> ReportedPipeline:
    DecisionLog(connection).ensure_topic()
    return ReportedPipeline(connection, lifecycle_topic, timeout_ms=TIMEOUT_MS)


@pytest.fixture
def start(broker: Broker, lifecycle_topic: str, pipeline: ReportedPipeline, tmp_path: Path) -> Start:
    """Run a collector with one standing order; again on the same directory, it is a restart."""

    @contextmanager
    def started(*, dry_run: bool = False, most: int = 10, application: str = "") -> Iterator[CollectorProcess]:
        file = tmp_path / "standing_orders.toml"
        application = application or pipeline.prefix
        words = str(dry_run).lower()
        file.write_text(ORDER.format(owner=OWNER, application=application, most=most, dry_run=words))
        file.chmod(0o600)
        arguments = ["--standing-orders", str(file)]
        settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic, "INDOUBT_METRICS_ACCESS": "loopback"}
        with running(broker.bootstrap_servers, tmp_path / "collector", arguments, settings) as collector:
            yield collector

    return started


def given_by_order(collector: CollectorProcess) -> list[tuple[str, str, list[str]]]:
    """Return (who, outcome, keys) of the audit rows that standing orders left, oldest first."""
    rows = [row for row in reversed(collector.rows("audit")) if row["reason"].startswith("standing order save it: ")]
    return [(row["who"], row["outcome"], row["keys"]) for row in rows]


def outcomes(collector: CollectorProcess) -> list[str]:
    return [outcome for _, outcome, _ in given_by_order(collector)]


def why_held(collector: CollectorProcess) -> str:
    return str(collector.rows("standing-orders")[0]["why"])


def alert(collector: CollectorProcess, rule: str) -> dict[str, object] | None:
    return next((row for row in collector.rows("alerts") if row["rule"] == rule and row["state"] == "firing"), None)


def test_a_decided_transaction_is_committed_without_an_operator(start: Start, pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"saved")
    with start() as collector:
        collector.wait_for(handle.transaction, state="prepared")
        pipeline.decide(handle)
        done = collector.wait_for(handle.transaction, state="committed")
        wait_until("the row is visible", lambda: pipeline.visible() == [b"saved"], LIMIT_S)

        wait_until("the audit has it", lambda: given_by_order(collector), LIMIT_S)
        assert given_by_order(collector) == [(OWNER, "accepted", [done["key"]])]
        audit = collector.rows("audit")[0]
        assert audit["evidence"][0] == {"standing_order": "save it", "dry_run": False}
        assert "left before its timeout" in audit["reason"]
        outcome = pipeline.log.read_to_end().outcome(handle.key)
        assert outcome is not None
        assert (outcome.settled, outcome.who) == (Settled.COMMITTED, f"operator:{OWNER}")

        wait_until("it is counted", lambda: collector.rows("standing-orders")[0]["acts"] == 1, LIMIT_S)
        (row,) = collector.rows("standing-orders")
        assert (row["state"], row["owner"]) == ("acts", OWNER)
        acted = wait_until("alert A13", lambda: alert(collector, "A13"), LIMIT_S)
        assert "acted without a person" in str(acted["summary"])
        assert 'indoubt_standing_order_acts_total{act="commit",standing_order="save it"} 1.0' in collector.metrics()


@pytest.mark.long
def test_a_dry_run_is_in_the_audit_once_and_leaves_it_open(start: Start, pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"only a dry run")
    pipeline.decide(handle)
    for _ in ("at first", "after a restart"):
        with start(dry_run=True) as collector:
            row = collector.wait_for(handle.transaction, verdict="commit it")
            wait_until("the dry run is in the audit", lambda: given_by_order(collector), LIMIT_S)
            wait_until("it was evaluated again", evaluated_again(collector), LIMIT_S)
            assert given_by_order(collector) == [(OWNER, "dry_run", [row["key"]])]
            (step,) = [row["detail"] for row in collector.rows("audit") if row["outcome"] == "dry_run"]
            assert "EndTxn(commit)" in step
            assert pipeline.sink.view(handle.transaction).state == "Ongoing"
            assert pipeline.visible() == []
            assert alert(collector, "A13") is None
    # The owner has read the audit and lets it act.
    with start(dry_run=False) as collector:
        wait_until("the row is visible", lambda: pipeline.visible() == [b"only a dry run"], LIMIT_S)
        wait_until("the audit has it", lambda: outcomes(collector) == ["dry_run", "accepted"], LIMIT_S)


@pytest.mark.long
def test_stopped_nothing_acts_also_after_a_restart(start: Start, pipeline: ReportedPipeline) -> None:
    with start() as collector:
        refused = command(collector, "standing-orders", "stop", "--reason", "a drill", token=VIEWER)
        assert refused.code == 1
        assert "takes an operator" in refused.err
        assert command(collector, "standing-orders", "stop", "--reason", "a drill").code == 0
        handle = pipeline.prepare(b"held back")
        pipeline.decide(handle)
        held = wait_until("alert A14", lambda: alert(collector, "A14"), LIMIT_S)
        assert held["severity"] == "critical"
        assert "all standing orders are stopped" in str(held["summary"])
    with start() as collector:
        collector.wait_for(handle.transaction, verdict="commit it")
        wait_until("it is held back", lambda: collector.rows("standing-orders")[0]["held"] == 1, LIMIT_S)
        (row,) = collector.rows("standing-orders")
        assert (row["state"], row["switched_by"]) == ("stopped", "anna")
        assert given_by_order(collector) == []
        assert pipeline.visible() == []

        assert command(collector, "standing-orders", "start", "--reason", "the drill is over", "--yes").code == 0
        wait_until("the row is visible", lambda: pipeline.visible() == [b"held back"], LIMIT_S)
        switches = [
            (r["action"], r["who"], r["outcome"])
            for r in reversed(collector.rows("audit"))
            if "standing" in r["action"]
        ]
        assert switches == [
            ("stop standing orders", "ben", "refused"),
            ("stop standing orders", "anna", "accepted"),
            ("start standing orders", "anna", "accepted"),
        ]


@pytest.mark.long
def test_it_acts_no_more_often_than_its_limit_says(start: Start, pipeline: ReportedPipeline) -> None:
    handles = [pipeline.prepare(b"row-%d" % slot, slot=slot) for slot in (0, 1)]
    pipeline.decide(*handles)
    for _ in ("at first", "after a restart"):
        with start(most=1) as collector:
            wait_until("one is committed", lambda: len(pipeline.visible()) == 1, LIMIT_S)
            wait_until("it is held back", lambda: why_held(collector) == LIMIT_REACHED, LIMIT_S)
            assert outcomes(collector) == ["accepted"]


@pytest.mark.long
def test_another_applications_transaction_is_left_alone(start: Start, pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"not named")
    pipeline.decide(handle)
    with start(application=f"{pipeline.prefix}-other") as collector:
        collector.wait_for(handle.transaction, verdict="commit it")
        wait_until("it was evaluated again", evaluated_again(collector), LIMIT_S)
        assert given_by_order(collector) == []
        assert collector.rows("standing-orders")[0]["held"] == 0
        assert pipeline.visible() == []


def evaluated_again(collector: CollectorProcess) -> Callable[[], bool]:
    """Return whether what is due was judged anew since this call, at least twice."""
    seen: set[int] = set()

    def holds() -> bool:
        seen.add(collector.rows("standing-orders")[0]["evaluated_at_ms"])
        return len(seen) > 3

    return holds
