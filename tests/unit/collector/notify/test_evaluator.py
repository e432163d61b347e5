"""Judging with history: silences with their audit rows, a step that could not be kept, blindness, a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.rule import Source, unavailable_sources
from indoubt.collector.assess.rules.applications import aborts
from indoubt.collector.assess.rules.batches import OneSidedBatch
from indoubt.collector.assess.rules.checkpoints import by_pipeline, unobserved_pipelines
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.history import sql
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.notify import silences
from indoubt.collector.notify.evaluator import AlertEvaluator
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.notify.store import MAX_SHOWN, AlertStore
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views import aborts_and_losses
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.assessments import changed, look, situation_at
from tests.unit.collector.flink_observations import of_state
from tests.unit.collector.observations import T0, broker_record, decided, handle, observe, observer_of, run_started

SETTINGS = AlertSettings(keep_firing_ms=0, group_wait_ms=0, group_interval_ms=0)
HELD = OneSidedBatch(pipeline="p", batch=41, done_in=("kafka",), missing_in=("mysql",), since_ms=0)


def assessment(situation: Situation) -> Any:
    """Return as much of an assessment as alerts read."""
    return SimpleNamespace(situation=situation)


class Stage:
    """An alerting over a store of its own, with a snapshot and a clock that a test sets; it is judged by hand."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "history.duckdb"
        self.snapshot = look(now_ms=now_ms())
        self.notified = self.changes = 0
        self.open()

    def open(self) -> None:
        self.store = Store(self.path)
        self.kept = AlertStore(self.store)
        self.evaluator = AlertEvaluator(
            self.kept,
            lambda stopping: iter(()),
            settings=SETTINGS,
            receivers=["webhook"],
            changed=self.change,
            notified=self.note,
        )
        self.evaluator.start()

    def note(self) -> None:
        self.notified += 1

    def change(self) -> None:
        self.changes += 1

    def close(self) -> None:
        self.evaluator.stop()
        self.store.close()

    def restart(self) -> None:
        self.close()
        self.open()

    def judge(self, after_ms: int, **changes: object) -> None:
        """Judge that much later, with a changed snapshot."""
        self.snapshot = changed(self.snapshot, now_ms=self.snapshot.now_ms + after_ms, **changes)
        self.evaluator.judge(assessment(self.snapshot))

    def states(self) -> list[AlertState]:
        return [one.alert.state for one in self.evaluator.alerts()]

    def waiting(self) -> int:
        return sum(one.waiting for one in self.kept.receiver_statuses())


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def test_alert_states_outlive_restarts_and_each_change_notifies_once(stage: Stage) -> None:
    stage.judge(0, one_sided=(HELD,))
    assert stage.states() == [AlertState.PENDING]
    stage.restart()
    assert stage.states() == [AlertState.PENDING], "at once, before anything was judged"
    stage.judge(10_000)
    assert (stage.states(), stage.waiting()) == ([AlertState.FIRING], 1)
    stage.restart()
    for _ in range(5):
        stage.judge(1_000)
    assert (stage.states(), stage.waiting()) == ([AlertState.FIRING], 1)
    stage.restart()
    stage.judge(1_000, one_sided=())
    assert (stage.states(), stage.waiting()) == ([AlertState.RESOLVED], 2)
    stage.restart()
    stage.judge(1_000)
    assert (stage.states(), stage.waiting()) == ([AlertState.RESOLVED], 2)


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_stepped_clock_changes_no_alert_and_repeats_none(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step_ms: int
) -> None:
    told = replace(HELD, batch=1)
    stage.judge(0, one_sided=(told,))
    stage.judge(10_000)
    assert stage.waiting() == 1
    stage.judge(0, one_sided=(told, HELD))
    clock = SteppedClock()
    monkeypatch.setattr("indoubt.collector.notify.evaluator.CLOCK", clock)
    clock.shifted_ms = step_ms
    stage.judge(step_ms + 1_000, one_sided=())
    assert stage.states() == [AlertState.FIRING, AlertState.PENDING], "not judged while observers still see old times"
    monkeypatch.setattr(stage.evaluator, "_settled_s", 0.0)
    stage.judge(4_000, one_sided=(told, HELD))
    assert (stage.states(), stage.waiting()) == ([AlertState.FIRING, AlertState.PENDING], 1)
    stage.judge(5_000)
    assert stage.states() == [AlertState.FIRING] * 2
    stage.judge(SETTINGS.keep_firing_ms)
    assert stage.waiting() == 2


class SteppedClock:
    shifted_ms = 0


def test_a_notification_shows_the_most_urgent_and_counts_the_others(stage: Stage) -> None:
    many = tuple(replace(HELD, batch=n) for n in range(MAX_SHOWN + 50))
    stage.judge(0, one_sided=many)
    stage.judge(10_000)
    delivery = stage.kept.next_delivery("webhook")
    assert delivery is not None
    assert (len(delivery.body["firing"]), delivery.body["firing_count"]) == (MAX_SHOWN, MAX_SHOWN + 50)


def test_a_step_that_may_have_been_kept_is_not_notified_twice(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.judge(0, one_sided=(HELD,))
    keep = AlertStore.keep

    def keep_and_fail(self: AlertStore, *arguments: object) -> None:
        keep(self, *arguments)  # type: ignore[arg-type]
        raise StoreFailed("no answer within 20 s")

    with monkeypatch.context() as patched:
        patched.setattr(AlertStore, "keep", keep_and_fail)
        with pytest.raises(StoreFailed):
            stage.judge(10_000)
    assert stage.states() == [AlertState.FIRING], "it is shown as it stands"
    for _ in range(3):
        stage.judge(1_000)
    assert stage.waiting() == 1


def test_a_step_that_was_not_kept_is_made_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreFailed("the disk is full")

    stage.judge(0, one_sided=(HELD,))
    with monkeypatch.context() as patched:
        patched.setattr(AlertStore, "keep", fail)
        for _ in range(3):
            with pytest.raises(StoreFailed):
                stage.judge(10_000)
    assert (stage.states(), stage.waiting(), stage.notified) == ([AlertState.FIRING], 0, 0)
    stage.judge(1_000)
    assert (stage.states(), stage.waiting(), stage.notified) == ([AlertState.FIRING], 1, 1)


def test_while_it_cannot_see_a_rule_neither_finds_nor_resolves(stage: Stage) -> None:
    unseen = frozenset({Source.DATABASES})
    stage.judge(0, one_sided=(HELD,), unavailable_sources=unseen)
    assert stage.states() == []
    stage.judge(0, unavailable_sources=frozenset())
    stage.judge(10_000)
    stage.judge(10_000, one_sided=(), unavailable_sources=unseen)
    assert stage.states() == [AlertState.FIRING]
    stage.judge(1_000, unavailable_sources=frozenset())
    assert stage.states() == [AlertState.RESOLVED]


def test_a_silence_is_kept_with_its_audit_row_over_a_restart(stage: Stage) -> None:
    body = {"matchers": {"pipeline": "p"}, "reason": "maintenance", "duration_ms": 3_600_000}
    made = stage.evaluator.silence(silences.read(body, "anna", now_ms()))
    assert made.number == 1
    stage.restart()
    assert stage.evaluator.silences() == [made]
    stage.judge(0, one_sided=(HELD,))
    stage.judge(10_000)
    (shown,) = stage.evaluator.alerts()
    assert (shown.alert.state, shown.silence, stage.waiting()) == (AlertState.FIRING, made, 0)
    ended = stage.evaluator.end_silence(1, "ben", "done with it")
    assert ended is not None
    stage.judge(1_000)
    assert stage.waiting() == 1
    audit = stage.store.named_rows(sql.AUDIT, "", [], *sql.AUDIT_FROM_NEWEST, 10)
    assert [(row["who"], row["action"], row["keys"], row["reason"], row["outcome"]) for row in audit] == [
        ("ben", "end silence", '["silence:1"]', "done with it", "accepted"),
        ("anna", "silence", '["silence:1"]', "maintenance", "accepted"),
    ]


def test_a_silence_is_not_kept_without_its_audit_row(stage: Stage) -> None:
    body = {"matchers": {"pipeline": "p"}, "reason": "maintenance", "duration_ms": 60_000}
    silence = replace(silences.read(body, "anna", now_ms()), number=1)
    with pytest.raises(StoreFailed):
        stage.kept.keep_silence(silence, (1, None, "silence", "[]", "r", "accepted", "", "[]"))
    assert stage.kept.silences() == []
    broken = replace(silence, reason=None)  # type: ignore[arg-type]
    with pytest.raises(StoreFailed):
        stage.kept.keep_silence(broken, (1, "anna", "silence", "[]", "r", "accepted", "", "[]"))
    assert stage.store.named_rows(sql.AUDIT, "", [], *sql.AUDIT_FROM_NEWEST, 10) == []


def test_there_is_no_silence_of_that_number(stage: Stage) -> None:
    assert stage.evaluator.end_silence(7, "ben", "a reason") is None


def status(name: str, state: ObserverState = ObserverState.UP, **changes: object) -> ObserverStatus:
    fields: dict[str, object] = {"delay_ms": 0, "since_ms": 0, "error": "", "records": 0, **changes}
    return ObserverStatus(**observer_of(name), state=state, **fields)  # type: ignore[arg-type]


UNDONE = (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
DOWN, STARTING = ObserverState.DOWN, ObserverState.STARTING


@pytest.mark.parametrize(
    ("observers", "unavailable"),
    [
        ([status("transaction log"), status("decision log"), status("lifecycle events")], set()),
        ([status("transaction log", has_caught_up=False)], {Source.TRANSACTIONS}),
        ([status("transaction log", DOWN), status("transaction polling")], set()),
        ([status("transaction log", DOWN), status("transaction polling", DOWN)], {Source.TRANSACTIONS}),
        ([status("decision log", STARTING)], {Source.DECISIONS, Source.OBSERVERS}),
        ([status("decision log", STARTING, since_ms=-20_000)], {Source.DECISIONS}),
        ([status("decision log", STARTING, since_ms=1_000 - SETTINGS.observer_down_ms)], {Source.DECISIONS}),
        ([status("transaction log", DOWN), status("decision log")], {Source.TRANSACTIONS}),
        # There is nothing to see: what rests on it is not hidden.
        ([status("lifecycle events", DOWN, source_is_missing=True)], set()),
        ([status("lifecycle events", DOWN)], {Source.CHECKPOINTS}),
        ([status("checkpoints of ip-count", DOWN), status("flink f", DOWN)], set()),
        # The side that is not seen would look as if it were missing.
        ([status("database mysql"), status("database postgres", DOWN)], {Source.DATABASES}),
        ([status("database mysql"), status("database postgres")], set()),
        ([status("partitions", DOWN)], {Source.PARTITIONS}),
        ([], set()),
    ],
)
def test_what_cannot_be_seen(observers: list[ObserverStatus], unavailable: set[Source]) -> None:
    assert unavailable_sources(look(1_000, SETTINGS, observers=observers)) == unavailable


@pytest.mark.parametrize(
    ("pipeline", "told_by", "down", "is_dark"),
    [
        ("p", "checkpoint directory", "checkpoints of p", True),
        ("p", "checkpoint directory", "checkpoints of q", False),
        ("p", "lifecycle events", "checkpoints of p", False),
        ("f/job", "flink REST", "flink f", True),
        ("f/job", "flink REST", "flink ff", False),
        ("f/job", "flink REST", "database f", False),
        ("p", "checkpoint directory", "flink p", False),
        ("ff/job", "flink REST", "flink f", False),
    ],
)
def test_which_pipelines_checkpoints_cannot_be_seen(pipeline: str, told_by: str, down: str, is_dark: bool) -> None:
    newest = CheckpointFacts(pipeline=pipeline, number=1, started_ms=1, sources=frozenset({told_by}))
    histories = by_pipeline([newest])
    others = [status("transaction log"), status("flink other")]
    dark, seen = (
        look(1_000, checkpoints=histories, observers=[*others, each]) for each in (status(down, DOWN), status(down))
    )
    assert unobserved_pipelines(dark) == ({pipeline} if is_dark else set())
    assert unobserved_pipelines(seen) == set()


def test_a_flink_job_that_failed_is_found_and_a_cancelled_one_is_not(current: CurrentState) -> None:
    states = ("FAILED", "CANCELED", "FINISHED", "GONE", "RUNNING")
    observe(current, *(one for state in states for one in of_state(state)))
    seen_now = situation_at(current, [status("flink f")], SETTINGS, T0 + 3_600_000)
    troubled = {finding.subject for finding in rules.findings(seen_now) if finding.rule == "A6"}
    assert troubled == {"f/FAILED", "f/RUNNING"}


def test_savepoints_are_no_checkpoints_and_gaps_are_those_of_flink() -> None:
    savepoint = CheckpointFacts(pipeline="p", number=5, started_ms=900, kind="savepoint", job="j")
    begun = [100, 200, 300, 700]
    taken = [CheckpointFacts(pipeline="p", number=n, started_ms=at, job="j") for n, at in enumerate(begun)]
    (one,) = by_pipeline([*taken, savepoint])
    assert (one.newest.number, one.gap_ms) == (3, 100)
    (managed,) = by_pipeline([replace(c, job="") for c in taken])
    assert managed.gap_ms == 0


def test_what_was_aborted_is_judged_no_more_unless_it_was_decided(current: CurrentState) -> None:
    current.see_decision_log(DecisionLogStatus.READABLE)
    gone = [broker_record(status, 900, transaction="gone", producer_id=7) for status in UNDONE]
    ending = broker_record(BrokerStatus.PREPARE_ABORT, 900, transaction="ending", producer_id=8)
    lost = [broker_record(status, 900) for status in UNDONE]
    observe(current, run_started(), *gone, ending, decided(1, handle()), *lost)

    assert {one.view.transaction for one in current.transactions.judged(at_ms=T0 + 60_000)} == {
        "ending",
        "ip-count-0-1",
    }
    assert {c.view.transaction for c in aborts_and_losses.abort_clues(current, T0 + 900)[0]} == {"gone", "ip-count-0-1"}
    assert aborts_and_losses.abort_clues(current, T0 + 901) == ([], 0)
    seen_now = situation_at(current, [], SETTINGS, T0 + 60_000)
    assert {abort.transaction for abort in seen_now.read(aborts)} == {"gone", "ip-count-0-1"}


def checkpoint(number: int, **times: int) -> CheckpointFacts:
    return CheckpointFacts(pipeline="p", number=number, **times)


def test_how_checkpoints_stand() -> None:
    (one,) = by_pipeline(
        [
            checkpoint(7, started_ms=100, failed_ms=150, completed_ms=200, failures=4),
            checkpoint(8, started_ms=300, failed_ms=350, failures=2),
            checkpoint(9, started_ms=400, failed_ms=450, failures=1),
        ]
    )
    assert (one.newest.number, one.completed_ms, one.failures) == (9, 200, 3)


def test_a_new_directory_counts_from_zero_and_is_the_newest() -> None:
    (one,) = by_pipeline([checkpoint(900, started_ms=100, completed_ms=200), checkpoint(0, started_ms=300)])
    assert (one.newest.number, one.completed_ms) == (0, 200)
