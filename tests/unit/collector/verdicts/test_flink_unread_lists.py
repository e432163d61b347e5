"""Rules 30 and 31: a completed checkpoint must hold a transaction, and its list is not read. Each condition alone decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.flink_facts import FlinkState
from collector.records.formats.flink_records import Committable, FlinkKind, FlinkStatus
from collector.verdicts import flink_commits
from collector.verdicts.flink_cases import flink_case
from collector.verdicts.flink_commits import rule_30_list_out_of_reach, rule_31_list_not_read
from lifecycle.verdicts import Judgement, Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.test_flink_commits import (
    COMPLETED_3,
    DAMAGED_3,
    FAILED_JOB,
    JOB,
    LISTED_2,
    NOT_LISTED,
    OTHER_JOB,
    OUT_OF_REACH,
    PATH_3,
    RUNS,
    STARTED_ANEW,
    flink_state,
    judged,
    listing,
    open_view,
    restored_job,
)

EARLIER, NUMBERED = checkpoint(2), (FAILED_JOB, checkpoint(2), COMPLETED_3)
SEEN: tuple[Any, ...] = (FAILED_JOB, EARLIER, COMPLETED_3, LISTED_2, OUT_OF_REACH)
COMMIT, DOUBT, GOES_ON, ABORT = Verdict.COMMIT_IT, Verdict.UNKNOWN, Verdict.IN_PROGRESS, Verdict.ABORT_IT


def found(*seen: Any, opened: int = 22_000, polled: bool = False, at: int = 90_000) -> Judgement | None:
    return judged(flink_state(list(seen), polled), open_view(opened), at)


def without(*left_out: Any) -> tuple[Any, ...]:
    return tuple(each for each in SEEN if not any(each is one for one in left_out))


def test_it_is_committed_only_by_typing_the_checkpoint_and_an_abort_warns() -> None:
    judgement = found(*SEEN)
    assert judgement is not None
    assert (judgement.verdict, judgement.rule, judgement.commit_confirmation) == (COMMIT, 30, "chk-3")
    assert judgement.may_commit
    assert judgement.may_abort
    assert judgement.loses_data
    facts = "; ".join(each.fact for each in judgement.evidence)
    assert "REST reported checkpoint 3 of eu/orders as completed" in facts
    assert f"{PATH_3}/_metadata cannot be read: permission denied" in facts
    assert "loses its rows" in facts


@pytest.mark.parametrize(
    ("seen", "doubt"),
    [
        ((*without(OUT_OF_REACH), DAMAGED_3), "cannot be read: byte 17: damaged"),
        ((*SEEN, DAMAGED_3), "whether a job can be restored from that checkpoint"),
        (without(OUT_OF_REACH), "it was not found there"),
        ((*without(LISTED_2), replace(LISTED_2, pooled=frozenset({"orders"}))), "uses its ids again"),
        (without(EARLIER), "was restarted before its first checkpoint"),
        ((*without(EARLIER), checkpoint(2, kind=FlinkKind.SAVEPOINT)), "was restarted before its first checkpoint"),
        ((*without(FAILED_JOB), job(state="FAILED", started_ms=T0 + 21_001)), "left from before"),
        ((*SEEN, job(state="FAILED", restored=2, restored_at=21_001)), "left from before"),
        ((*SEEN, restored_job(OTHER_JOB, 3, 60_000)), "a job was restored from checkpoint 3"),
        ((*SEEN, restored_job(OTHER_JOB, 2, 60_000)), "a job was restored from checkpoint 2"),
        ((*SEEN, STARTED_ANEW), "has the same name and started at"),
        ((*SEEN, listing(4, NOT_LISTED, written=40_000)), "a list that must name it"),
    ],
    ids=[
        "damaged",
        "damaged, then out of reach",
        "gone",
        "pooled ids",
        "no checkpoint before it",
        "a savepoint before it: no restart goes on from it",
        "its job may have started after it",
        "its job may have been restored after it",
        "restored from it",
        "set back",
        "a job of that name from nowhere",
        "a later list does not name it",
    ],
)
def test_one_doubt_is_enough_to_offer_no_commit(seen: tuple[Any, ...], doubt: str) -> None:
    judgement = found(*seen)
    assert judgement is not None
    assert (judgement.verdict, judgement.rule) == (DOUBT, 31)
    assert not judgement.may_commit
    assert judgement.may_abort
    assert judgement.loses_data, "its abort takes a typed confirmation"
    assert doubt in "; ".join(each.fact for each in judgement.evidence)


@pytest.mark.parametrize(
    ("opened", "rule"),
    [(29_000, 30), (29_001, 31), (31_000, 31), (31_001, 0)],
    ids=["before it was triggered", "perhaps after", "as it ended", "after it ended"],
)
def test_it_must_have_begun_before_the_checkpoint_was_triggered(opened: int, rule: int) -> None:
    judgement = found(*SEEN, opened=opened)
    assert (judgement.rule if judgement is not None else 0) == rule


@pytest.mark.parametrize(
    ("seen", "rule"),
    [
        ((*without(COMPLETED_3), checkpoint(3, FlinkStatus.FAILED, path=PATH_3)), 0),
        ((*without(COMPLETED_3), checkpoint(3, FlinkStatus.IN_PROGRESS, path=PATH_3)), 0),
        ((*without(COMPLETED_3), replace(COMPLETED_3, kind=FlinkKind.SAVEPOINT)), 0),
        ((*SEEN, listing(3, NOT_LISTED)), 0),
        ((*SEEN, listing(3, NOT_LISTED, written=28_999)), 31),
        ((*SEEN, restored_job(OTHER_JOB, 2, 60_000), listing(2, NOT_LISTED, job=OTHER_JOB)), 31),
        ((*SEEN, job(state="FAILED", restored=2, restored_at=60_000)), 26),
    ],
    ids=[
        "it failed",
        "it has not ended",
        "a savepoint",
        "read whole",
        "an older list of its number",
        "another went on",
        "lingers",
    ],
)
def test_only_a_completed_checkpoint_without_a_list_holds_it(seen: tuple[Any, ...], rule: int) -> None:
    judgement = found(*seen)
    assert (judgement.rule if judgement is not None else 0) == rule


def test_a_later_checkpoint_holds_what_a_failed_one_did_not_commit() -> None:
    later = checkpoint(4, path=f"file:///checkpoints/{JOB}/chk-4")
    failed = checkpoint(3, FlinkStatus.FAILED)
    judgement = found(*without(COMPLETED_3, OUT_OF_REACH), failed, later, {(JOB, None): "denied"})
    assert judgement is not None
    assert (judgement.verdict, judgement.rule, judgement.commit_confirmation) == (COMMIT, 30, "chk-4")


@pytest.mark.parametrize("key", [(JOB, 3), (JOB, None), ("", None)])
def test_a_reason_may_be_of_one_checkpoint_of_a_job_or_of_all(key: tuple[str, int | None]) -> None:
    judgement = found(*without(OUT_OF_REACH), {key: "no route to host"})
    assert judgement is not None
    assert judgement.rule == 30
    others = found(*without(OUT_OF_REACH), {(OTHER_JOB, None): "no route to host", (JOB, 2): "denied"})
    assert others is not None
    assert others.rule == 31


def test_while_its_job_runs_it_is_in_progress() -> None:
    judgement = found(*without(FAILED_JOB), RUNS, polled=True)
    assert judgement is not None
    assert (judgement.verdict, judgement.rule) == (GOES_ON, 27)


@pytest.mark.parametrize(("at", "verdict"), [(32_999, GOES_ON), (33_000, COMMIT)])
def test_it_is_overdue_from_the_millisecond_on(at: int, verdict: Verdict) -> None:
    judgement = found(*SEEN, at=at)
    assert judgement is not None
    assert judgement.verdict is verdict


@pytest.mark.parametrize(
    ("seen", "opened", "is_tied"),
    [
        (NUMBERED, 22_000, True),
        (NUMBERED, 18_999, False),
        (NUMBERED, 31_001, False),
        ((FAILED_JOB, COMPLETED_3), 22_000, False),
        ((*NUMBERED, replace(FAILED_JOB, job=OTHER_JOB), *(replace(each, job=OTHER_JOB) for each in NUMBERED[1:])), 22_000, False),
        ((*NUMBERED, listing(2, Committable("others-0-2", 1, 1), written=20_000)), 22_000, True),
        ((RUNS, *NUMBERED[1:]), 22_000, False),
    ],
    ids=[
        "number and time fit",
        "before the checkpoint before",
        "after it",
        "the checkpoint before is not known",
        "two jobs fit",
        "the prefix is in a list",
        "its job runs",
    ],
)  # fmt: skip
def test_without_a_prefix_its_number_and_time_may_tie_it_to_one_job(
    seen: tuple[Any, ...], opened: int, is_tied: bool
) -> None:
    judgement = found(*seen, opened=opened, polled=True)
    assert (judgement is not None) is is_tied
    if judgement is not None:
        assert (judgement.verdict, judgement.rule, judgement.may_commit) == (DOUBT, 31, False)


def test_of_jobs_with_lists_only_those_without_a_whole_one_are_looked_at() -> None:
    state = FlinkState()
    state.see_job(FAILED_JOB)
    state.see_job(replace(FAILED_JOB, job=OTHER_JOB))
    state.see_committables(DAMAGED_3)
    assert [facts.job.job for facts in state.jobs_without_list()] == [JOB, OTHER_JOB]
    state.see_committables(listing())
    assert [facts.job.job for facts in state.jobs_without_list()] == [OTHER_JOB]
    state.see_checkpoint(replace(COMPLETED_3, job="c" * 32))
    assert [facts.job.job for facts in state.jobs_without_list()] == [OTHER_JOB, "c" * 32]


def test_the_limit_of_one_that_its_number_ties_to_a_job_is_handed_on() -> None:
    case = flink_case(flink_state([*NUMBERED], False), open_view(22_000), commit_overdue_ms=1_234, now_ms=T0 + 90_000)
    assert case is not None
    assert case.unread is not None
    assert (case.commit_overdue_ms, case.now_ms) == (1_234, T0 + 90_000)


@pytest.mark.parametrize(
    ("since_ms", "sure", "doubtful"),
    [(1_999, (GOES_ON, 31), (GOES_ON, 31)), (2_000, (COMMIT, 30), (DOUBT, 31))],
)
def test_what_is_not_read_is_due_once_its_commit_is(
    since_ms: int, sure: tuple[Verdict, int], doubtful: tuple[Verdict, int]
) -> None:
    case = flink_case(flink_state([*SEEN], False), open_view(22_000), commit_overdue_ms=2_000, now_ms=0)
    assert case is not None
    assert case.unread is not None
    due = replace(case, now_ms=case.unread.ended_ms + since_ms)
    for each, expected in ((due, sure), (replace(due, unread=replace(case.unread, doubt="odd")), doubtful)):
        judgement = flink_commits.judge(each)
        assert judgement is not None
        assert (judgement.verdict, judgement.rule) == expected


def test_what_a_checkpoint_lists_is_judged_by_that_list_alone() -> None:
    case = flink_case(flink_state([*SEEN], False), open_view(22_000), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert case is not None
    for rule in (rule_30_list_out_of_reach, rule_31_list_not_read):
        assert rule(case) is not None
        assert rule(replace(case, listings=(listing(),))) is None
