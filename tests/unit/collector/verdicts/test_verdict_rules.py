"""Every rule of the verdicts: when it answers, what it offers, and what it must never offer."""

from __future__ import annotations

from typing import Any

import pytest

from collector.facts import PipelineFacts
from collector.observations import Observation
from collector.transaction_joins import find, views
from collector.transaction_state_records import BrokerStatus
from collector.verdicts import LogSight, judge
from lifecycle.decisions import Ruling, Settled
from lifecycle.events import EventType
from lifecycle.verdicts import Verdict
from tests.unit.collector_observations import (
    PREFIX,
    T0,
    broker_record,
    case,
    database_handle,
    decided,
    folded,
    handle,
    only_view,
    outcome,
    pipeline,
    run_started,
    transaction_event,
)

ONGOING = broker_record(BrokerStatus.ONGOING, 0)
COMMITTED = broker_record(BrokerStatus.COMPLETE_COMMIT, 1500, epoch=5, version=2)
PREPARING_COMMIT = broker_record(BrokerStatus.PREPARE_COMMIT, 1500, epoch=5, version=2)
PREPARING_ABORT = broker_record(BrokerStatus.PREPARE_ABORT, 1500, epoch=5, version=2)
ABORTED = broker_record(BrokerStatus.COMPLETE_ABORT, 1500, epoch=5, version=2)
OVERTAKING = broker_record(BrokerStatus.ONGOING, 9_000, start=9_000, epoch=6)
PREPARED = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())
RUN = run_started(0)
COMMIT = decided(1, handle())
ABORT = decided(1, handle(), ruling=Ruling.ABORT)
COMMIT_OF_OLD_RUN = [run_started(0), run_started(1, at=800, run="run-2"), decided(2, handle())]
FOREIGN = broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3")
FOREIGN_COMMITTED = broker_record(BrokerStatus.COMPLETE_COMMIT, 9, transaction="flink-orders-3")
NEXT_RUN = run_started(2, at=1500, run="run-2")
LATER_DECIDED = {"later_batch_decided": True}
LOOKS_LIKE_OURS = broker_record(BrokerStatus.ONGOING, 0, transaction="unknown-0-1")
UNREADABLE = {"log_sight": LogSight.UNREADABLE, "log_error": "no broker answered"}
STOPPED = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, stopped_ms=T0 + 950, sign_ms=T0 + 950))}
RESTARTING = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, restarting_ms=T0 + 950, sign_ms=T0 + 950))}
STOPPED_BEFORE = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, stopped_ms=T0 - 5, sign_ms=T0 + 900))}
ALIVE = {"pipeline": pipeline(facts=PipelineFacts(pipeline=PREFIX, sign_ms=T0 + 39_000))}
SLOW = {"pipeline": pipeline(interval_ms=20_000)}
SLOW_BATCH = {"pipeline": pipeline(checkpoint_p99_ms=20_000)}
NEWER = {"pipeline": pipeline(latest_run_offset=1, latest_run_ms=T0 + 800)}

CASES: list[tuple[str, list[Observation], int, dict[str, Any], Verdict, int]] = [
    # name, what was observed, ms after opening, what else, verdict, rule
    ("committed", [RUN, ONGOING, PREPARED, COMMIT, COMMITTED], 2000, {}, Verdict.SETTLED, 1),
    ("committed, decision log unreadable", [RUN, ONGOING, COMMITTED], 2000, UNREADABLE, Verdict.SETTLED, 1),
    ("aborted and never decided", [RUN, ONGOING, PREPARED, ABORTED], 2000, {}, Verdict.SETTLED, 1),
    ("aborted as decided", [RUN, ONGOING, PREPARED, ABORT, ABORTED], 2000, {}, Verdict.SETTLED, 1),
    ("aborted, its commit decision void", [*COMMIT_OF_OLD_RUN, ONGOING, ABORTED], 2000, {}, Verdict.SETTLED, 1),
    ("foreign and committed", [FOREIGN, FOREIGN_COMMITTED], 10, {}, Verdict.SETTLED, 1),
    ("only an outcome is known", [RUN, COMMIT, outcome(2, handle(), Settled.COMMITTED)], 9000, {}, Verdict.SETTLED, 1),
    ("lost and replayed since", [RUN, ONGOING, COMMIT, ABORTED], 9000, {"replayed_ms": T0 + 8000}, Verdict.SETTLED, 2),
    ("lost", [RUN, ONGOING, COMMIT, ABORTED], 2000, {}, Verdict.LOST, 3),
    ("lost, the abort still being written", [RUN, ONGOING, COMMIT, PREPARING_ABORT], 2000, {}, Verdict.LOST, 3),
    ("lost as recovery found", [RUN, COMMIT, outcome(2, handle(), Settled.LOST)], 9000, {}, Verdict.LOST, 3),
    ("ours, decision log unreadable", [RUN, ONGOING, PREPARED], 600, UNREADABLE, Verdict.UNKNOWN, 4),
    ("decided, decision log unreadable since", [RUN, ONGOING, COMMIT], 9000, UNREADABLE, Verdict.UNKNOWN, 4),
    ("may be ours, decision log unreadable", [LOOKS_LIKE_OURS], 600, UNREADABLE, Verdict.UNKNOWN, 4),
    ("never ours, decision log unreadable", [FOREIGN], 600, UNREADABLE, Verdict.FOREIGN, 6),
    ("being committed", [RUN, ONGOING, COMMIT, PREPARING_COMMIT], 9000, {}, Verdict.IN_PROGRESS, 5),
    ("being aborted", [RUN, ONGOING, PREPARING_ABORT], 2000, {}, Verdict.IN_PROGRESS, 5),
    ("foreign", [FOREIGN], 600, {}, Verdict.FOREIGN, 6),
    ("shape of our ids, but no run of the prefix", [RUN, LOOKS_LIKE_OURS], 600, {}, Verdict.FOREIGN, 6),
    ("no decision log at all", [LOOKS_LIKE_OURS], 600, {"log_sight": LogSight.ABSENT}, Verdict.FOREIGN, 6),
    ("decided 2 s ago and open", [RUN, ONGOING, PREPARED, COMMIT], 3000, {}, Verdict.COMMIT_IT, 7),
    ("decided, its prepared event lost", [RUN, ONGOING, COMMIT], 3000, {}, Verdict.COMMIT_IT, 7),
    ("decided, its driver gone", [RUN, ONGOING, COMMIT], 40_000, STOPPED, Verdict.COMMIT_IT, 7),
    ("decided, a newer run started since", [RUN, ONGOING, COMMIT, NEXT_RUN], 4000, NEWER, Verdict.COMMIT_IT, 7),
    ("decided just now", [RUN, ONGOING, PREPARED, COMMIT], 2999, {}, Verdict.IN_PROGRESS, 8),
    ("decided, never seen at the broker, later batch decided", [RUN, COMMIT], 9000, LATER_DECIDED, Verdict.SETTLED, 9),
    ("decided, never seen at the broker", [RUN, COMMIT], 9000, {}, Verdict.UNKNOWN, 9),
    ("abort decided, still open", [RUN, ONGOING, PREPARED, ABORT], 3000, {}, Verdict.ABORT_IT, 10),
    ("newer run, attempt known", [RUN, ONGOING, PREPARED], 900, NEWER, Verdict.ABORT_IT, 11),
    ("newer run, attempt not known", [RUN, ONGOING], 900, NEWER, Verdict.ABORT_IT, 11),
    ("newer run voided its commit", [*COMMIT_OF_OLD_RUN, ONGOING], 3000, NEWER, Verdict.ABORT_IT, 11),
    ("pipeline stopped since", [RUN, ONGOING, PREPARED], 1000, STOPPED, Verdict.ABORT_IT, 12),
    ("pipeline restarts since", [RUN, ONGOING, PREPARED], 1000, RESTARTING, Verdict.ABORT_IT, 12),
    ("pipeline had stopped before", [RUN, ONGOING, PREPARED], 1000, STOPPED_BEFORE, Verdict.IN_PROGRESS, 15),
    ("driver silent for more than 30 s", [RUN, ONGOING, PREPARED], 31_000, {}, Verdict.ABORT_IT, 13),
    ("driver silent for less", [RUN, ONGOING, PREPARED], 30_800, {}, Verdict.IN_PROGRESS, 15),
    ("silent, but its interval is 20 s", [RUN, ONGOING, PREPARED], 26_000, SLOW, Verdict.IN_PROGRESS, 15),
    ("silent, but its batches take 20 s", [RUN, ONGOING, PREPARED], 22_000, SLOW_BATCH, Verdict.IN_PROGRESS, 15),
    ("less time left than recovery needs", [RUN, ONGOING, PREPARED], 45_000, ALIVE, Verdict.AT_RISK, 14),
    ("in progress", [RUN, ONGOING, PREPARED], 700, {}, Verdict.IN_PROGRESS, 15),
    ("open, nothing told of it yet", [RUN, ONGOING], 100, {}, Verdict.IN_PROGRESS, 15),
]  # fmt: skip


@pytest.mark.parametrize(
    ("observed", "at", "more", "verdict", "rule"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_case(observed: list[Observation], at: int, more: dict[str, Any], verdict: Verdict, rule: int) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert (judgement.verdict, judgement.rule) == (verdict, rule)
    assert judgement.evidence, "a verdict shows what it rests on"


def test_every_rule_has_a_case() -> None:
    assert {rule for *_, rule in CASES} == set(range(1, 16))


@pytest.mark.parametrize(("observed", "at", "more"), [c[1:4] for c in CASES], ids=[c[0] for c in CASES])
def test_only_what_a_counting_decision_lists_may_be_committed_and_never_aborted(
    observed: list[Observation], at: int, more: dict[str, Any]
) -> None:
    view = only_view(*observed)
    judgement = judge(case(view, at, **more))
    assert not (judgement.may_commit and view.listing is None)
    assert not (judgement.may_abort and view.listing is not None)
    assert not (judgement.may_commit and judgement.may_abort)


@pytest.mark.parametrize(("observed", "at", "more"), [c[1:4] for c in CASES if c[3] == UNREADABLE and c[5] == 4])
def test_nothing_is_offered_while_the_decision_log_cannot_be_read(
    observed: list[Observation], at: int, more: dict[str, Any]
) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert not judgement.may_commit
    assert not judgement.may_abort


def test_a_foreign_abort_takes_a_typed_confirmation() -> None:
    judgement = judge(case(only_view(FOREIGN), 600))
    assert judgement.may_abort
    assert judgement.loses_data


def test_an_abort_is_not_offered_while_its_batch_is_unknown_and_no_newer_run_started() -> None:
    # Without the batch no abort decision can name it: the driver could still decide to commit it.
    judgement = judge(case(only_view(RUN, ONGOING), 1000, **STOPPED))
    assert judgement.verdict is Verdict.ABORT_IT
    assert not judgement.may_abort


def test_a_transaction_overtaken_by_a_later_one_of_its_id_is_settled() -> None:
    state = folded(RUN, ONGOING, OVERTAKING)
    first = next(v for v in views(state, settled=True) if v.opened_ms == T0)
    assert find(state, first.key) == first
    judgement = judge(case(first, 10_000))
    assert (judgement.verdict, judgement.rule) == (Verdict.SETTLED, 9)


BRANCH = database_handle()
BRANCH_PREPARED = transaction_event(EventType.TRANSACTION_PREPARED, 500, BRANCH, handle=BRANCH.to_json())
BRANCH_CASES = [
    ("prepared", [RUN, BRANCH_PREPARED], 45_000, ALIVE, Verdict.IN_PROGRESS, 15),
    ("decided", [RUN, BRANCH_PREPARED, decided(1, BRANCH)], 9_000, {}, Verdict.UNKNOWN, 9),
    ("decided, a later batch too", [RUN, decided(1, BRANCH)], 9_000, LATER_DECIDED, Verdict.SETTLED, 9),
    ("abort decided", [RUN, BRANCH_PREPARED, decided(1, BRANCH, ruling=Ruling.ABORT)], 9_000, {}, Verdict.ABORT_IT, 10),
    ("newer run", [RUN, BRANCH_PREPARED], 900, NEWER, Verdict.ABORT_IT, 11),
    ("lost", [RUN, decided(1, BRANCH), outcome(2, BRANCH, Settled.LOST)], 9_000, {}, Verdict.LOST, 3),
]


@pytest.mark.parametrize(
    ("observed", "at", "more", "verdict", "rule"), [c[1:] for c in BRANCH_CASES], ids=[c[0] for c in BRANCH_CASES]
)
def test_a_branch_in_a_database_never_times_out_and_takes_no_order(
    observed: list[Observation], at: int, more: dict[str, Any], verdict: Verdict, rule: int
) -> None:
    judgement = judge(case(only_view(*observed), at, **more))
    assert (judgement.verdict, judgement.rule) == (verdict, rule)
    assert judgement.evidence
    assert not judgement.may_commit
    assert not judgement.may_abort
