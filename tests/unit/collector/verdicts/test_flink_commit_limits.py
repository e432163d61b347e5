"""Rules 21 to 31 at their limits: each condition alone decides whether a transaction of Flink may be committed or aborted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkJob, FlinkKind
from indoubt.collector.verdicts import flink_cases, flink_commits
from indoubt.collector.verdicts.flink_commits import (
    rule_26_lingering,
    rule_27_job_runs,
    rule_30_list_out_of_reach,
    rule_31_list_not_read,
)
from indoubt.collector.verdicts.flink_evidence import listed_as
from indoubt.collector.verdicts.flink_known import Answer, FlinkCase
from indoubt.collector.verdicts.flink_line import Rival, Standing
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.flink_given import (
    BEGUN,
    COMPLETED_2,
    COMPLETED_3,
    DAMAGED_3,
    EPOCH,
    FAILED,
    FAILED_3,
    JOB,
    LISTED_3,
    NONE_IN_2,
    NOT_LISTED,
    OPENED,
    OTHER,
    OUT_OF_REACH,
    PRODUCER,
    RUNS,
    THIRD,
    WRITTEN,
    At,
    begun,
    case_of,
    chk,
    flink_state,
    heir,
    itself,
    judged,
    listing,
    sure_case,
)

WRITTEN_MS, NOW = T0 + WRITTEN, T0 + WRITTEN + 60_000
COMMIT, ABORT, GOES_ON, DOUBT = "commit it", "abort it", "in progress", "unknown"


def restore(number: int, at_ms: int = WRITTEN_MS + 30_000) -> Restore:
    return Restore(at_ms=at_ms, number=number)


def listed(*restores: Restore, **changes: Any) -> FlinkCase:
    """Return the case of a transaction that checkpoint 3 lists, and that nothing is known to have completed."""
    fields: dict[str, Any] = {
        "start_ms": T0 + OPENED, "listings": (LISTED_3,), "job": None, "name": "eu/orders", "polled": False, "restores": restores,
        "commit_overdue_ms": 2_000, "now_ms": NOW, **changes,
    }  # fmt: skip
    return FlinkCase(**fields)


def unlisted(**changes: Any) -> FlinkCase:
    """Return the case of one that began at 22 s and lingers since its job was restored from checkpoint 2 at 60 s."""
    fields = {"listings": (), "last_restore": restore(2, T0 + 60_000), "restored": NONE_IN_2}
    return replace(listed(), **{**fields, **changes})


def began_after(start: int, started: int, *restores: int, **changes: Any) -> FlinkCase:
    """Return the case of one that no checkpoint lists, of a job that runs since then and was restored at these times."""
    known = FlinkJobFacts(job=job(started_ms=T0 + started), restores=tuple(restore(2, T0 + at) for at in restores))
    return unlisted(
        **{"job": known, "polled": True, "last_restore": None, "restored": None, "start_ms": T0 + start, **changes}
    )


def of_job(*checkpoints: Any, told: FlinkJob = FAILED) -> FlinkJobFacts:
    return FlinkJobFacts(job=told, checkpoints={each.number: each for each in checkpoints})


def due(since_ms: int, doubt: str = "") -> FlinkCase:
    """Return the case of one whose list is not read, so long after the checkpoint ended."""
    case = sure_case([FAILED, COMPLETED_2, COMPLETED_3, NONE_IN_2, OUT_OF_REACH])
    assert case.unread is not None
    return replace(case, now_ms=case.unread.ended_ms + since_ms, unread=replace(case.unread, doubt=doubt))


JOB_RUNS, JOB_OVER = of_job(told=RUNS), of_job()
BOTH = (LISTED_3, listing(5, written=50_000))
ENDED_MS = COMPLETED_3.ended_ms or 0
UNPLACED_3 = checkpoint(3)
"""REST does not tell its path: only its time says which list is its own."""
LIMITS = [
    # The last restore that tells decides.
    ("restored from before it", listed(restore(2)), ABORT, 22),
    ("restored from it", listed(restore(3)), COMMIT, 23),
    ("restored from before it, as it was written", listed(restore(2, WRITTEN_MS - 1_000)), ABORT, 22),
    ("restored from before it, before it was written", listed(restore(2, WRITTEN_MS - 1_001)), COMMIT, 25),
    ("restored from an earlier one of this number", listed(restore(3, WRITTEN_MS - 1_001)), COMMIT, 25),
    ("restored from a later one that does not list it", listed(restore(4)), COMMIT, 25),
    ("from before it, then from a later one", listed(restore(2), restore(4)), DOUBT, 21),
    ("from it, then from a later one", listed(restore(3), restore(4)), DOUBT, 21),
    ("so it was, and it was completed", listed(restore(3), restore(4), job=of_job(checkpoint(3), told=RUNS)), COMMIT, 23),
    ("so it was, and it failed", listed(restore(3), restore(4), job=of_job(FAILED_3, told=RUNS)), DOUBT, 21),
    ("completed, set back, then from a later one", listed(restore(2), restore(4), job=of_job(checkpoint(3))), DOUBT, 21),
    ("from it, then from before it", listed(restore(3), restore(2)), ABORT, 22),
    ("from before it, then from it", listed(restore(2), restore(3)), COMMIT, 23),
    ("in doubt, then from before it", listed(restore(2), restore(4), restore(2)), ABORT, 22),
    ("in doubt, then from it", listed(restore(2), restore(4), restore(3)), COMMIT, 23),
    ("from a later one that lists it, too", listed(restore(5), listings=BOTH), COMMIT, 23),
    ("from before it, then from one between two lists", listed(restore(2), restore(4), listings=BOTH), DOUBT, 21),
    # Only an end after its list was written completes it.
    ("completed", listed(job=of_job(UNPLACED_3)), COMMIT, 23),
    ("within the clocks' difference", listed(job=of_job(replace(UNPLACED_3, ended_ms=WRITTEN_MS - 1_000))), COMMIT, 23),
    ("an earlier one of this number", listed(job=of_job(replace(UNPLACED_3, ended_ms=WRITTEN_MS - 1_001))), COMMIT, 25),
    ("no end", listed(job=of_job(replace(UNPLACED_3, ended_ms=None))), COMMIT, 25),
    # From the millisecond on it is overdue.
    ("completed just now", listed(job=of_job(COMPLETED_3), now_ms=ENDED_MS + 1_999), GOES_ON, 23),
    ("completed, and overdue", listed(job=of_job(COMPLETED_3), now_ms=ENDED_MS + 2_000), COMMIT, 23),
    ("written just now", listed(now_ms=WRITTEN_MS + 1_999), GOES_ON, 25),
    ("written, and overdue", listed(now_ms=WRITTEN_MS + 2_000), COMMIT, 25),
    ("not read, just now", due(1_999), GOES_ON, 31),
    ("not read, and overdue", due(2_000), COMMIT, 30),
    ("not read, in doubt, just now", due(1_999, "odd"), GOES_ON, 31),
    ("not read, in doubt, and overdue", due(2_000, "odd"), DOUBT, 31),
    # Listed, without an end.
    ("its job runs", listed(polled=True, job=JOB_RUNS), GOES_ON, 24),
    ("no job is known", listed(polled=True), COMMIT, 25),
    ("REST was not asked", listed(job=JOB_RUNS), COMMIT, 25),
    ("REST is away: its timeout does not wait", listed(job=JOB_RUNS, away_since_ms=NOW), COMMIT, 25),
    ("its job is over", listed(polled=True, job=JOB_OVER), COMMIT, 25),
    ("another job of that name", listed(doubt="another job"), DOUBT, 21),
    # Unlisted: it lingers only between the restored checkpoint and the restore.
    ("lingers", unlisted(), ABORT, 26),
    ("lingers, whatever other restores there were", unlisted(restores=(restore(2),)), ABORT, 26),
    ("never restored", unlisted(last_restore=None), "", 0),
    ("what it was restored from was not read", unlisted(restored=None), "", 0),
    ("just before the restore", unlisted(start_ms=T0 + 58_999), ABORT, 26),
    ("perhaps after the restore", unlisted(start_ms=T0 + 59_000), "", 0),
    ("just after what it was restored from", unlisted(start_ms=T0 + 21_001), ABORT, 26),
    ("perhaps before that was written", unlisted(start_ms=T0 + 21_000), "", 0),
    # Unlisted: its job runs, and it began after the job's last start.
    ("as its job started", began_after(19_000, 20_000), GOES_ON, 27),
    ("before its job started", began_after(18_999, 20_000), "", 0),
    ("as its job was restored", began_after(39_000, 20_000, 40_000), GOES_ON, 27),
    ("before its job was restored", began_after(38_999, 20_000, 40_000), "", 0),
    ("before the last of two restores", began_after(38_999, 20_000, 30_000, 40_000), "", 0),
    ("restored before it started again", began_after(48_999, 50_000, 40_000), "", 0),
    ("as its job started, REST was not asked", began_after(19_000, 20_000, polled=False), "", 0),
    ("of a job that is not known", began_after(19_000, 20_000, job=None), "", 0),
]  # fmt: skip


def answer(case: FlinkCase) -> tuple[str, int]:
    found = flink_commits.judge(case)
    return (found.verdict.value, found.rule) if found is not None else ("", 0)


@table("case, verdict, rule", LIMITS)
def test_each_condition_alone_decides(case: FlinkCase, verdict: str, rule: int) -> None:
    assert answer(case) == (verdict, rule)


def test_what_a_checkpoint_lists_is_judged_by_that_list_alone() -> None:
    both = unlisted(listings=(LISTED_3,), polled=True, job=JOB_RUNS)
    assert rule_26_lingering(both) is rule_27_job_runs(replace(both, start_ms=T0 + 90_000)) is None
    unread = replace(due(2_000), listings=(LISTED_3,))
    assert rule_30_list_out_of_reach(unread) is rule_31_list_not_read(unread) is None


def test_what_completed_it() -> None:
    assert listed(restore(2)).completed() is None
    assert listed(restore(5), listings=BOTH).completed() == (5, WRITTEN_MS + 30_000, "the job was restored from it")


@table(
    "kind, is_one",
    [
        ("a savepoint", FlinkKind.SAVEPOINT, True),
        ("the last savepoint", FlinkKind.SYNC_SAVEPOINT, True),
        ("a checkpoint", FlinkKind.CHECKPOINT, False),
        ("before Flink 1.15", None, False),
    ],
)
def test_a_list_is_a_savepoint_s_as_it_says_itself_or_as_rest_says(kind: FlinkKind | None, is_one: bool) -> None:
    of_kind = replace(LISTED_3, kind=kind)
    assert listed().is_savepoint(of_kind) is is_one
    assert listed(job=of_job(COMPLETED_3)).is_savepoint(of_kind) is is_one
    assert listed(job=of_job(replace(COMPLETED_3, kind=FlinkKind.SAVEPOINT))).is_savepoint(of_kind)


RIVAL = Rival(facts=JOB_RUNS, standing=Standing.HOLDS, why="another job was restored from it", restore=restore(3))
GONE = [
    # name, the case, whether its job counts as gone, and whether it may run
    ("it runs", listed(job=JOB_RUNS, polled=True), False, True),
    ("one poll failed just now", listed(job=JOB_RUNS, away_since_ms=NOW), False, True),
    ("1.999 s ago", listed(job=JOB_RUNS, away_since_ms=NOW - 1_999), False, True),
    ("2 s ago", listed(job=JOB_RUNS, away_since_ms=NOW - 2_000), True, True),
    ("2 s ago, a branch", listed(job=JOB_RUNS, away_since_ms=NOW - 2_000, is_branch=True), False, True),
    ("29.999 s ago", listed(job=JOB_RUNS, away_since_ms=NOW - 29_999), True, True),
    ("30 s ago", listed(job=JOB_RUNS, away_since_ms=NOW - 30_000), True, False),
    ("30 s ago, a branch", listed(job=JOB_RUNS, away_since_ms=NOW - 30_000, is_branch=True), False, False),
    ("it was not asked", listed(job=JOB_RUNS), False, False),
    ("it is over", listed(job=JOB_OVER, polled=True), True, False),
    ("it is over, a branch", listed(job=JOB_OVER, away_since_ms=NOW, is_branch=True), True, False),
    ("it is not known", listed(polled=True), False, False),
    ("it is not known, REST is away", listed(away_since_ms=NOW), False, False),
    ("it is not known, another one holds it", listed(rivals=(RIVAL,)), False, False),
    ("another one holds it", listed(job=JOB_RUNS, rivals=(RIVAL,), away_since_ms=NOW), False, True),
]  # fmt: skip


@table("case, is_gone, may_run", GONE)
def test_one_poll_that_failed_does_not_make_a_job_gone(case: FlinkCase, is_gone: bool, may_run: bool) -> None:
    assert (case.is_gone, case.may_run) == (is_gone, may_run)


def test_rest_is_away_from_its_first_poll_that_failed_until_it_answers() -> None:
    state = FlinkState()
    assert state.see_polled("eu", 100, answered=True)
    assert not state.see_polled("eu", 200, answered=True)
    assert (state.polled_ms, state.away_since_ms) == ({"eu": 200}, {})
    assert state.see_polled("eu", 300, answered=False)
    assert not state.see_polled("eu", 400, answered=False)
    assert (state.polled_ms, state.away_since_ms) == ({}, {"eu": 300})
    assert state.copy().away_since_ms == {"eu": 300}
    assert state.see_polled("eu", 500, answered=True)
    assert (state.polled_ms, state.away_since_ms) == ({"eu": 500}, {})


def test_while_rest_is_away_for_a_moment_an_unlisted_one_stays_in_progress_unless_a_checkpoint_may_hold_it() -> None:
    state = flink_state([RUNS, listing(2, NOT_LISTED, written=20_100)])
    state.see_polled("eu", T0 + 40_000, answered=False)
    case = case_of(state, [At(48_999)], silent_ms=9_000)
    assert case is not None
    assert answer(case) == (GOES_ON, 27)
    assert answer(replace(case, now_ms=T0 + 49_000)) == ("", 0)
    state.see_checkpoint(checkpoint(3))
    held = case_of(state, [At(40_001)])
    assert held is not None
    assert answer(held) == (DOUBT, 31), "its timeout does not wait"


HOLDS_TOO = [
    # name, the number in its id, what else was seen of checkpoint 3, which the job was restored from; verdict, rule
    ("its number is higher", 4, [], ABORT, 22),
    ("nothing tells", 3, [], DOUBT, 21),
    ("it may have begun before", 3, [checkpoint(3, triggered_ms=T0 + OPENED - 1_000)], DOUBT, 21),
    ("it began later", 3, [checkpoint(3, triggered_ms=T0 + OPENED - 1_001)], ABORT, 22),
    ("its list leaves it out", 3, [listing(3, NOT_LISTED)], ABORT, 22),
    ("its list is damaged", 3, [replace(listing(3, NOT_LISTED), error="damaged")], DOUBT, 21),
]


@pytest.mark.parametrize("is_pooled", [False, True], ids=["counts up", "pooled"])
@pytest.mark.parametrize("is_own", [False, True], ids=["by another job", "by itself"])
@table("number, seen, verdict, rule", HOLDS_TOO)
def test_one_that_the_restored_checkpoint_may_hold_too_is_not_set_back(
    number: int, seen: list[Any], verdict: str, rule: int, is_pooled: bool, is_own: bool
) -> None:
    """What checkpoint 3 lists and nothing committed, checkpoint 5 lists too; of checkpoint 3 nothing was read."""
    id_ = Committable(f"orders-0-{number}", PRODUCER, EPOCH)
    lists = listing(5, id_, written=50_100, pooled=frozenset({"orders"} if is_pooled else ()))
    given = [begun(of=id_), *([itself(3)] if is_own else [FAILED, heir(3)]), *seen, lists]
    is_doubt = verdict is DOUBT or (is_pooled and not seen)
    assert answer(sure_case(given)) == ((DOUBT, 21) if is_doubt else (verdict, rule))
    if is_doubt and not seen:
        found = judged(given)
        assert found is not None
        says = (
            "was restored from checkpoint 3, which may hold it, too"
            if is_own
            else f"job {OTHER} (eu/orders) was restored"
        )
        assert says in found.evidence[1].fact


@pytest.mark.parametrize(
    ("first", "then", "verdict", "rule"),
    [(2, 2, ABORT, 22), (3, 3, COMMIT, 23), (2, 3, DOUBT, 21), (3, 2, DOUBT, 21), (4, 3, DOUBT, 21)],
)
def test_of_several_jobs_that_went_on_from_it_all_must_agree(first: int, then: int, verdict: str, rule: int) -> None:
    found = judged([FAILED, heir(first), heir(then, 80_000, id_=THIRD), LISTED_3])
    assert found is not None
    assert (found.verdict.value, found.rule) == (verdict, rule)
    assert found.certainty is not Certainty.CERTAIN


def from_(of_job: str, at: int = 60_000, number: int = 3, **fields: Any) -> FlinkJob:
    return heir(number, at, chk(number, of_job), **fields)


FOURTH = "d" * 32
OF_THAT_NAME = [
    # name, what else was seen of jobs of its name, since a job's checkpoint 3 listed it; whether the work is known
    ("none", [COMPLETED_3], True),
    ("started as it was written", [COMPLETED_3, job(OTHER, started_ms=WRITTEN_MS + 1_000)], True),
    ("started anew", [COMPLETED_3, job(OTHER, started_ms=WRITTEN_MS + 1_001)], False),
    ("started anew, of another name", [COMPLETED_3, job(OTHER, started_ms=WRITTEN_MS + 1_001, name="other")], True),
    ("started anew, in another cluster", [COMPLETED_3, job(OTHER, started_ms=WRITTEN_MS + 1_001, cluster="us")], True),
    ("restored from it", [from_(JOB)], True),
    ("from an earlier one of it", [from_(JOB, number=2)], True),
    ("from a later one of it that does not list it", [from_(JOB, number=4)], False),
    ("so it was, then from one that is not known", [from_(JOB, number=4), from_(FOURTH, 80_000)], False),
    ("from a path that tells nothing", [from_("", number=4)], False),
    ("from one that is not known", [from_(FOURTH)], False),
    ("from itself", [from_(OTHER)], False),
    ("from one from nowhere", [from_(FOURTH), job(FOURTH, started_ms=T0 + 40_000)], False),
    ("from an older one", [from_(FOURTH), job(FOURTH, started_ms=T0 - 1_000, name="other")], False),
    ("from one that began as it was written", [from_(FOURTH), job(FOURTH, started_ms=WRITTEN_MS + 1_000)], False),
    ("in a line", [from_(JOB), from_(OTHER, 80_000, 5, id_=THIRD)], True),
]  # fmt: skip


@table("others, is_known", OF_THAT_NAME)
def test_whose_checkpoint_a_job_of_that_name_was_restored_from_decides(others: list[Any], is_known: bool) -> None:
    known = sure_case([FAILED, LISTED_3, *others]).known()
    assert (known.answer is not Answer.DOUBT) is is_known


@pytest.mark.parametrize(("opened", "is_listed"), [(WRITTEN + 1_000, True), (WRITTEN + 1_001, False)])
def test_one_that_began_after_the_list_was_written_is_another(opened: int, is_listed: bool) -> None:
    case = case_of(flink_state([LISTED_3]), [begun(opened)])
    assert (case is not None and bool(case.listings)) is is_listed


OWNERS = [
    # name, the lists in the order in which they were read, the numbers of those that count
    ("every list of its job", [listing(5, written=50_000), LISTED_3], [3, 5]),
    ("of the job that listed it first", [listing(4, job=OTHER, written=WRITTEN - 1), listing(5, job=OTHER,
        written=50_000), LISTED_3], [4, 5]),
]  # fmt: skip


@table("lists, numbers", OWNERS)
def test_of_jobs_that_rest_does_not_know_the_one_owns_it_that_listed_it_first(
    lists: list[FlinkCommittables], numbers: list[int]
) -> None:
    assert BEGUN.broker is not None
    case = flink_cases.case_of(flink_state(lists), BEGUN.broker)
    assert case is not None
    assert [each.number for each in case.listings] == numbers
    assert case.first.number == numbers[0]


def test_limits_are_handed_on() -> None:
    for seen in ([FAILED, COMPLETED_3, LISTED_3], [FAILED, COMPLETED_2, COMPLETED_3]):
        case = case_of(flink_state(seen), [], overdue_ms=1_234)
        assert case is not None
        assert (case.commit_overdue_ms, case.now_ms, case.is_branch) == (1_234, T0 + 90_000, False)
        assert (case.unread is None) is (LISTED_3 in seen)


def test_what_is_ours_has_ended_or_is_nowhere_is_none_of_flinks() -> None:
    state = flink_state([FAILED, COMPLETED_3, LISTED_3])
    assert case_of(state, [BEGUN]) is not None
    # The last: it runs by its decision, though no coordinator was seen to have it.
    for changes in ({"managed": True}, {"superseded": True}, {"broker": None, "outcome": object()}):
        assert case_of(state, [replace(BEGUN, **changes)]) is None  # type: ignore[arg-type]


def test_what_a_checkpoint_would_list_is_known_with_producer_and_epoch() -> None:
    assert listed_as(BEGUN) == Committable("orders-0-3", PRODUCER, EPOCH)
    assert listed_as(replace(BEGUN, producer_id=None)) is None
    assert listed_as(replace(BEGUN, producer_epoch=None)) is None
    assert BEGUN.broker is not None
    ended = replace(BEGUN.broker, ongoing_epoch=None, end_epoch=None)
    assert flink_cases.case_of(flink_state([LISTED_3]), ended) is None


def test_of_jobs_with_lists_only_those_without_a_whole_one_are_looked_at() -> None:
    state = flink_state([FAILED, replace(FAILED, job=OTHER), DAMAGED_3])
    assert [facts.job.job for facts in state.jobs_without_list()] == [JOB, OTHER]
    state.see_committables(LISTED_3)
    assert [facts.job.job for facts in state.jobs_without_list()] == [OTHER]
    state.see_checkpoint(replace(COMPLETED_3, job=THIRD))
    assert [facts.job.job for facts in state.jobs_without_list()] == [OTHER, THIRD]
