"""What an alert is about: its page, what ends it, and what pages show it with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import SOURCES_GROUP, Finding, Remedy
from indoubt.collector.assess.rules.applications import AbortSeen
from indoubt.collector.assess.rules.batches import OneSidedBatch
from indoubt.collector.assess.rules.checkpoints import CheckpointHistory
from indoubt.collector.assess.rules.hanging import HangingTransaction
from indoubt.collector.assess.rules.readers import BlockedPartition
from indoubt.collector.assess.situation import Situation
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.observations import Observation
from indoubt.collector.verdicts.driver_state import DriverCondition
from indoubt.lifecycle.verdicts import AbortCause
from tests.unit.collector.assess.situations import driver
from tests.unit.collector.assessments import changed, leaking, look
from tests.unit.collector.notify.rule_findings import DECIDED, FOREIGN, LOST, PREPARED, of_transaction
from tests.unit.collector.observations import PREFIX, T0, observer_of, pipeline, run_started

RUNS = (driver(DriverCondition.ALIVE),)


def only(rule: str, snapshot: Situation) -> Finding:
    """Return the one thing that a rule finds."""
    (finding,) = [finding for finding in rules.findings(snapshot) if finding.rule == rule]
    return finding


@pytest.mark.parametrize(
    ("rule", "at", "observations", "remedy"),
    [
        ("A1", 50_000, DECIDED, Remedy.COMMIT),
        ("A2", 50_000, DECIDED, Remedy.COMMIT),
        # Its driver is gone: no heartbeat for longer than it may be silent.
        ("A1", 50_000, PREPARED, Remedy.ABORT),
        ("A1", 50_000, (*PREPARED, run_started(7, 40_000, "run-2")), Remedy.ABORT),
        ("A1", 50_000, FOREIGN, Remedy.OPEN),
        ("A7", 90_000, LOST, Remedy.RESTART),
    ],
)
def test_the_remedy_is_what_the_verdict_allows(
    rule: str, at: int, observations: tuple[Observation, ...], remedy: Remedy
) -> None:
    seen = of_transaction(at, *observations, latest_run_offset=0)
    assert only(rule, changed(seen, drivers=RUNS)).remedy is remedy


def test_alerts_about_one_transaction_lead_to_it_and_stand_with_its_application() -> None:
    snapshot = of_transaction(50_000, *DECIDED)
    near, overdue = only("A1", snapshot), only("A2", snapshot)
    assert near.path == overdue.path == f"/transaction?key=kafka%3Aip-count-0-1%3A0%3A4%40{T0}"
    assert near.group == overdue.group == f"application {PREFIX}", "and are one incident with other batches"


def test_readers_that_wait_are_shown_with_the_application_that_they_wait_for() -> None:
    blocked = BlockedPartition(partition="my-topic-12", since_ms=T0, groups=("orders",), transaction="ip-count-0-1")
    waiting = only("A4", changed(of_transaction(50_000, *DECIDED), blocked=(blocked,)))
    assert waiting.group == f"application {PREFIX}"
    assert (waiting.remedy, waiting.labels["pipeline"]) == (Remedy.COMMIT, PREFIX)
    assert waiting.path == "/partition?topic=my-topic&partition=12"
    unknown = only("A4", look(now_ms=T0 + 50_000, blocked=(blocked,)))
    assert (unknown.group, unknown.remedy) == ("topic my-topic", Remedy.OPEN)


@pytest.mark.parametrize(
    ("may_commit", "may_abort", "remedy"),
    [(True, False, Remedy.COMMIT), (False, True, Remedy.ABORT), (False, False, Remedy.OPEN)],
)
def test_a_hanging_transaction_offers_the_marker_that_is_right(
    may_commit: bool, may_abort: bool, remedy: Remedy
) -> None:
    held = HangingTransaction(
        partition="sink-0",
        producer_id=7,
        producer_epoch=2,
        since_ms=T0,
        application="producer 7",
        may_commit=may_commit,
        may_abort=may_abort,
    )
    finding = only("A3", look(now_ms=T0 + 1, hanging=(held,)))
    assert (finding.remedy, finding.path, finding.group) == (
        remedy,
        "/partition?topic=sink&partition=0",
        "application producer 7",
    )


def test_alerts_about_an_application_lead_to_it() -> None:
    aborts = tuple(
        AbortSeen(application="a/b", transaction=f"t-{n}", at_ms=T0, cause=AbortCause.TIMEOUT) for n in range(5)
    )
    snapshot = look(now_ms=T0 + 1, aborts=aborts, id_leaks=(leaking("a/b", 120_000, "new ids"),))
    for rule in ("A5", "A8"):
        finding = only(rule, snapshot)
        assert (finding.path, finding.group) == ("/pipeline?name=a%2Fb", "application a/b")


def test_checkpoints_that_fail_offer_a_restart_of_our_pipelines_alone() -> None:
    newest = CheckpointFacts(pipeline=PREFIX, number=41, started_ms=T0, failed_ms=T0, failures=3)
    checkpoints = CheckpointHistory(pipeline=PREFIX, newest=newest, completed_ms=None, failures=3)
    foreign = look(now_ms=T0 + 90_000, checkpoints=(checkpoints,))
    assert only("A6", foreign).remedy is Remedy.OPEN
    managed = changed(foreign, pipelines={PREFIX: pipeline(latest_run_offset=0)}, drivers=RUNS)
    assert only("A6", managed).remedy is Remedy.RESTART
    assert only("A6", foreign).path == f"/pipeline?name={PREFIX}"


def test_a_batch_on_one_side_only_leads_to_its_batch() -> None:
    one = OneSidedBatch(pipeline=PREFIX, batch=41, done_in=("kafka",), missing_in=("mysql",), since_ms=T0)
    finding = only("A10", look(now_ms=T0, one_sided=(one,), drivers=RUNS))
    assert (finding.path, finding.group) == (f"/batch?pipeline={PREFIX}&number=41", f"application {PREFIX}")
    assert finding.remedy is Remedy.RESTART


def test_an_observer_that_is_down_leads_to_the_collector() -> None:
    down = ObserverStatus(
        **observer_of("decision log"), state=ObserverState.DOWN, delay_ms=0, since_ms=T0, error="refused", records=0
    )
    finding = only("A9", look(now_ms=T0 + 60_000, observers=(down,)))
    assert (finding.path, finding.group, finding.remedy) == ("/collector", SOURCES_GROUP, Remedy.OPEN)


def test_an_alert_about_nothing_that_has_a_page_leads_to_itself() -> None:
    finding = replace(only("A1", of_transaction(50_000, *FOREIGN)), object_path="")
    assert finding.path == f"/alert?key=A1%7Ckafka%3Aflink-orders-3%3A0%3A4%40{T0}"
