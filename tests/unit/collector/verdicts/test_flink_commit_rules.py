"""Rules 21 to 27 at their boundaries: each condition alone decides whether a transaction of Flink may be committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.flink_facts import FlinkState
from collector.records.flink_job_facts import FlinkJobFacts, Restore
from collector.records.formats.flink_records import (
    Committable,
    FlinkCommittables,
    FlinkJob,
    FlinkKind,
    FlinkStatus,
)
from collector.records.formats.transaction_state import BrokerStatus
from collector.verdicts import flink_commits
from collector.verdicts.flink_cases import case_of, flink_case
from collector.verdicts.flink_commits import listed_as, rule_26_lingering, rule_27_job_runs
from collector.verdicts.flink_known import Answer, FlinkCase
from collector.verdicts.flink_line import Rival, Standing
from lifecycle.verdicts import Certainty, Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0, broker_record, only_view
from tests.unit.collector.verdicts.test_flink_commits import (
    EPOCH,
    FAILED_JOB,
    JOB,
    NOT_LISTED,
    OPENED,
    OTHER_JOB,
    PRODUCER,
    WRITTEN,
    flink_state,
    listing,
    open_view,
)

WRITTEN_MS = T0 + WRITTEN
COMPLETED = checkpoint(3)
COMMIT, ABORT, GOES_ON, DOUBT = Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.IN_PROGRESS, Verdict.UNKNOWN


def restore(number: int, at_ms: int = WRITTEN_MS + 30_000) -> Restore:
    return Restore(at_ms=at_ms, number=number)


def listed(*restores: Restore, **changes: Any) -> FlinkCase:
    """Return the case of a transaction that checkpoint 3 lists, and that nothing is known to have completed."""
    fields: dict[str, Any] = {
        "start_ms": T0 + 22_000,
        "listings": (listing(3),),
        "job": None,
        "name": "eu/orders",
        "polled": False,
        "restores": restores,
        "commit_overdue_ms": 2_000,
        "now_ms": WRITTEN_MS + 60_000,
        **changes,
    }
    return FlinkCase(**fields)


def unlisted(**changes: Any) -> FlinkCase:
    """Return the case of one that began at 22 s and lingers since its job was restored from checkpoint 2 at 60 s."""
    fields = {
        "listings": (),
        "last_restore": restore(2, T0 + 60_000),
        "restored": listing(2, NOT_LISTED, written=20_000),
    }
    return replace(listed(), **{**fields, **changes})


def verdict(case: FlinkCase) -> tuple[Verdict, int] | None:
    found = flink_commits.judge(case)
    return (found.verdict, found.rule) if found is not None else None


@pytest.mark.parametrize(
    ("restores", "found"),
    [
        ((restore(2),), (ABORT, 22)),
        ((restore(3),), (COMMIT, 23)),
        ((restore(2, WRITTEN_MS - 1_000),), (ABORT, 22)),
        ((restore(2, WRITTEN_MS - 1_001),), (COMMIT, 25)),
        ((restore(3, WRITTEN_MS - 1_001),), (COMMIT, 25)),
        ((restore(4),), (COMMIT, 25)),
        ((restore(2), restore(4)), (DOUBT, 21)),
        ((restore(3), restore(4)), (DOUBT, 21)),
        ((restore(3), restore(2)), (ABORT, 22)),
        ((restore(2), restore(3)), (COMMIT, 23)),
        ((restore(2), restore(4), restore(2)), (ABORT, 22)),
        ((restore(2), restore(4), restore(3)), (COMMIT, 23)),
    ],
    ids=[
        "before it",
        "it",
        "before it, as it was written",
        "before it, before it was written",
        "an earlier one of this number",
        "a later one that does not list it",
        "before it, then a later one",
        "it, then a later one",
        "it, then before it",
        "before it, then it",
        "in doubt, then before it",
        "in doubt, then it",
    ],
)
def test_the_last_restore_that_tells_decides(restores: tuple[Restore, ...], found: tuple[Verdict, int]) -> None:
    assert verdict(listed(*restores)) == found


def test_a_later_checkpoint_stands_behind_one_that_was_reported_as_completed() -> None:
    """The job may have gone on to checkpoint 4 without checkpoint 3, which a person had another job restored from."""
    restores = (restore(3), restore(4))
    found = flink_commits.judge(listed(*restores))
    assert found is not None
    assert (
        "restored from checkpoint 3, which lists it, and since then from a later one that does not"
        in found.evidence[1].fact
    )
    reported = FlinkJobFacts(job=job(), checkpoints={3: checkpoint(3)})
    assert verdict(listed(*restores, job=reported)) == (COMMIT, 23)
    failed = FlinkJobFacts(job=job(), checkpoints={3: checkpoint(3, FlinkStatus.FAILED)})
    assert verdict(listed(*restores, job=failed)) == (DOUBT, 21)
    # Once the work was set back, the later one may be of the work since.
    assert verdict(listed(restore(2), restore(4), job=reported)) == (DOUBT, 21)


def test_a_restore_from_before_it_completes_nothing() -> None:
    assert listed(restore(2)).completed() is None


def test_a_list_is_a_savepoint_s_as_it_says_itself_or_as_rest_says() -> None:
    for kind, is_one in (
        (FlinkKind.SAVEPOINT, True),
        (FlinkKind.SYNC_SAVEPOINT, True),
        (FlinkKind.CHECKPOINT, False),
        (None, False),
    ):
        of_kind = replace(listing(), kind=kind)
        assert listed().is_savepoint(of_kind) is is_one
        reported = FlinkJobFacts(job=job(), checkpoints={3: COMPLETED})
        assert listed(job=reported).is_savepoint(of_kind) is is_one
        told = FlinkJobFacts(job=job(), checkpoints={3: replace(COMPLETED, kind=FlinkKind.SAVEPOINT)})
        assert listed(job=told).is_savepoint(of_kind)
    unknown_to_rest = listed(listings=(replace(listing(), kind=FlinkKind.SAVEPOINT),))
    found = flink_commits.judge(unknown_to_rest)
    assert found is not None
    assert (found.verdict, found.rule) == (COMMIT, 25)
    assert "chk-3 is a savepoint, and no restart of the job goes on from it" in found.evidence[1].fact


def test_without_a_list_no_restore_is_looked_for_and_with_one_nothing_lingers() -> None:
    assert verdict(unlisted(restores=(restore(2),))) == (ABORT, 26)
    both = replace(unlisted(), listings=(listing(3),), polled=True, job=FlinkJobFacts(job=job()))
    assert rule_26_lingering(both) is rule_27_job_runs(replace(both, start_ms=T0 + 90_000)) is None


@pytest.mark.parametrize(
    ("number", "seen", "found"),
    [
        (4, [], (ABORT, 22)),
        (3, [], (DOUBT, 21)),
        (3, [checkpoint(3, triggered_ms=T0 + OPENED - 1_000)], (DOUBT, 21)),
        (3, [checkpoint(3, triggered_ms=T0 + OPENED - 1_001)], (ABORT, 22)),
        (3, [listing(3, NOT_LISTED)], (ABORT, 22)),
        (3, [replace(listing(3, NOT_LISTED), error="damaged")], (DOUBT, 21)),
    ],
    ids=[
        "its number is higher",
        "nothing tells",
        "it may have begun before",
        "it began later",
        "its list leaves it out",
        "its list is damaged",
    ],
)
@pytest.mark.parametrize("is_pooled", [False, True], ids=["counts up", "pooled"])
@pytest.mark.parametrize("is_own", [False, True], ids=["by another job", "by itself"])
def test_one_that_the_restored_checkpoint_may_hold_too_is_not_set_back(
    number: int, seen: list[Any], found: tuple[Verdict, int], is_pooled: bool, is_own: bool
) -> None:
    """What checkpoint 3 lists and nothing committed, checkpoint 5 lists too; of checkpoint 3 nothing was read."""
    ids = {"pooled": frozenset({"orders"})} if is_pooled else {}
    id_ = Committable(f"orders-0-{number}", PRODUCER, EPOCH)
    lists = listing(5, id_, written=50_100, **ids)
    restored = replace(restored_from(JOB, JOB, number=3), state="FAILED", started_ms=T0 - 1_000)
    jobs = [restored] if is_own else [FAILED_JOB, restored_from(JOB, number=3)]
    state = flink_state([*jobs, *seen, lists], False)
    view = only_view(
        broker_record(
            BrokerStatus.ONGOING, OPENED, transaction=id_.transaction, producer_id=PRODUCER, epoch=EPOCH, start=OPENED
        )
    )
    case = flink_case(state, view, commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert case is not None
    assert verdict(case) == ((DOUBT, 21) if is_pooled and not seen else found)
    if not seen and found == (DOUBT, 21):
        judgement = flink_commits.judge(case)
        assert judgement is not None
        says = (
            "was restored from checkpoint 3, which may hold it, too"
            if is_own
            else f"job {OTHER_JOB} (eu/orders) was restored"
        )
        assert says in judgement.evidence[1].fact


@pytest.mark.parametrize(
    ("first", "then", "found"),
    [(2, 2, (ABORT, 22)), (3, 3, (COMMIT, 23)), (2, 3, (DOUBT, 21)), (3, 2, (DOUBT, 21)), (4, 3, (DOUBT, 21))],
)
def test_of_several_jobs_that_went_on_from_it_all_must_agree(first: int, then: int, found: tuple[Verdict, int]) -> None:
    jobs = [restored_from(JOB, number=first), restored_from(JOB, "c" * 32, 80_000, then)]
    state = flink_state([FAILED_JOB, *jobs, listing()], False)
    case = flink_case(state, open_view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert case is not None
    assert verdict(case) == found
    judgement = flink_commits.judge(case)
    assert judgement is not None
    assert judgement.certainty is not Certainty.CERTAIN


def test_a_list_of_a_job_that_rest_does_not_know_is_judged_beside_others() -> None:
    state = flink_state([job(OTHER_JOB, started_ms=T0 + 59_000), listing()], False)
    found = flink_case(state, open_view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert found is not None
    assert verdict(found) == (COMMIT, 25)


def test_a_later_checkpoint_that_lists_it_holds_it_too() -> None:
    both = (listing(3), listing(5, written=50_000))
    assert verdict(listed(restore(5), listings=both)) == (COMMIT, 23)
    assert verdict(listed(restore(2), restore(4), listings=both)) == (DOUBT, 21)
    assert listed(restore(5), listings=both).completed() == (5, WRITTEN_MS + 30_000, "the job was restored from it")


@pytest.mark.parametrize(
    ("seen", "completed"),
    [
        (COMPLETED, True),
        (replace(COMPLETED, ended_ms=WRITTEN_MS - 1_000), True),
        (replace(COMPLETED, ended_ms=WRITTEN_MS - 1_001), False),
        (replace(COMPLETED, ended_ms=None), False),
    ],
    ids=["completed", "within the clocks' difference", "an earlier one of this number", "no end"],
)
def test_only_an_end_after_its_list_was_written_completes_it(seen: Any, completed: bool) -> None:
    known = FlinkJobFacts(job=FAILED_JOB, checkpoints={3: seen})
    assert verdict(listed(job=known)) == (COMMIT, 23 if completed else 25)


def test_a_completed_one_is_overdue_from_the_millisecond_on() -> None:
    known = FlinkJobFacts(job=FAILED_JOB, checkpoints={3: COMPLETED})
    assert COMPLETED.ended_ms is not None
    assert verdict(listed(job=known, now_ms=COMPLETED.ended_ms + 1_999)) == (GOES_ON, 23)
    assert verdict(listed(job=known, now_ms=COMPLETED.ended_ms + 2_000)) == (COMMIT, 23)


def test_one_whose_end_was_not_seen_is_overdue_from_the_millisecond_on() -> None:
    assert verdict(listed(now_ms=WRITTEN_MS + 1_999)) == (GOES_ON, 25)
    assert verdict(listed(now_ms=WRITTEN_MS + 2_000)) == (COMMIT, 25)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"polled": True, "job": FlinkJobFacts(job=job())}, (GOES_ON, 24)),
        ({"polled": True, "job": None}, (COMMIT, 25)),
        ({"polled": False, "job": FlinkJobFacts(job=job())}, (COMMIT, 25)),
        ({"polled": True, "job": FlinkJobFacts(job=FAILED_JOB)}, (COMMIT, 25)),
        ({"doubt": "another job"}, (DOUBT, 21)),
    ],
    ids=["its job runs", "no job is known", "REST is silent", "its job is over", "another job of that name"],
)
def test_a_listed_one_without_an_end(changes: dict[str, Any], found: tuple[Verdict, int]) -> None:
    assert verdict(listed(**changes)) == found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, (ABORT, 26)),
        ({"last_restore": None}, None),
        ({"restored": None}, None),
        ({"start_ms": T0 + 58_999}, (ABORT, 26)),
        ({"start_ms": T0 + 59_000}, None),
        ({"start_ms": T0 + 21_001}, (ABORT, 26)),
        ({"start_ms": T0 + 21_000}, None),
    ],
    ids=[
        "lingers",
        "never restored",
        "what it was restored from was not read",
        "just before the restore",
        "it may have begun after the restore",
        "just after what it was restored from",
        "it may have begun before that was written",
    ],
)
def test_it_lingers_only_between_the_restored_checkpoint_and_the_restore(
    changes: dict[str, Any], found: tuple[Verdict, int] | None
) -> None:
    assert verdict(unlisted(**changes)) == found


@pytest.mark.parametrize(
    ("started", "restores", "start", "runs"),
    [
        (20_000, (), 19_000, True),
        (20_000, (), 18_999, False),
        (20_000, (40_000,), 39_000, True),
        (20_000, (40_000,), 38_999, False),
        (20_000, (30_000, 40_000), 38_999, False),
        (50_000, (40_000,), 48_999, False),
    ],
)
def test_one_that_began_after_its_jobs_last_start_is_in_progress(
    started: int, restores: tuple[int, ...], start: int, runs: bool
) -> None:
    known = FlinkJobFacts(job=job(started_ms=T0 + started), restores=tuple(restore(2, T0 + at) for at in restores))
    case = unlisted(job=known, polled=True, last_restore=None, restored=None, start_ms=T0 + start)
    assert verdict(case) == ((GOES_ON, 27) if runs else None)
    assert verdict(replace(case, polled=False)) is None
    assert verdict(replace(case, job=None)) is None


RUNNING, OVER = FlinkJobFacts(job=job()), FlinkJobFacts(job=FAILED_JOB)
NOW = WRITTEN_MS + 60_000
RIVAL = Rival(facts=RUNNING, standing=Standing.HOLDS, why="another job was restored from it", restore=restore(3))


@pytest.mark.parametrize(
    ("changes", "is_gone", "may_run"),
    [
        ({"job": RUNNING, "polled": True}, False, True),
        ({"job": RUNNING, "away_since_ms": NOW}, False, True),
        ({"job": RUNNING, "away_since_ms": NOW - 1_999}, False, True),
        ({"job": RUNNING, "away_since_ms": NOW - 2_000}, True, True),
        ({"job": RUNNING, "away_since_ms": NOW - 2_000, "is_branch": True}, False, True),
        ({"job": RUNNING, "away_since_ms": NOW - 29_999}, True, True),
        ({"job": RUNNING, "away_since_ms": NOW - 30_000}, True, False),
        ({"job": RUNNING, "away_since_ms": NOW - 30_000, "is_branch": True}, False, False),
        ({"job": RUNNING}, False, False),
        ({"job": OVER, "polled": True}, True, False),
        ({"job": OVER, "away_since_ms": NOW, "is_branch": True}, True, False),
        ({"job": None, "polled": True}, False, False),
        ({"job": None, "away_since_ms": NOW}, False, False),
        ({"job": None, "rivals": (RIVAL,)}, False, False),
        ({"job": RUNNING, "rivals": (RIVAL,), "away_since_ms": NOW}, False, True),
    ],
)
def test_one_poll_that_failed_does_not_make_a_job_gone(changes: dict[str, Any], is_gone: bool, may_run: bool) -> None:
    case = listed(**changes)
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


def test_a_listed_one_in_kafka_does_not_wait_for_rest_to_come_back() -> None:
    assert verdict(listed(job=RUNNING, away_since_ms=NOW)) == (COMMIT, 25), "its timeout does not wait"
    alive = flink_commits.judge(listed(job=RUNNING, polled=True))
    assert alive is not None
    assert alive.evidence[1].fact == "eu/orders runs, and Flink has not reported checkpoint 3 as completed"


def test_while_rest_is_away_for_a_moment_an_unlisted_one_stays_in_progress_unless_a_checkpoint_may_hold_it() -> None:
    state = flink_state([job(), listing(2, NOT_LISTED, written=20_100)], False)
    state.see_polled("eu", T0 + 40_000, answered=False)
    case = flink_case(state, open_view(), commit_overdue_ms=2_000, driver_silent_ms=9_000, now_ms=T0 + 48_999)
    assert case is not None
    assert verdict(case) == (GOES_ON, 27)
    assert verdict(replace(case, now_ms=T0 + 49_000)) is None
    state.see_checkpoint(COMPLETED)
    held = flink_case(state, open_view(), commit_overdue_ms=2_000, driver_silent_ms=9_000, now_ms=T0 + 40_001)
    assert held is not None
    assert verdict(held) == (DOUBT, 31), "its timeout does not wait"


def test_what_is_ours_has_ended_or_is_nowhere_is_none_of_flinks() -> None:
    state = flink_state([FAILED_JOB, COMPLETED, listing()], False)
    view = open_view()

    def found(of: Any) -> FlinkCase | None:
        return flink_case(state, of, commit_overdue_ms=1_234, now_ms=T0 + 40_000)

    case = found(view)
    assert case is not None
    assert (case.commit_overdue_ms, case.now_ms, case.is_branch) == (1_234, T0 + 40_000, False)
    assert found(replace(view, ours=True)) is None
    assert found(replace(view, superseded=True)) is None
    # Running by its decision, though no coordinator was seen to have it.
    assert found(replace(view, broker=None, outcome=object())) is None


@pytest.mark.parametrize(("opened", "is_listed"), [(WRITTEN + 1_000, True), (WRITTEN + 1_001, False)])
def test_one_that_began_after_the_list_was_written_is_another(opened: int, is_listed: bool) -> None:
    state = flink_state([listing()], False)
    case = flink_case(state, open_view(opened=opened), commit_overdue_ms=2_000, now_ms=T0 + 60_000)
    assert (case is not None and bool(case.listings)) is is_listed


def test_a_transaction_whose_epoch_is_not_known_is_listed_nowhere() -> None:
    broker = open_view().broker
    assert broker is not None
    state = flink_state([listing()], False)
    assert case_of(state, broker) is not None
    assert case_of(state, replace(broker, ongoing_epoch=None, end_epoch=None)) is None


def test_of_jobs_that_rest_does_not_know_the_one_owns_it_that_listed_it_first() -> None:
    earlier = listing(4, job=OTHER_JOB, written=WRITTEN - 1)
    state = flink_state([earlier, listing(5, job=OTHER_JOB, written=50_000), listing(3)], False)
    broker = open_view().broker
    assert broker is not None
    case = case_of(state, broker)
    assert case is not None
    assert {each.job for each in case.listings} == {OTHER_JOB}
    assert [each.number for each in case.listings] == [4, 5]
    assert case.first.number == 4


@pytest.mark.parametrize(
    ("others", "known"),
    [
        ([], True),
        ([job(OTHER_JOB, started_ms=WRITTEN_MS + 1_000)], True),
        ([job(OTHER_JOB, started_ms=WRITTEN_MS + 1_001)], False),
        ([job(OTHER_JOB, started_ms=WRITTEN_MS + 1_001, name="other")], True),
        ([job(OTHER_JOB, started_ms=WRITTEN_MS + 1_001, cluster="us")], True),
    ],
    ids=["none", "as it was written", "started anew", "of another name", "of another cluster"],
)
def test_a_job_of_that_name_from_nowhere_leaves_a_doubt(others: list[FlinkJob], known: bool) -> None:
    found = flink_case(
        flink_state([FAILED_JOB, COMPLETED, listing(), *others], False),
        open_view(),
        commit_overdue_ms=2_000,
        now_ms=T0 + 90_000,
    )
    assert found is not None
    assert (found.known().answer is not Answer.DOUBT) is known
    assert known or OTHER_JOB in found.known().why


def restored_from(of_job: str, id_: str = OTHER_JOB, at: int = 60_000, number: int = 3) -> FlinkJob:
    path = f"file:///c/{of_job}/chk-{number}"
    return job(id_, restored=number, restored_at=at, restored_path=path, started_ms=T0 + at - 1_000)


@pytest.mark.parametrize(
    ("others", "known"),
    [
        ([restored_from(JOB)], True),
        ([restored_from(JOB, number=2)], True),
        ([restored_from(JOB, number=4)], False),
        ([restored_from(JOB, number=4), restored_from("d" * 32, at=80_000)], False),
        ([restored_from("", number=4)], False),
        ([restored_from("d" * 32)], False),
        ([restored_from(OTHER_JOB)], False),
        ([restored_from("d" * 32), job("d" * 32, started_ms=T0 + 40_000)], False),
        ([restored_from("d" * 32), job("d" * 32, started_ms=T0 - 1_000, name="other")], False),
        ([restored_from("d" * 32), job("d" * 32, started_ms=WRITTEN_MS + 1_000)], False),
        ([restored_from(JOB), restored_from(OTHER_JOB, "c" * 32, 80_000, 5)], True),
    ],
    ids=[
        "from it",
        "from an earlier one of it",
        "from a later one of it that does not list it",
        "from it, then from one that is not known",
        "from a path that tells nothing",
        "from one that is not known",
        "from itself",
        "from one from nowhere",
        "from an older one",
        "from one that began as it was written",
        "in a line",
    ],
)
def test_whose_checkpoint_a_job_of_that_name_was_restored_from_decides(others: list[FlinkJob], known: bool) -> None:
    state = flink_state([FAILED_JOB, listing(), *others], False)
    found = flink_case(state, open_view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert found is not None
    assert (found.known().answer is not Answer.DOUBT) is known


def test_what_a_checkpoint_would_list_is_known_with_producer_and_epoch() -> None:
    view = open_view()
    assert listed_as(view) == Committable("orders-0-3", 7, 0)
    assert listed_as(replace(view, producer_id=None)) is None
    assert listed_as(replace(view, producer_epoch=None)) is None


def test_an_id_of_another_form_belongs_to_a_job_only_by_a_list() -> None:
    view = only_view(broker_record(BrokerStatus.ONGOING, 0, transaction="odd"))
    assert flink_case(FlinkState(), view, commit_overdue_ms=2_000, now_ms=T0) is None
    state = flink_state([listing(3, Committable("odd", 0, 4))], False)
    case = flink_case(state, view, commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert case is not None
    assert verdict(case) == (COMMIT, 25)


def of_number(number: int) -> FlinkCommittables:
    return listing(number, NOT_LISTED, written=10_000 * number)


def test_what_the_restored_checkpoint_lists_is_found_by_its_number() -> None:
    state = flink_state([of_number(1), of_number(2), of_number(4), job(restored=2, restored_at=60_000)], False)
    found = flink_case(state, open_view(), commit_overdue_ms=2_000, now_ms=T0 + 90_000)
    assert found is not None
    assert found.restored == of_number(2)
    assert verdict(found) == (ABORT, 26)
