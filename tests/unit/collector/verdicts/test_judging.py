"""What the rules are given to judge one transaction by: its pipeline's history, what was decided since, what may be ruled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.facts import CheckpointFacts, PipelineFacts
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.verdicts.judging import (
    DURATIONS_CONSIDERED,
    EvaluationContext,
    judged,
    percentile,
    pipeline_histories,
    pipeline_now,
)
from indoubt.collector.verdicts.verdict_case import Case, DecisionLogStatus, Limits
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.events import EventType
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    batch_attempt,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    event,
    folded,
    handle,
    run_started,
)
from tests.unit.collector.verdicts.case_tables import table

RUN = run_started(0)
OPEN = broker_record(BrokerStatus.ONGOING, 0)
FLINK = "orders-0-1"


def moment(limits: Limits | None = None) -> EvaluationContext:
    return EvaluationContext(
        limits=limits or Limits(), log_status=(DecisionLogStatus.UNREADABLE, "no leader"), now_ms=T0 + 9_000
    )


def cases(state: State, limits: Limits | None = None) -> dict[str, Case]:
    found = moment(limits).cases(state, views(state, settled=True))
    return {case.transaction.transaction: case for case in found}


def only(*seen: Observation) -> Case:
    (case,) = cases(folded(*seen)).values()
    return case


@table(
    "since, passed",
    [
        ("nothing since", [], False),
        ("the same batch", [decided(2, handle("ip-count-1-1", slot=1, producer_id=9), batch=41, attempt=1)], False),
        ("a later batch", [decided(2, handle("ip-count-0-0", epoch=5), batch=42)], True),
        ("an earlier batch", [decided(2, handle("ip-count-0-0", epoch=5), batch=40)], False),
    ],
)
def test_a_batch_is_passed_once_a_later_one_is_decided(since: list[Observation], passed: bool) -> None:
    case = cases(folded(RUN, OPEN, decided(1, handle()), *since))["ip-count-0-1"]
    assert (case.later_batch_decided, case.rulable) == (passed, batch_attempt(41))


def test_what_no_decision_lists_is_ruled_by_the_newest_run() -> None:
    first = only(RUN, broker_record(BrokerStatus.ONGOING, 0, transaction="ip-count-0-0"))
    assert first.rulable == BatchAttempt(checkpoint_id=CHECKPOINT_ID, batch=0, attempt=0)
    assert not first.later_batch_decided
    assert only(RUN, OPEN).rulable is None, "an odd batch, and none was decided yet"
    assert only(broker_record(BrokerStatus.ONGOING, 0, transaction="orders-0-0")).rulable is None


def test_a_foreign_branch_with_a_name_like_ours_is_no_pipelines() -> None:
    branch = replace(database_handle("postgres"), transaction="ip-count-0-0")
    case = only(RUN, branch_listed(branch))
    assert (case.transaction.managed, case.pipeline, case.rulable) == (False, None, None)
    (managed,) = cases(folded(RUN, branch_listed(database_handle("postgres")))).values()
    assert (managed.transaction.managed, managed.rulable) == (True, batch_attempt(41))
    before_its_run = replace(database_handle("postgres"), transaction="ip-count:41:7:0:0a1b2c3d")
    assert only(RUN, branch_listed(before_its_run)).rulable is None


def test_a_case_has_what_is_known_of_its_pipeline_and_of_the_log() -> None:
    foreign = broker_record(BrokerStatus.ONGOING, 0, transaction="payments", producer_id=9)
    found = cases(folded(RUN, OPEN, foreign))
    managed, other = found["ip-count-0-1"], found["payments"]
    assert (managed.log_status, managed.log_error, managed.now_ms) == (
        DecisionLogStatus.UNREADABLE,
        "no leader",
        T0 + 9_000,
    )
    assert managed.pipeline is not None
    assert (managed.pipeline.latest_run_offset, managed.pipeline.latest_run_ms) == (0, T0 - 1_000)
    assert (other.pipeline, other.rulable) == (None, None)
    assert [one.pipeline for one in judged([managed, other])] == [managed.pipeline, None]


def test_what_applications_do_is_judged_by_the_limits_that_are_set() -> None:
    limits = Limits(flink_commit_overdue_ms=7, driver_silent_ms=5_000)
    reads = broker_record(
        BrokerStatus.ONGOING, 0, transaction="payments", producer_id=9, partitions=("__consumer_offsets-3",)
    )
    state = folded(reads, broker_record(BrokerStatus.ONGOING, 0, transaction=FLINK))
    state.flink.see_committables(
        FlinkCommittables(
            cluster=CLUSTER, job="a" * 32, number=1, path="chk-1", kind=FlinkKind.CHECKPOINT, read_ms=T0,
            written_ms=T0 + 50_000, prefixes=frozenset({"orders"}), committables=frozenset({Committable(FLINK, 0, 4)}),
        )
    )  # fmt: skip
    found = cases(state, limits)
    flink, reader = found[FLINK].flink, found["payments"].read_process_write
    assert flink is not None
    assert (flink.commit_overdue_ms, flink.driver_silent_ms, flink.now_ms) == (7, 5_000, T0 + 9_000)
    assert reader is not None
    assert (reader.silent_after_ms, reader.open_ms) == (5_000, 9_000)
    assert found[FLINK].limits is limits


def test_every_verdict_says_whose_it_is_where_the_id_tells() -> None:
    said = {
        one.view.transaction: one.judgement.evidence[-1].fact
        for one in judged(
            cases(folded(RUN, OPEN, broker_record(BrokerStatus.ONGOING, 0, transaction="payments"))).values()
        )
    }
    assert said["ip-count-0-1"] == "by its id: pipeline ip-count, slot 0"
    assert not said["payments"].startswith("by its id")


def test_a_pipeline_that_reports_nothing_has_the_default_times() -> None:
    history = pipeline_histories(folded(), [PREFIX], Limits())[PREFIX]
    assert history.facts == PipelineFacts(pipeline=PREFIX)
    assert (history.latest_run_offset, history.latest_run_ms, history.checkpoint_p99_ms) == (None, None, 0)
    assert (history.interval_ms, history.restart_delay_ms) == (10_000, 10_000)
    assert pipeline_now(folded(), PREFIX) is None


def test_a_pipeline_is_known_by_its_settings_and_its_newest_run() -> None:
    settings = {"interval_ms": 2_000, "restart_delay_ms": 3_000}
    state = folded(RUN, run_started(4, at=500, run="run-2"), event(EventType.PIPELINE_STARTED, 600, settings=settings))
    history, now = pipeline_histories(state, [PREFIX], Limits())[PREFIX], pipeline_now(state, PREFIX)
    assert (history.interval_ms, history.restart_delay_ms) == (2_000, 3_000)
    assert (history.latest_run_offset, history.latest_run_ms) == (4, T0 + 500)
    assert now is not None
    assert (now.facts, now.checkpoint_id, now.attempt, now.run_ms) == (history.facts, CHECKPOINT_ID, 4, T0 + 500)
    assert now.facts.started_ms == T0 + 600


def test_a_pipeline_that_ran_and_of_which_nothing_else_is_known_has_its_name() -> None:
    state = folded(RUN)
    state.pipelines.clear()
    now = pipeline_now(state, PREFIX)
    assert now is not None
    assert now.facts == PipelineFacts(pipeline=PREFIX)


def took(number: int, duration_ms: int, **changes: Any) -> CheckpointFacts:
    fields: dict[str, Any] = {"completed_ms": T0 + duration_ms, **changes}
    return CheckpointFacts(**{"pipeline": PREFIX, "number": number, "started_ms": T0, **fields})


def p99_of(checkpoints: Iterable[CheckpointFacts]) -> int:
    state = folded()
    state.checkpoints = {(one.pipeline, one.number): one for one in checkpoints}
    return pipeline_histories(state, [PREFIX], Limits())[PREFIX].checkpoint_p99_ms


def test_the_last_two_hundred_checkpoints_of_a_pipeline_tell_how_long_one_takes() -> None:
    last = [took(number, 500 if number > 2 else 9_000) for number in range(1, DURATIONS_CONSIDERED + 1)]
    assert DURATIONS_CONSIDERED == 200
    assert p99_of(last) == 9_000
    assert p99_of([took(0, 500), *last]) == 9_000, "one before them counts no more"
    assert p99_of(reversed([*last, took(201, 500), took(202, 500)])) == 500


def test_only_completed_checkpoints_of_the_pipeline_itself_tell_how_long_one_takes() -> None:
    others = [
        took(2, 7_000, pipeline="other"),
        took(3, 0, completed_ms=None, failed_ms=T0 + 8_000),
        took(4, 0, completed_ms=None),
    ]
    assert p99_of([took(1, 500), *others]) == 500
    assert p99_of(others) == 0


@pytest.mark.parametrize(
    ("durations", "share", "found"),
    [
        ([], 0.5, None),
        ([None], 0.5, None),
        ([7], 0.99, 7),
        ([3, None, 1, 2], 0.5, 2),
        ([4, 3, 2, 1], 0.5, 3),
        ([1, 2, 3], 1.0, 3),
        ([1, 2, 3], 0.0, 1),
    ],
)
def test_a_percentile_is_one_of_the_known_durations(
    durations: list[int | None], share: float, found: int | None
) -> None:
    assert percentile(durations, share) == found
