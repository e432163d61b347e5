"""Alert rules A1 to A11 (A12: test_flink_duplicates), each on the cases where it must and must not find something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess import rules as alert_rules
from indoubt.collector.assess.findings import LABELS, MAX_FINDINGS, SOURCES_GROUP, Finding, Severity
from indoubt.collector.assess.rule import Source
from indoubt.collector.assess.rules import transactions as transaction_rules
from indoubt.collector.assess.rules.applications import AbortSeen
from indoubt.collector.assess.rules.batches import OneSidedBatch
from indoubt.collector.assess.rules.checkpoints import CheckpointHistory
from indoubt.collector.assess.rules.hanging import HangingTransaction
from indoubt.collector.assess.rules.readers import BlockedPartition
from indoubt.collector.assess.rules.sources import UnreadCheckpoints
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts, PipelineFacts
from indoubt.collector.records.formats.flink_records import UnreadCheckpoint
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observations import Observation
from indoubt.collector.runtime.clock_offsets import ClockOffset
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.restarts import MeasuredRestarts
from indoubt.collector.verdicts.verdict_case import PipelineHistory
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import AbortCause, Evidence, Judgement, Verdict
from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING
from tests.unit.collector.assessments import changed, leaking, look
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_listed,
    broker_record,
    case,
    database_handle,
    decided,
    event,
    folded,
    handle,
    observer_of,
    only_view,
    pipeline,
    run_started,
    transaction_event,
)

LIMITS = AlertSettings()
OURS = (run_started(), broker_record(BrokerStatus.ONGOING, 0))
PREPARED = (*OURS, transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()))
DECIDED = (*PREPARED, decided(1, handle()))
COMMITTED = (*DECIDED, broker_record(BrokerStatus.COMPLETE_COMMIT, 2000))
ABORTED = (*PREPARED, broker_record(BrokerStatus.COMPLETE_ABORT, 60_000))
LOST = (*DECIDED, broker_record(BrokerStatus.COMPLETE_ABORT, 60_000))
FOREIGN = (broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3"),)


def found(number: str, snapshot: Situation, limits: AlertSettings = LIMITS) -> list[Finding]:
    """Return what one rule finds; every finding of it must be whole."""
    findings = [finding for finding in alert_rules.findings(changed(snapshot, limits=limits)) if finding.rule == number]
    for finding in findings:
        assert finding.evidence
        assert finding.summary
        assert finding.path.startswith("/")
        assert list(finding.labels) == [name for name in LABELS if name in finding.labels]
    return findings


def of_transaction(at: int, *observations: Observation, replayed: int | None = None, **history: Any) -> Situation:
    """Return a snapshot with one transaction, ``at`` ms after T0; its pipeline needs 16 s unless changed."""
    view = only_view(*observations)
    known = pipeline(**history) if view.managed else None
    of_view = case(view, at, pipeline=known, replayed_ms=None if replayed is None else T0 + replayed)
    return look(now_ms=T0 + at, judged=(Judged(view=view, judgement=judge(of_view), pipeline=known),))


@pytest.mark.parametrize(
    ("at", "observations", "history", "severity"),
    [
        # Timeout 60 s; recovery needs 5 s interval + 1 s checkpoint + 10 s restart delay, and a person half of the timeout.
        (29_000, PREPARED, {}, None),
        (30_000, PREPARED, {}, None),
        (30_001, PREPARED, {}, Severity.WARNING),
        (30_001, OURS, {}, Severity.WARNING),
        (30_001, DECIDED, {}, Severity.CRITICAL),
        # The longest restart that was measured, where a person is quicker.
        (20_000, PREPARED, {"restarts": MeasuredRestarts(count=2, longest_ms=40_000, median_ms=9_000)}, None),
        (
            20_001,
            PREPARED,
            {"restarts": MeasuredRestarts(count=2, longest_ms=40_000, median_ms=9_000)},
            Severity.WARNING,
        ),
        # The broker looks every 10 s only, so a transaction outlives its timeout.
        (65_000, PREPARED, {}, Severity.WARNING),
        # The need is this pipeline's own.
        (25_000, PREPARED, {"checkpoint_p99_ms": 20_000}, None),
        (25_001, PREPARED, {"checkpoint_p99_ms": 20_000}, Severity.WARNING),
        (30_000, PREPARED, {"restart_delay_ms": 1_000}, None),
        # A pipeline whose recovery never fits into its timeout is quiet while its transactions are no older than usual.
        (5_000, PREPARED, {"restart_delay_ms": 90_000}, None),
        (6_000, PREPARED, {"restart_delay_ms": 90_000}, Severity.WARNING),
        (29_000, PREPARED, {"restart_delay_ms": 90_000, "checkpoint_p99_ms": 50_000}, None),
        (30_000, PREPARED, {"restart_delay_ms": 90_000, "checkpoint_p99_ms": 50_000}, Severity.WARNING),
        # Of a foreign one no history is known: 20 s are assumed, and a person needs longer.
        (30_000, FOREIGN, {}, None),
        (30_001, FOREIGN, {}, Severity.WARNING),
        # What has ended, or is ending, does not time out.
        (59_000, COMMITTED, {}, None),
        (61_000, ABORTED, {}, None),
        (59_000, (*DECIDED, broker_record(BrokerStatus.PREPARE_COMMIT, 1500)), {}, None),
    ],
)
def test_a1_timeout_near(
    at: int, observations: tuple[Observation, ...], history: dict[str, Any], severity: Severity | None
) -> None:
    findings = found("A1", of_transaction(at, *observations, **history))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_a1_is_quiet_about_databases_which_have_no_timeout() -> None:
    prepared = transaction_event(
        EventType.TRANSACTION_PREPARED, 500, database_handle(), handle=database_handle().to_json()
    )
    assert not found("A1", of_transaction(3_600_000, run_started(), prepared))


def test_a1_is_quiet_about_short_transactions_with_a_short_timeout() -> None:
    short = replace(broker_record(BrokerStatus.ONGOING, 0, transaction="streams-1"), timeout_ms=10_000)
    assert not found("A1", of_transaction(4_999, short)), "all of its checkpoint id has less than 20 s left"
    assert found("A1", of_transaction(5_000, short))


def test_a1_says_how_much_time_is_left_and_follows_the_clock() -> None:
    first = of_transaction(48_000, *DECIDED)
    (decided_since,) = found("A1", first)
    assert decided_since.severity is Severity.CRITICAL
    (later,) = found("A1", changed(first, now_ms=T0 + 49_000))
    assert "has 11 s left" in later.summary
    (over,) = found("A1", changed(first, now_ms=T0 + 61_000))
    assert "has no time left" in over.summary
    assert found("A1", changed(first, now_ms=T0 + 90_000)) == [over]
    assert found("A1", changed(first, now_ms=T0 + 30_000)) == []
    assert found("A1", changed(first, now_ms=T0 + 30_001)) != []
    (by_other_limits,) = found("A1", of_transaction(48_000, *FOREIGN), replace(LIMITS, foreign_recovery_ms=30_000))
    assert "recovery needs 30 s" in by_other_limits.summary


def test_a1_finds_no_more_than_are_shown_the_lowest_by_key() -> None:
    (judged,) = of_transaction(48_000, *FOREIGN).judged
    ids = [f"flink-orders-{number:05}" for number in range(MAX_FINDINGS + 5)]
    many = [replace(judged, view=replace(judged.view, transaction=id_)) for id_ in ids]
    snapshot = look(now_ms=T0 + 48_000, judged=tuple(reversed(many)))
    findings = list(transaction_rules.a1_timeout_near(snapshot))
    assert [finding.subject for finding in findings] == [each.view.key for each in many[:MAX_FINDINGS]]


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (Verdict.COMMIT_IT, "commit it before the broker aborts it, which loses its rows"),
        (Verdict.ABORT_IT, "the broker will abort it, and nothing is lost"),
        (Verdict.FOREIGN, "the broker will abort it, and only its owner knows what that loses"),
    ],
)
def test_a1_says_of_a_foreign_one_what_its_verdict_knows_of_the_timeout(verdict: Verdict, says: str) -> None:
    snapshot = of_transaction(48_000, *FOREIGN)
    (judged,) = snapshot.judged
    judged = replace(judged, judgement=replace(judged.judgement, verdict=verdict))
    (finding,) = found("A1", changed(snapshot, judged=(judged,)))
    assert finding.summary.endswith(says)


def test_a1_says_what_time_is_left_and_what_recovery_needs() -> None:
    (finding,) = found("A1", of_transaction(48_000, *DECIDED))
    assert "has 12 s left and a person needs 30 s: it is decided" in finding.summary
    slow = {"restarts": MeasuredRestarts(count=2, longest_ms=31_000, median_ms=9_000)}
    (by_restart,) = found("A1", of_transaction(48_000, *DECIDED, **slow))
    assert "has 12 s left and recovery needs 31 s: it is decided" in by_restart.summary
    assert (finding.shown_group, finding.labels["transaction"], finding.labels["batch"]) == (
        f"batch 41 of {PREFIX}",
        "ip-count-0-1",
        "41",
    )
    (foreign,) = found("A1", of_transaction(48_000, *FOREIGN))
    assert "only its owner knows" in foreign.summary
    (undecided,) = found("A1", of_transaction(48_000, *PREPARED))
    assert "its batch must be replayed" in undecided.summary


@pytest.mark.parametrize(
    ("at", "observations", "is_found"),
    [
        (10_999, DECIDED, False),
        (11_000, DECIDED, True),
        (11_000, (*DECIDED, broker_record(BrokerStatus.PREPARE_COMMIT, 1500)), True),
        (60_000, PREPARED, False),
        (60_000, COMMITTED, False),
        (90_000, LOST, False),
        (60_000, FOREIGN, False),
        # It is being committed, and nobody decided it.
        (60_000, (*OURS, broker_record(BrokerStatus.PREPARE_COMMIT, 1500)), False),
        # A branch in a database that nobody here looks into.
        (11_000, (run_started(), decided(1, database_handle())), True),
    ],
)
def test_a2_commit_overdue(at: int, observations: tuple[Observation, ...], is_found: bool) -> None:
    findings = found("A2", of_transaction(at, *observations))
    assert [finding.severity for finding in findings] == ([Severity.CRITICAL] if is_found else [])


def test_a2_is_quiet_once_a_later_batch_was_decided() -> None:
    view = only_view(run_started(), decided(1, database_handle()))
    judgement = judge(case(view, 60_000, later_batch_decided=True))
    one = Judged(view=view, judgement=judgement, pipeline=pipeline())
    assert not found("A2", look(now_ms=T0 + 60_000, judged=(one,)))


def test_a2_tells_at_once_of_what_a_flink_checkpoint_lists() -> None:
    view = only_view(*FOREIGN)
    evidence = (Evidence(fact="chk-3/_metadata lists exactly this transactional id", source="_metadata", at_ms=T0),)
    judgement = Judgement(verdict=Verdict.COMMIT_IT, rule=25, rests_on=evidence, commit_confirmation="chk-3")
    snapshot = look(now_ms=T0 + 2_000, judged=(Judged(view=view, judgement=judgement, pipeline=None),))
    (finding,) = found("A2", snapshot)
    assert finding.severity is Severity.CRITICAL
    assert "loses its rows in 58 s" in finding.summary
    assert "belongs to Flink checkpoint chk-3 and is not committed" in finding.summary
    assert finding.summary.endswith("Commit it, if its job goes on from chk-3 or a later one")


def test_a2_says_of_a_branch_of_flink_what_it_holds_because_no_timeout_ends_it() -> None:
    view = only_view(branch_listed(database_handle("postgres"), prepared_ms=T0))
    judgement = Judgement(
        verdict=Verdict.COMMIT_IT, rule=23, rests_on=(Evidence(fact="it counts", source="flink REST"),)
    )
    snapshot = look(now_ms=T0 + 2_000, judged=(Judged(view=view, judgement=judgement, pipeline=None),))
    (finding,) = found("A2", snapshot)
    assert finding.summary.endswith(
        "belongs to a Flink checkpoint that counts and is not committed: its rows are invisible, and it keeps its locks until it "
        "is ended. Commit it"
    )


def test_a3_hanging() -> None:
    held = HangingTransaction(partition="sink-0", producer_id=7, producer_epoch=2, since_ms=T0)
    (finding,) = found("A3", look(now_ms=T0 + 1, hanging=(held,)))
    assert (finding.severity, finding.group) == (Severity.CRITICAL, "topic sink")
    assert finding.for_ms == 10_000, "the coordinator may know of it a moment later"
    assert "pipeline" not in finding.labels, "nobody knows its transactional id"
    assert not found("A3", of_transaction(44_001, *FOREIGN)), "its coordinator knows it"


def test_a3_names_the_application_whose_id_is_known() -> None:
    held = HangingTransaction(partition="sink-0", producer_id=7, producer_epoch=2, since_ms=T0, application="shop")
    (finding,) = found("A3", look(now_ms=T0 + 1, hanging=(held,)))
    assert (finding.labels["pipeline"], finding.group) == ("shop", "application shop")


@pytest.mark.parametrize(
    ("waited", "groups", "is_found"),
    [(29_999, ("orders",), False), (30_000, ("orders",), True), (3_600_000, (), False)],
)
def test_a4_blocked_consumers(waited: int, groups: tuple[str, ...], is_found: bool) -> None:
    blocked = BlockedPartition(partition="my-topic-12", since_ms=T0, groups=groups, hidden=1200, transaction="t-1")
    findings = found("A4", look(now_ms=T0 + waited, blocked=(blocked,)))
    assert [f.group for f in findings] == (["topic my-topic"] if is_found else [])
    assert all("1,200 records are hidden" in f.evidence[1].fact and "t-1" in f.summary for f in findings)


@pytest.mark.parametrize(
    ("hidden", "said"),
    [(1, "1 record is hidden"), (2, "2 records are hidden"), (None, "records are hidden")],
)
def test_a4_counts_what_is_hidden_where_it_can(hidden: int | None, said: str) -> None:
    blocked = BlockedPartition(partition="sink-0", since_ms=T0, groups=("orders",), hidden=hidden, transaction="")
    (finding,) = found("A4", look(now_ms=T0 + 30_000, blocked=(blocked,)))
    assert finding.evidence[1].fact == f"{said} from: orders"


def aborts(*times: int, cause: AbortCause = AbortCause.TIMEOUT, application: str = PREFIX) -> tuple[AbortSeen, ...]:
    return tuple(
        AbortSeen(application=application, transaction=f"{application}-{n}-0", at_ms=T0 + at, cause=cause)
        for n, at in enumerate(times)
    )


@pytest.mark.parametrize(
    ("seen", "is_found"),
    [
        (aborts(1, 2, 3, 4, 5), True),
        (aborts(1, 2, 3, 4), False),
        # One of them is older than the window.
        (aborts(-1, 2, 3, 4, 5), False),
        (aborts(0, 2, 3, 4, 5), False),
        # Orders of an operator are no fault, and two applications are not one.
        (aborts(1, 2, 3, 4) + aborts(5, cause=AbortCause.OPERATOR), False),
        (aborts(1, 2, 3, 4) + aborts(5, application="other"), False),
    ],
)
def test_a5_repeated_aborts(seen: tuple[AbortSeen, ...], is_found: bool) -> None:
    findings = found("A5", look(now_ms=T0 + 600_000, aborts=seen))
    assert [f.subject for f in findings] == ([PREFIX] if is_found else [])
    assert all(f.evidence[0].fact == "aborted: 5 by timeout" for f in findings)


def checkpoint(number: int = 7, **times: int) -> CheckpointFacts:
    counts = {"failures": times.pop("failures")} if "failures" in times else {}
    at = {f"{name}_ms": T0 + value for name, value in times.items()}
    return CheckpointFacts(pipeline=PREFIX, number=number, **at, **counts)


def of_foreign_checkpoints(at: int, newest: CheckpointFacts) -> Situation:
    """Return a snapshot of the checkpoints of a pipeline that is not ours."""
    return changed(of_checkpoints(at, newest), pipelines={})


def of_checkpoints(
    at: int,
    newest: CheckpointFacts,
    failures: int = 0,
    stopped: int | None = None,
    again: int | None = None,
    p99: int = 0,
    gap: int = 0,
    **history: Any,
) -> Situation:
    """Return a snapshot of a pipeline's checkpoints; ``again``: when its query started again."""
    stopped_ms, started_ms = (None if at_ms is None else T0 + at_ms for at_ms in (stopped, again))
    facts = PipelineFacts(pipeline=PREFIX, stopped_on_request_ms=stopped_ms, started_ms=started_ms)
    history_of: dict[str, PipelineHistory] = {PREFIX: pipeline(facts=facts, **history)}
    one = CheckpointHistory(
        pipeline=PREFIX, newest=newest, completed_ms=T0 - 5_000, failures=failures, p99_ms=p99, gap_ms=gap
    )
    return look(now_ms=T0 + at, checkpoints=(one,), pipelines=history_of)


@pytest.mark.parametrize(
    ("snapshot", "is_found"),
    [
        # Stalled: running for longer than 60 s, 3 intervals and 3 of its longest checkpoints.
        (of_checkpoints(59_999, checkpoint(started=0)), False),
        (of_checkpoints(60_000, checkpoint(started=0)), True),
        (of_checkpoints(60_000, checkpoint(planned=0)), True),
        (of_checkpoints(60_000, checkpoint(started=0), interval_ms=60_000), False),
        (of_checkpoints(60_000, checkpoint(started=0), p99=30_000), False),
        (of_checkpoints(90_000, checkpoint(started=0), p99=30_000), True),
        # An idle query plans no batch: its last checkpoint is completed, however long ago.
        (of_checkpoints(3_600_000, checkpoint(started=0, completed=500)), False),
        # Failed and not tried again within what recovery needs, 16 s.
        (of_checkpoints(15_900, checkpoint(started=0, failed=0)), False),
        (of_checkpoints(16_000, checkpoint(started=-100, failed=0)), True),
        # Flink triggers the next one after its interval, which only the others tell.
        (of_checkpoints(179_000, checkpoint(started=-100, failed=0), gap=60_000), False),
        (of_checkpoints(180_000, checkpoint(started=-100, failed=0), gap=60_000), True),
        # Tried again, and completed.
        (of_checkpoints(16_000, checkpoint(started=12_000, failed=0), failures=1), False),
        (of_checkpoints(16_000, checkpoint(started=12_000, failed=0, completed=13_000), failures=3), False),
        # Fails again and again.
        (of_checkpoints(16_000, checkpoint(started=15_000, failed=14_000), failures=2), False),
        (of_checkpoints(16_000, checkpoint(started=15_000, failed=14_000), failures=3), True),
        # Stopped on purpose: its last batch waits for the next start.
        (of_checkpoints(3_600_000, checkpoint(started=0, failed=100), stopped=200), False),
        (of_checkpoints(3_600_000, checkpoint(started=300, failed=400), stopped=200), True),
        # Started again after that: it has as long as ever from then on.
        (of_checkpoints(915_900, checkpoint(started=0, failed=100), stopped=200, again=900_000), False),
        (of_checkpoints(916_000, checkpoint(started=0, failed=100), stopped=200, again=900_000), True),
        (of_checkpoints(959_900, checkpoint(started=0), stopped=200, again=900_000), False),
        (of_checkpoints(960_000, checkpoint(started=0), stopped=200, again=900_000), True),
        # A crash is no stop on request, nor is one that came after a stop and a start.
        (of_checkpoints(916_000, checkpoint(started=0, failed=100), again=910_000), True),
        (of_checkpoints(16_400, checkpoint(started=300, failed=400), stopped=200, again=10_000), True),
        (of_checkpoints(16_400, checkpoint(started=300, failed=400), stopped=400, again=10_000), False),
        # Stopped while it ran, when it failed, or before its failure was all that is known.
        (of_checkpoints(3_600_000, checkpoint(started=0), stopped=200), False),
        (of_checkpoints(3_600_000, checkpoint(started=200, failed=200), stopped=200), False),
        (of_checkpoints(3_600_000, checkpoint(failed=100), stopped=200), False),
        # Only that there is one is known.
        (of_checkpoints(3_600_000, checkpoint()), False),
        (of_checkpoints(3_600_000, checkpoint(), stopped=200), False),
        # Of a foreign one no history is known: 20 s are assumed.
        (of_foreign_checkpoints(19_999, checkpoint(started=-100, failed=0)), False),
        (of_foreign_checkpoints(20_000, checkpoint(started=-100, failed=0)), True),
        (of_foreign_checkpoints(59_999, checkpoint(started=0)), False),
        (of_foreign_checkpoints(60_000, checkpoint(started=0)), True),
    ],
)
def test_a6_failing_or_stalled_checkpoints(snapshot: Situation, is_found: bool) -> None:
    findings = found("A6", snapshot)
    assert [f.severity for f in findings] == ([Severity.CRITICAL] if is_found else [])


@pytest.mark.parametrize(
    ("at", "observations", "replayed", "is_found"),
    [
        # The replay gets the 16 s that recovery needs.
        (75_999, LOST, None, False),
        (76_000, LOST, None, True),
        (3_600_000, LOST, 70_000, False),
        (3_600_000, ABORTED, None, False),
        (3_600_000, COMMITTED, None, False),
    ],
)
def test_a7_lost(at: int, observations: tuple[Observation, ...], replayed: int | None, is_found: bool) -> None:
    findings = found("A7", of_transaction(at, *observations, replayed=replayed))
    assert [f.severity for f in findings] == ([Severity.CRITICAL] if is_found else [])
    assert all("with 100 rows" in f.summary for f in findings)


def test_a7_of_one_row_says_so_in_the_singular() -> None:
    small = replace(handle(), rows=1)
    prepared = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=small.to_json())
    ended = broker_record(BrokerStatus.COMPLETE_ABORT, 60_000)
    (finding,) = found("A7", of_transaction(3_600_000, *OURS, prepared, decided(1, small), ended))
    assert " with 1 row was decided and then aborted" in finding.summary


def test_a7_of_a_pipeline_without_history_waits_for_what_others_need() -> None:
    view = only_view(*LOST)
    judgement = Judgement(verdict=Verdict.LOST, rule=3, rests_on=(Evidence(fact="lost", source="decision log"),))

    def at(waited: int, of: TransactionView = view) -> Situation:
        one = Judged(view=of, judgement=judgement, pipeline=None)
        return look(now_ms=T0 + 60_000 + waited, judged=(one,))

    assert not found("A7", at(19_999))
    assert found("A7", at(20_000))
    without_end = replace(view, broker=None)
    assert without_end.ended_ms is None
    assert found("A7", at(0, without_end)), "when it ended is not known"


def test_a8_id_leak() -> None:
    leak = leaking("orders", 120_000, "40 new ids a minute, each used once")
    (finding,) = found("A8", look(now_ms=T0, id_leaks=(leak,)))
    assert (finding.severity, finding.group) == (Severity.WARNING, "application orders")
    assert "120,000" in finding.summary
    assert not found("A8", look(now_ms=T0))


def observer(
    state: ObserverState, *, name: str = "lifecycle events", since: int = 0, delay: int | None = 0
) -> ObserverStatus:
    return ObserverStatus(**observer_of(name), state=state, delay_ms=delay, since_ms=T0 + since, error="", records=0)


@pytest.mark.parametrize(
    ("status", "severity"),
    [
        (observer(ObserverState.UP, since=-3_600_000), None),
        (observer(ObserverState.DOWN, since=1), None),
        (observer(ObserverState.DOWN), Severity.WARNING),
        (observer(ObserverState.STARTING), Severity.WARNING),
        (observer(ObserverState.UP, delay=14_999), None),
        (observer(ObserverState.UP, delay=15_000), Severity.WARNING),
        (observer(ObserverState.UP, delay=None), None),
        (observer(ObserverState.DOWN, name="decision log"), Severity.CRITICAL),
        (observer(ObserverState.DOWN, name="transaction log"), Severity.CRITICAL),
    ],
)
def test_a9_observer_down(status: ObserverStatus, severity: Severity | None) -> None:
    findings = found("A9", look(now_ms=T0 + 15_000, observers=(status,)))
    assert [(f.severity, f.group) for f in findings] == ([(severity, SOURCES_GROUP)] if severity else [])


def test_a10_one_side_only() -> None:
    one = OneSidedBatch(pipeline=PREFIX, batch=41, done_in=("kafka",), missing_in=("mysql",), since_ms=T0)
    (finding,) = found("A10", look(now_ms=T0, one_sided=(one,)))
    assert finding.severity is Severity.CRITICAL
    assert "in kafka and not in mysql" in finding.summary
    assert not found("A10", look(now_ms=T0))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ""),
        ({"retention.ms": "604800000"}, "retention.ms=604800000"),
        ({"retention.bytes": "1"}, "retention.bytes=1"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1"}, "cleanup.policy=compact,delete, retention.ms=1"),
    ],
)
def test_a11_finite_log(settings: dict[str, str], said: str) -> None:
    log_settings = LogSettings.of("transaction_decisions", FORGETS_NOTHING | settings, T0)
    # It is found also while the log itself cannot be read.
    snapshot = look(now_ms=T0, log_settings=log_settings, unavailable_sources=frozenset({Source.DECISIONS}))
    findings = found("A11", snapshot)
    assert [finding.severity for finding in findings] == ([Severity.CRITICAL] if said else [])
    for finding in findings:
        assert f"({said})" in finding.summary
        assert (
            f"--add-config {','.join(f'{name}={FORGETS_NOTHING[name]}' for name in sorted(settings))}"
            in finding.summary
        )
    assert not found("A11", look(now_ms=T0))


def test_a15_checkpoint_not_read() -> None:
    def not_read(*numbers: int, pipeline: str = "eu/orders") -> Finding:
        unread = tuple(UnreadCheckpoint(f"/s/job/chk-{n}", "job", n, f"denied {n}", T0 + n) for n in numbers)
        one = UnreadCheckpoints(observer="flink", directory="/s/job", pipeline=pipeline, unread=unread)
        (finding,) = found("A15", look(now_ms=T0, unread_checkpoints=(one,)))
        return finding

    of_one, of_many = not_read(7), not_read(*range(12), pipeline="")
    assert (of_one.severity, of_one.for_ms) == (Severity.WARNING, 15_000)
    assert "checkpoint 7 of eu/orders cannot be read" in of_one.summary
    assert of_one.evidence == (Evidence(fact="/s/job/chk-7: denied 7", source="flink", at_ms=T0 + 7),)
    assert "2 checkpoints of eu/orders cannot be read" in not_read(7, 8).summary
    assert "12 checkpoints of a job in /s/job" in of_many.summary
    assert [each.fact for each in of_many.evidence] == [f"/s/job/chk-{n}: denied {n}" for n in range(11, 1, -1)]
    assert of_one.key == of_many.key, "one alert lasts while other checkpoints of the directory cannot be read"
    assert not found("A15", look(now_ms=T0))


@pytest.mark.parametrize("ahead_ms", [120_000, -120_000])
def test_a16_clock_off(ahead_ms: int) -> None:
    clocks = [ClockOffset(owner=f"broker {n}", ahead_ms=ms, error_ms=100) for n, ms in ((1, ahead_ms), (2, 0))]
    (finding,) = found("A16", look(now_ms=T0, clocks=tuple(clocks)))
    assert (finding.severity, finding.subject, finding.for_ms) == (Severity.WARNING, "broker 1", 5_000)
    assert finding.evidence == (Evidence(fact=clocks[0].fact, source="clocks"),)
    assert not found("A16", look(now_ms=T0, clocks=tuple(clocks[1:])))


def test_one_rule_finds_a_thousand_at_most() -> None:
    held = tuple(
        HangingTransaction(partition=f"t-{n}", producer_id=n, producer_epoch=0, since_ms=T0) for n in range(1_200)
    )
    findings = found("A3", look(now_ms=T0, hanging=held))
    assert [finding.subject for finding in findings] == sorted(f"t-{n}|{n}|0" for n in range(1_200))[:1_000]


@pytest.mark.parametrize(
    ("unavailable_sources", "rules"),
    [
        ({Source.TRANSACTIONS}, {"A1", "A2", "A8", "A10"}),
        ({Source.DECISIONS}, {"A2", "A7", "A10"}),
        ({Source.PARTITIONS}, {"A3", "A4"}),
        ({Source.DATABASES}, {"A10"}),
        ({Source.PARTITIONS, Source.DATABASES}, {"A3", "A4", "A10"}),
        ({Source.CHECKPOINTS}, {"A6"}),
        ({Source.OBSERVERS}, {"A9", "A14", "A15"}),
        (set(), set()),
    ],
)
def test_rules_whose_evidence_cannot_be_seen_are_held(unavailable_sources: set[Source], rules: set[str]) -> None:
    assert alert_rules.held(look(now_ms=T0, unavailable_sources=frozenset(unavailable_sources))) == rules


def test_a_rule_that_is_held_finds_nothing() -> None:
    near = of_transaction(44_001, *PREPARED)
    assert found("A1", near)
    assert not found("A1", changed(near, unavailable_sources=frozenset({Source.TRANSACTIONS})))


def test_one_pipeline_whose_checkpoints_cannot_be_seen_is_held_alone() -> None:
    stalled = of_checkpoints(60_000, checkpoint(started=0))
    assert found("A6", stalled)
    dark = changed(stalled, unobserved_pipelines=frozenset({PREFIX}))
    assert not found("A6", dark)
    assert alert_rules.held(dark) == {f"A6|{PREFIX}"}
    assert found("A6", changed(stalled, unobserved_pipelines=frozenset({"another"})))


def test_rules_are_numbered_without_a_gap() -> None:
    assert [rule.number for rule in alert_rules.RULES.values()] == [
        f"A{n}" for n in range(1, len(alert_rules.RULES) + 1)
    ]


def test_failures_are_counted_and_a_stop_on_request_is_known() -> None:
    failed = [event(EventType.CHECKPOINT_FAILED, at, batch=7, reason="r") for at in (100, 200)]
    stopped = event(EventType.PIPELINE_STOPPED, 300, reason="stopped on request")
    gave_up = event(EventType.PIPELINE_STOPPED, 400, reason="the query failed")
    state = folded(*failed, stopped, gave_up)
    assert state.checkpoints[PREFIX, 7].failures == 2
    assert (state.pipelines[PREFIX].stopped_ms, state.pipelines[PREFIX].stopped_on_request_ms) == (T0 + 400, T0 + 300)
