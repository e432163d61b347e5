"""What alert rules see of checkpoints and aborts: which is the newest, what is usual, what has failed since, what is recent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.assess.rule import Source, unavailable_sources
from indoubt.collector.assess.rules.applications import AbortSeen, aborts, id_leaks, recent_aborts
from indoubt.collector.assess.rules.checkpoints import (
    CheckpointHistory,
    by_pipeline,
    checkpoint_histories,
    unfinished_pipelines,
    unobserved_pipelines,
)
from indoubt.collector.assess.rules.hanging import hanging
from indoubt.collector.assess.rules.losses import recent_losses
from indoubt.collector.assess.rules.readers import blocked_partitions, blocked_readers
from indoubt.collector.assess.rules.sources import log_settings
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.facts.transactional_ids import LEAK_STALE_IDS
from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observations import CheckpointFile, CheckpointFileKind, Observation, Observed, Position
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.abort_causes import AbortClues
from indoubt.collector.verdicts.data_loss import Loss, LossVerdict
from indoubt.collector.verdicts.judging import DURATIONS_CONSIDERED
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import AbortCause, Certainty, Verdict
from tests.unit.collector.assessments import situation_at
from tests.unit.collector.notify.test_evaluator import status
from tests.unit.collector.observations import PREFIX, T0, broker_record, event, only_view, run_started
from tests.unit.collector.partition_sightings import partition_findings


def seen(number: int = 1, pipeline: str = "p", **times: Any) -> CheckpointFacts:
    """Return a checkpoint; times are ms after T0."""
    told = {name: T0 + value if name.endswith("_ms") else value for name, value in times.items()}
    return CheckpointFacts(pipeline=pipeline, number=number, **told)


def done(number: int, at: int, took: int = 100, **fields: Any) -> CheckpointFacts:
    return seen(number, started_ms=at - took, completed_ms=at, **fields)


def history(*checkpoints: CheckpointFacts) -> CheckpointHistory:
    (found,) = by_pipeline(checkpoints)
    return found


RUNNING = seen(999, started_ms=9_000_000)


@pytest.mark.parametrize(
    ("checkpoints", "newest"),
    [
        ([seen(1, started_ms=20), seen(2, started_ms=10)], 1),
        ([seen(3, started_ms=20), seen(4, started_ms=20), seen(2, started_ms=20)], 4),
        ([seen(1, started_ms=20), seen(2, failed_ms=30)], 2),
        ([seen(1, started_ms=20), seen(2)], 1),
        ([seen(2), seen(1)], 2),
    ],
    ids=["began last", "began together", "its begin not known", "nothing known of it", "nothing known of both"],
)
def test_the_newest_checkpoint_is_the_one_that_began_last(checkpoints: list[CheckpointFacts], newest: int) -> None:
    assert history(*checkpoints).newest.number == newest


def test_pipelines_stand_by_their_names() -> None:
    names = ["d", "b", "e", "a", "c"]
    assert [one.pipeline for one in by_pipeline(seen(pipeline=name) for name in names)] == sorted(names)


def test_the_jobs_of_one_name_are_one_pipeline() -> None:
    of_jobs = [
        (seen(1, "eu/a", started_ms=1), seen(2, "eu/a", failed_ms=5)),
        (seen(1, "eu/b", started_ms=9),),
        (done(3, 4, pipeline="eu/a", kind="savepoint"),),
        (seen(7, "eu/a", started_ms=7),),
    ]
    found = by_pipeline([seen(1, "p"), seen(8, "eu/a", started_ms=6), *chain.from_iterable(of_jobs)])
    assert [(one.pipeline, one.newest.number, one.failures) for one in found] == [
        ("eu/a", 7, 1),
        ("eu/b", 1, 0),
        ("p", 1, 0),
    ]


def test_a_pipeline_of_savepoints_alone_has_no_history() -> None:
    assert by_pipeline([done(3, 4, kind="savepoint")]) == ()


@pytest.mark.parametrize(
    ("checkpoints", "completed", "failures"),
    [
        ([seen(1, started_ms=5)], None, 0),
        ([done(1, 500), done(2, 900), done(3, 700)], 900, 0),
        ([done(1, 500), seen(2, started_ms=450, failed_ms=500)], 500, 0),
        ([done(1, 500), seen(2, started_ms=450, failed_ms=501)], 500, 1),
        ([seen(1, failed_ms=400), seen(2, failed_ms=500, failures=3)], None, 4),
        ([seen(1, failed_ms=400), done(2, 450), seen(3, failed_ms=500, failures=3)], 450, 3),
    ],
    ids=["none ended", "three completed", "failed as one completed", "failed since", "none completed", "failed before"],
)
def test_what_failed_since_the_last_that_completed_is_counted(
    checkpoints: list[CheckpointFacts], completed: int | None, failures: int
) -> None:
    found = history(*checkpoints)
    assert (found.completed_ms, found.failures) == (None if completed is None else T0 + completed, failures)


@pytest.mark.parametrize(
    ("checkpoints", "p99_ms"),
    [
        ([], 0),
        ([done(1, 500, took=70)], 70),
        ([done(1, 500, took=70), seen(2, started_ms=600, failed_ms=900)], 70),
        # Of two hundred the second longest; an older one counts no more, whatever its number.
        ([done(n, 500 + n, took=90 if n < 3 else 70) for n in range(1, DURATIONS_CONSIDERED + 1)], 90),
        (
            [*(done(n, 501 + n, took=90 if n < 2 else 70) for n in range(DURATIONS_CONSIDERED, 0, -1)), done(999, 500)],
            70,
        ),
    ],
    ids=["none completed", "one", "one failed", "two hundred", "one more before them"],
)
def test_a_checkpoint_usually_takes_as_long_as_the_longest_of_the_last(
    checkpoints: list[CheckpointFacts], p99_ms: int
) -> None:
    assert history(*checkpoints, RUNNING).p99_ms == p99_ms
    failed = seen(1_000, started_ms=9_000_001, failed_ms=9_000_002)
    assert history(*checkpoints, failed).p99_ms == p99_ms


def test_a_pipeline_whose_newest_checkpoint_completed_is_told_by_it() -> None:
    newest = done(2, 900)
    found = history(done(1, 500), newest, seen(3, started_ms=100, failed_ms=950, failures=2))
    assert (found.pipeline, found.newest, found.completed_ms, found.failures) == ("p", newest, T0 + 900, 2)


def begun(gaps: Sequence[int]) -> list[CheckpointFacts]:
    at = accumulate(gaps, initial=0)
    return [seen(number, started_ms=ms, job="j") for number, ms in enumerate(at, 1)]


@pytest.mark.parametrize(
    ("checkpoints", "gap_ms"),
    [
        (begun([]), 0),
        (begun([7]), 7),
        (begun([1, 100, 3]), 3),
        (begun([1, 100, 3])[::-1], 3),
        ([*begun([7]), seen(8, failed_ms=1, job="j")], 7),
        # Of the last twenty half are long.
        (begun([1, *[1_000] * 10, *[1] * 10]), 1_000),
        (begun([1, *[1_000] * 10, *[1] * 11]), 1),
    ],
    ids=["one", "two", "four", "in another order", "a begin not known", "twenty-one", "twenty-two"],
)
def test_the_usual_time_between_flinks_checkpoints_is_that_of_the_last_twenty(
    checkpoints: list[CheckpointFacts], gap_ms: int
) -> None:
    assert history(*checkpoints).gap_ms == gap_ms


def test_aborts_since_a_time_are_recent_and_what_is_open_is_none() -> None:
    statuses = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_ABORT)
    ended = only_view(*(broker_record(status, at, transaction="shop-1") for at, status in enumerate(statuses, 899)))
    running = only_view(broker_record(BrokerStatus.ONGOING, 0, transaction="shop-2"))
    clues = [AbortClues(view=view) for view in (ended, running)]
    (abort,) = recent_aborts(clues, T0 + 899)
    cause = AbortCause.CLIENT
    assert abort == AbortSeen(application="shop", transaction="shop-1", at_ms=T0 + 900, cause=cause)
    assert recent_aborts(clues, T0 + 900) == []


def test_a_snapshot_shows_what_is_there_and_what_cannot_be_seen(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    current.see_decision_log(DecisionLogStatus.READABLE)
    failed = event(EventType.CHECKPOINT_FAILED, 900, batch=1)
    ghost = event(EventType.CHECKPOINT_FAILED, 900, batch=1, pipeline="ghost")
    told = [run_started(), broker_record(BrokerStatus.ONGOING, 0), failed, ghost]
    positions = (Position(source="s", partition=0, offset=n) for n in range(len(told)))
    current.observe([Observed(position=at, observation=one) for at, one in zip(positions, told, strict=True)])
    down, absent = status("lifecycle events", ObserverState.DOWN), status("decision log", ObserverState.ABSENT)
    partitions = partition_findings()
    found = situation_at(current, [down, absent], AlertSettings(), T0 + 60_000, partitions)
    assert [(one.view.transaction, one.judgement.verdict) for one in found.judged] == [
        ("ip-count-0-1", Verdict.AT_RISK)
    ]
    assert [one.pipeline for one in found.read(checkpoint_histories)] == [PREFIX], "no driver ran the other"
    assert list(found.read(unfinished_pipelines)) == [PREFIX]
    assert found.read(unavailable_sources) == {Source.CHECKPOINTS}
    assert found.read(blocked_readers) == blocked_partitions(partitions)
    assert [(one.producer_id, one.is_named) for one in found.read(hanging)] == [(7, False)]
    store.close()


@pytest.fixture
def current(tmp_path: Path) -> Iterator[CurrentState]:
    store = Store(tmp_path / "history.duckdb")
    made = CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())
    made.see_decision_log(DecisionLogStatus.READABLE)
    yield made
    store.close()


def observe(current: CurrentState, *observations: Observation) -> None:
    positions = (Position(source="s", partition=0, offset=n) for n in range(len(observations)))
    current.observe([Observed(position=at, observation=one) for at, one in zip(positions, observations, strict=True)])


def snapshot(current: CurrentState, at: int, *observers: ObserverStatus, **given: Any) -> Situation:
    return situation_at(current, observers, AlertSettings(), T0 + at, **given)


@pytest.mark.parametrize(("at", "verdict"), [(2_000, Verdict.IN_PROGRESS), (60_000, Verdict.AT_RISK)])
def test_a_snapshot_judges_as_of_its_own_time(current: CurrentState, at: int, verdict: Verdict) -> None:
    observe(current, run_started(), broker_record(BrokerStatus.ONGOING, 0))
    found = snapshot(current, at)
    assert found.now_ms == T0 + at
    assert [one.judgement.verdict for one in found.judged] == [verdict]


def test_a_snapshot_has_what_is_wrong_with_the_decision_log_and_what_others_lost(current: CurrentState) -> None:
    assert snapshot(current, 0).read(log_settings) is None
    wrong = LogSettings(topic="decisions", wrong=(("retention.ms", "1"),), at_ms=T0)
    current.see_log_settings(wrong)
    observe(current, broker_record(BrokerStatus.ONGOING, 0, transaction="shop-1"))
    (judged,) = snapshot(current, 0).judged
    lost = Loss(view=judged.view, verdict=LossVerdict.LOST, certainty=Certainty.CERTAIN, why="")
    found = snapshot(current, 0, losses=(lost,))
    assert (found.read(log_settings), found.read(recent_losses)) == (wrong, (lost,))


def test_a_snapshot_has_the_applications_whose_ids_leak_and_no_others(current: CurrentState) -> None:
    hour = now_ms() // HOUR_MS
    with current.reading() as state:
        for number in range(LEAK_STALE_IDS + 1):
            state.ids.see(f"shop-{number}", (hour - 5 + number // LEAK_STALE_IDS * 4) * HOUR_MS)
        state.ids.see("bank-1", hour * HOUR_MS)
    (leak,) = snapshot(current, 0).read(id_leaks)
    assert (leak.prefix, leak.ids, leak.oldest_at_ms) == ("shop", LEAK_STALE_IDS + 1, (hour - 5) * HOUR_MS)
    assert "were not used again" in leak.why


def test_a_snapshot_names_the_pipelines_whose_checkpoints_cannot_be_seen(current: CurrentState) -> None:
    observe(current, run_started(), event(EventType.CHECKPOINT_STARTED, 900, batch=1), *checkpoint_of_flink("RUNNING"))
    assert snapshot(current, 1_000, status("flink f")).read(unobserved_pipelines) == frozenset()
    dark = snapshot(current, 1_000, status("flink f", ObserverState.DOWN))
    assert (dark.read(unobserved_pipelines), dark.read(unavailable_sources)) == ({"f/RUNNING"}, frozenset())


def checkpoint_of_flink(state: str) -> tuple[Observation, Observation]:
    """Return a job of this state that is called by it, and a checkpoint of it that is under way."""
    job = FlinkJob(cluster="f", job=state, name=state, state=state, started_ms=T0, changed_ms=T0)
    under_way = FlinkCheckpoint(
        cluster="f", job=state, job_name=state, number=7, status=FlinkStatus.IN_PROGRESS, kind=FlinkKind.CHECKPOINT,
        triggered_ms=T0 + 1,
    )  # fmt: skip
    return job, under_way


def test_of_pipelines_whose_newest_checkpoint_completed_no_more_is_asked(current: CurrentState) -> None:
    observe(current, run_started(), event(EventType.CHECKPOINT_STARTED, 900, batch=1))
    assert list(snapshot(current, 1_000).read(unfinished_pipelines)) == [PREFIX]
    observe(current, run_started(), event(EventType.CHECKPOINT_COMPLETED, 950, batch=1))
    found = snapshot(current, 1_000)
    assert [one.completed_ms for one in found.read(checkpoint_histories)] == [T0 + 950]
    assert list(found.read(unfinished_pipelines)) == []


@pytest.mark.parametrize(("at", "is_recent"), [(60_899, True), (60_900, False)])
def test_a_snapshot_has_the_aborts_of_its_window(current: CurrentState, at: int, is_recent: bool) -> None:
    statuses = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    observe(current, *(broker_record(one, at, transaction="shop-1") for at, one in enumerate(statuses, 899)))
    found = situation_at(current, [], AlertSettings(aborts_window_ms=60_000), T0 + at)
    assert bool(found.read(aborts)) is is_recent


def test_a_snapshot_names_the_application_of_what_hangs(current: CurrentState) -> None:
    (suspect,) = partition_findings().hanging
    known = replace(suspect, doubt=replace(suspect.doubt, transaction="shop-7"))
    findings = replace(partition_findings(), hanging=(known,))
    held = snapshot(current, 0, partitions=findings).read(hanging)
    assert [(one.application, one.is_named) for one in held] == [("shop", True)]


def test_checkpoints_in_a_directory_count_though_no_run_of_their_pipeline_is_known(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    planned = CheckpointFile(pipeline="words", number=4, kind=CheckpointFileKind.OFFSETS, at_ms=T0, modified_ns=1)
    claimed = event(EventType.CHECKPOINT_STARTED, 0, batch=1)
    for offset, observation in enumerate((planned, claimed)):
        current.observe([Observed(position=Position(source="s", partition=0, offset=offset), observation=observation)])
    found = situation_at(current, [], AlertSettings(), T0 + 60_000).read(checkpoint_histories)
    assert [(one.pipeline, one.newest.number) for one in found] == [("words", 4)], "events alone claim the other"
    store.close()
