"""A10 on batches that Kafka and a database hold together: what the snapshot shows of them, and what the rule finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.rules.batches import one_sided
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.assessments import situation_at
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    event,
    handle,
    observe,
    outcome,
    run_started,
    transaction_event,
)

KAFKA, MYSQL = handle(), database_handle()
TakeSnapshot = Callable[..., Situation]


def told(of: Handle) -> Observation:
    return transaction_event(EventType.TRANSACTION_PREPARED, 500, of, handle=of.to_json())


PREPARED = (run_started(), broker_record(BrokerStatus.ONGOING, 0), branch_listed(MYSQL), told(KAFKA), told(MYSQL))
DECIDED = (*PREPARED, decided(1, KAFKA, MYSQL))
KAFKA_DONE = tuple(broker_record(s, 1_100) for s in (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT))
KAFKA_UNDONE = tuple(broker_record(s, 1_100) for s in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT))
MYSQL_DONE = (branch_gone(MYSQL, BranchProof.COMMITTED), outcome(2, MYSQL, Settled.COMMITTED))


@pytest.fixture
def take_snapshot(current: CurrentState) -> TakeSnapshot:
    current.see_decision_log(DecisionLogStatus.READABLE)

    def seen(*observations: Observation, at: int) -> Situation:
        observe(current, *observations)
        return situation_at(current, [], AlertSettings(), T0 + at)

    return seen


@pytest.mark.parametrize(
    ("observations", "done", "missing", "since"),
    [
        # Its driver committed the one side and froze before the other.
        ((*DECIDED, *KAFKA_DONE), "kafka", "mysql", 1_000),
        ((*DECIDED, *MYSQL_DONE), "mysql", "kafka", 1_000),
        # Lost in Kafka, kept in the database, and nobody replays it.
        ((*DECIDED, *MYSQL_DONE, *KAFKA_UNDONE), "mysql", "kafka", 1_000),
        # Somebody committed one branch by hand, although nothing was decided; its other side was rolled back.
        ((*PREPARED, *KAFKA_UNDONE, branch_gone(MYSQL, BranchProof.COMMITTED)), "mysql", "kafka", 3_000),
        ((*PREPARED, *KAFKA_DONE, branch_gone(MYSQL, BranchProof.NO_MARKER)), "kafka", "mysql", 3_000),
    ],
)
def test_a_batch_on_one_side_only(
    take_snapshot: TakeSnapshot, observations: tuple[Observation, ...], done: str, missing: str, since: int
) -> None:
    for at in (60_000, 3_600_000):
        snapshot = take_snapshot(*(observations if at == 60_000 else ()), at=at)
        (one,) = snapshot.read(one_sided)
        assert (one.pipeline, one.batch, one.done_in, one.missing_in) == (PREFIX, 41, (done,), (missing,))
        assert one.since_ms == T0 + since
    found = [finding for finding in rules.findings(snapshot) if finding.rule == "A10"]
    assert [finding.labels["batch"] for finding in found] == ["41"]


ALIVE = event(EventType.CHECKPOINT_STARTED, 50_000, batch=42)


@pytest.mark.parametrize(("at", "verdict"), [(6_000, Verdict.IN_PROGRESS), (58_000, Verdict.AT_RISK)])
def test_one_side_that_was_committed_by_hand_while_its_driver_is_at_work(
    take_snapshot: TakeSnapshot, at: int, verdict: Verdict
) -> None:
    snapshot = take_snapshot(*PREPARED, branch_gone(MYSQL, BranchProof.COMMITTED), ALIVE, at=at)
    assert [one.judgement.verdict for one in snapshot.judged if one.view.is_running] == [verdict]
    assert [(one.done_in, one.since_ms) for one in snapshot.read(one_sided)] == [(("mysql",), T0 + 3_000)]


@pytest.mark.parametrize(
    "observations",
    [
        PREPARED,
        DECIDED,
        (*DECIDED, *KAFKA_DONE, *MYSQL_DONE),
        (*PREPARED, *KAFKA_UNDONE, branch_gone(MYSQL, BranchProof.NO_MARKER)),
        # One resource manager alone has no other side.
        (run_started(), broker_record(BrokerStatus.ONGOING, 0), told(KAFKA), decided(1, KAFKA), *KAFKA_UNDONE),
    ],
)
def test_batches_whose_sides_do_not_contradict_each_other(
    take_snapshot: TakeSnapshot, observations: tuple[Observation, ...]
) -> None:
    assert take_snapshot(*observations, at=60_000).read(one_sided) == ()


def test_a_driver_that_is_just_committing_is_given_the_time(take_snapshot: TakeSnapshot) -> None:
    assert take_snapshot(*DECIDED, *KAFKA_DONE, at=1_200).read(one_sided) == ()
