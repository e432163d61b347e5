"""Which completed checkpoint must hold what no list names, and each doubt of it: at the edge of every time. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkCommittables, FlinkKind, FlinkStatus
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.flink_unread_lists import (
    UnreadList,
    owner_by_number,
    unread_list,
    unread_list_of_branch,
)
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.verdicts.case_tables import table

JOB, OTHER = "a" * 32, "b" * 32
START, TRIGGERED, ENDED = 100_000, 110_000, 111_000
FAILED, SAVEPOINT, LAST_SAVEPOINT = FlinkStatus.FAILED, FlinkKind.SAVEPOINT, FlinkKind.SYNC_SAVEPOINT
DENIED: dict[tuple[str, int | None], str] = {(JOB, 3): "denied"}
RESTORABLE = "whether a job can be restored from that checkpoint is not known"


def took(number: int, triggered_ms: int = TRIGGERED, ended_ms: int | None = ENDED, **fields: object) -> FlinkCheckpoint:
    told = checkpoint(number, triggered_ms=triggered_ms, ended_ms=ended_ms, path=f"/c/chk-{number}")
    return replace(told, **fields)  # type: ignore[arg-type]


SECOND, THIRD = took(2, 80_000, 81_000), took(3)


def ran(
    *checkpoints: FlinkCheckpoint, restores: tuple[Restore, ...] = (), id_: str = JOB, started_ms: int = 0
) -> FlinkJobFacts:
    told = job(id_, started_ms=started_ms, changed_ms=10**9)
    return FlinkJobFacts(job=told, checkpoints={one.number: one for one in checkpoints}, restores=restores)


def listing(number: int = 2, written_ms: int = 81_000, prefix: str = "sink", **fields: object) -> FlinkCommittables:
    told = FlinkCommittables(
        cluster="eu", job=JOB, number=number, path=f"/d/{number}-{written_ms}-{fields}", kind=FlinkKind.CHECKPOINT,
        written_ms=written_ms, read_ms=1, prefixes=frozenset({prefix}),
    )  # fmt: skip
    return replace(told, **fields)  # type: ignore[arg-type]


POOLED = listing(pooled=frozenset({"sink"}))
NORMAL = ran(SECOND, THIRD)


def state_of(
    *jobs: FlinkJobFacts, lists: tuple[FlinkCommittables, ...] = (listing(),), denied: bool = True
) -> FlinkState:
    state = FlinkState(jobs={facts.job.job: facts for facts in jobs}, out_of_reach={"eu": DENIED} if denied else {})
    for one in lists:
        state.see_committables(one)
    return state


def found(state: FlinkState, start_ms: int = START, number: int = 3) -> UnreadList | None:
    return unread_list(state, ("eu", JOB), FlinkId(prefix="sink", subtask=0, number=number), start_ms)


def doubt(state: FlinkState, start_ms: int = START) -> str:
    told = found(state, start_ms)
    assert told is not None
    return told.doubt


def held_by(state: FlinkState, start_ms: int = START, number: int = 3) -> int | None:
    told = found(state, start_ms, number)
    return told.number if told is not None else None


def test_it_is_told_where_the_list_is_and_why_it_is_not_read() -> None:
    told = found(state_of(NORMAL))
    assert told == UnreadList(
        name="eu/orders", cluster="eu", job=JOB, number=3, path="/c/chk-3", ended_ms=ENDED, why="denied", doubt=""
    )
    assert told.as_place() == FlinkCommittables(
        cluster="eu", job=JOB, number=3, path="/c/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=ENDED, read_ms=ENDED
    )


@pytest.mark.parametrize(
    ("here", "denied", "why", "expected"),
    [
        ((), True, "denied", ""),
        ((), False, "it was not found there", RESTORABLE),
        ((listing(3, ENDED, error="damaged"),), True, "damaged", RESTORABLE),
        ((listing(3, ENDED, error="damaged"),), False, "damaged", RESTORABLE),
    ],
)
def test_only_a_list_out_of_reach_is_without_doubt(
    here: tuple[FlinkCommittables, ...], denied: bool, why: str, expected: str
) -> None:
    told = found(state_of(NORMAL, lists=(listing(), *here), denied=denied))
    assert told is not None
    assert (told.why, told.doubt) == (why, expected)


def test_a_list_is_read_where_one_of_its_number_and_time_is_whole() -> None:
    assert found(state_of(NORMAL, lists=(listing(), listing(3, TRIGGERED - 1_000)))) is None
    assert found(state_of(NORMAL, lists=(listing(), listing(3, TRIGGERED - 1_001)))) is not None
    assert found(state_of(NORMAL, lists=(listing(), listing(4, ENDED)))) is not None
    damaged = listing(3, ENDED, error="damaged")
    assert found(state_of(NORMAL, lists=(listing(), damaged, listing(3, ENDED)))) is None


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ((), "no checkpoint that was read says"),
        ((listing(prefix="else"),), "no checkpoint that was read says"),
        ((listing(error="damaged"),), "no checkpoint that was read says"),
        ((listing(1, prefix="else"), listing()), ""),
        ((POOLED,), "reuses its ids"),
        ((listing(1), POOLED), "reuses its ids"),
        ((listing(pooled=frozenset({"else"})),), ""),
        ((listing(), replace(POOLED, error="damaged")), ""),
        ((listing(), listing(3, START + 1_000)), "a list that would name it"),
        ((listing(), listing(3, START + 999)), ""),
        ((listing(), listing(4, START + 1_000)), "a list that would name it"),
        ((listing(), listing(4, START + 1_000, error="damaged")), ""),
        ((listing(2, START + 1_000),), ""),
    ],
)
def test_what_was_read_of_other_checkpoints_may_be_a_doubt(lists: tuple[FlinkCommittables, ...], expected: str) -> None:
    told = doubt(state_of(NORMAL, lists=lists))
    assert expected in told
    assert bool(told) is bool(expected)


@pytest.mark.parametrize(("start_ms", "is_sure"), [(TRIGGERED - 1_000, True), (TRIGGERED - 999, False)])
def test_it_began_before_the_barrier_by_more_than_clocks_differ(start_ms: int, is_sure: bool) -> None:
    told = doubt(state_of(NORMAL), start_ms)
    assert told == ("" if is_sure else "it may have begun after the checkpoint's barrier")


def was_restored(*at_ms: int, of_job: str = OTHER, started_ms: int = 0) -> FlinkJobFacts:
    """Return the job, restored at these times from a checkpoint 1 of another job, or of its own."""
    restores = tuple(Restore(at_ms=each, number=1, of_job=of_job) for each in at_ms)
    return ran(SECOND, THIRD, restores=restores, started_ms=started_ms)


LEFT, RESTARTED = "left from before eu/orders", "whether eu/orders was restarted before its first checkpoint"
OWN_RESTORE = f"from checkpoint 1 at {utc(START - 1_000)}"
RESTARTS = [
    # name, what its job took and how it was restored, the doubt
    ("started before it", ran(SECOND, THIRD, started_ms=START - 1_000), ""),
    ("perhaps started after it", ran(SECOND, THIRD, started_ms=START - 999), LEFT),
    ("restored before it", was_restored(START - 1_000), ""),
    ("perhaps restored after it", was_restored(START - 999), LEFT),
    ("restored twice, perhaps after it", was_restored(5, START - 999), LEFT),
    ("restored before it, perhaps started after it", was_restored(5, started_ms=START - 999), LEFT),
    ("restored from its own before it", was_restored(START - 1_001, of_job=""), ""),
    ("restored from its own perhaps after it", was_restored(START - 1_000, of_job=""), OWN_RESTORE),
    ("restored, and no checkpoint before", ran(THIRD, restores=(Restore(at_ms=5, number=1, of_job=OTHER),)), ""),
    ("no checkpoint before", ran(THIRD), RESTARTED),
    ("one that began as it did", ran(took(2, START), THIRD), ""),
    ("one that began after it", ran(took(2, START + 1), THIRD), RESTARTED),
    ("one that failed before", ran(replace(SECOND, status=FAILED), THIRD), RESTARTED),
    ("a savepoint before", ran(replace(SECOND, kind=SAVEPOINT), THIRD), RESTARTED),
    ("the last savepoint before", ran(replace(SECOND, kind=LAST_SAVEPOINT), THIRD), RESTARTED),
]  # fmt: skip


@table("facts, expected", RESTARTS)
def test_a_restart_of_its_job_that_may_have_been_is_a_doubt(facts: FlinkJobFacts, expected: str) -> None:
    told = doubt(state_of(facts))
    assert expected in told
    assert bool(told) is bool(expected)


@pytest.mark.parametrize(("at_ms", "is_doubt"), [(START - 1_001, False), (START - 1_000, True), (START + 9, True)])
def test_a_restore_by_another_job_since_it_began_is_a_doubt(at_ms: int, is_doubt: bool) -> None:
    told = doubt(state_of(NORMAL, ran(id_=OTHER, restores=(Restore(at_ms=at_ms, number=7, of_job=JOB),))))
    assert told == (f"a job was restored from checkpoint 7 at {utc(at_ms)}" if is_doubt else "")


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ((), None),
        ((ran(SECOND, THIRD, started_ms=START + 1_000),), JOB),
        ((ran(SECOND, THIRD, started_ms=START + 1_001),), None),
        ((ran(SECOND, THIRD, started_ms=START + 1_001), ran(SECOND, THIRD, id_=OTHER)), None),
    ],
)
def test_it_began_while_its_job_ran(jobs: tuple[FlinkJobFacts, ...], expected: str | None) -> None:
    told = found(state_of(*jobs))
    assert (told.job if told is not None else None) == expected


@pytest.mark.parametrize(("started_ms", "is_it"), [(0, True), (START + 1_000, True), (START + 1_001, False)])
def test_before_its_job_started_the_one_that_it_was_restored_from_ran(started_ms: int, is_it: bool) -> None:
    restores = (
        Restore(at_ms=200_001, number=1),
        Restore(at_ms=200_002, number=1, of_job=JOB),
        Restore(at_ms=200_003, number=1, of_job=OTHER),
    )
    later = ran(SECOND, THIRD, restores=restores, started_ms=200_000)
    told = found(state_of(later, ran(SECOND, THIRD, id_=OTHER, started_ms=started_ms)))
    assert (told.job if told is not None else None) == (OTHER if is_it else None)
    assert found(state_of(later)) is None, "that job is not known"


@pytest.mark.parametrize(
    ("third", "expected"),
    [
        (took(3), 3),
        (took(3, 90_000, START), 3),
        (took(3, 90_000, START - 1), 4),
        (took(3, ended_ms=None), 4),
        (took(3, status=FAILED), 4),
        (took(3, kind=SAVEPOINT), 4),
        (took(3, kind=LAST_SAVEPOINT), 3),
    ],
)
@pytest.mark.parametrize("lists", [(listing(),), (POOLED,)])
def test_the_first_completed_that_commits_and_ended_later_holds_it(
    third: FlinkCheckpoint, expected: int, lists: tuple[FlinkCommittables, ...]
) -> None:
    assert held_by(state_of(ran(SECOND, third, took(4, 120_000, 121_000)), lists=lists)) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("RUNNING", "it is a savepoint, from which the job does not restart by itself"),
        ("FAILED", "it is a savepoint, from which the job does not restart by itself"),
        ("FINISHED", ""),
    ],
)
def test_a_savepoint_holds_it_without_doubt_once_its_job_is_finished(state: str, expected: str) -> None:
    stopped = ran(SECOND, took(3, kind=LAST_SAVEPOINT))
    assert doubt(state_of(replace(stopped, job=replace(stopped.job, state=state)))) == expected


def test_of_numbered_ids_twenty_checkpoints_are_looked_at() -> None:
    assert held_by(state_of(ran(SECOND, took(22)))) == 22
    assert held_by(state_of(ran(SECOND, took(23)))) is None
    assert held_by(state_of(NORMAL), number=4) is None


def test_of_pooled_ids_the_last_twenty_checkpoints_are_looked_at() -> None:
    failed = [took(number, status=FAILED) for number in range(4, 24)]
    assert held_by(state_of(ran(THIRD, *failed[:19]), lists=(POOLED,)), number=9) == 3
    assert held_by(state_of(ran(THIRD, *failed), lists=(POOLED,)), number=9) is None


@pytest.mark.parametrize(
    ("facts", "start_ms", "number", "fits"),
    [
        (ran(SECOND, THIRD), 79_000, 3, True),
        (ran(SECOND, THIRD), 78_999, 3, False),
        (ran(SECOND, THIRD), TRIGGERED + 1_000, 3, True),
        (ran(SECOND, THIRD), TRIGGERED + 1_001, 3, False),
        (ran(SECOND, THIRD), START, 4, False),
        (ran(SECOND, took(3, status=FAILED)), START, 3, False),
        (ran(SECOND, took(3, kind=SAVEPOINT)), START, 3, False),
        (ran(SECOND, took(3, kind=LAST_SAVEPOINT)), START, 3, True),
        (ran(THIRD), START, 3, False),
        (ran(took(2), started_ms=50_000), START, 2, False),
        (ran(took(1), started_ms=START + 1_000), START, 1, True),
        (ran(took(1), started_ms=START + 1_001), START, 1, False),
        (ran(took(0), started_ms=START), START, 0, False),
    ],
)
def test_a_number_and_a_time_fit_one_checkpoint_of_one_job(
    facts: FlinkJobFacts, start_ms: int, number: int, fits: bool
) -> None:
    id_, twin = FlinkId(prefix="sink", subtask=0, number=number), replace(facts, job=replace(facts.job, job=OTHER))
    assert owner_by_number(state_of(facts, lists=()), id_, start_ms) == (("eu", JOB) if fits else None)
    assert owner_by_number(state_of(facts, twin, lists=()), id_, start_ms) is None
    assert owner_by_number(state_of(facts, lists=(listing(),)), id_, start_ms) is None


def branch(prepared_ms: int | None = None, first_seen_ms: int | None = None) -> BranchFacts:
    return BranchFacts(
        resource_manager="postgresql",
        transaction="x",
        instance="db",
        first_seen_ms=first_seen_ms,
        prepared_ms=prepared_ms,
    )


@pytest.mark.parametrize(
    ("of_branch", "third", "is_held"),
    [
        (branch(), THIRD, False),
        (branch(TRIGGERED - 1_000), THIRD, True),
        (branch(TRIGGERED - 1_001), THIRD, False),
        (branch(ENDED + 1_000), THIRD, True),
        (branch(ENDED + 1_001), THIRD, False),
        (branch(None, ENDED + 90_000), THIRD, True),
        (branch(None, TRIGGERED - 1_000), THIRD, True),
        (branch(None, TRIGGERED - 1_001), THIRD, False),
        (branch(TRIGGERED), took(3, ended_ms=None), False),
        (branch(None, TRIGGERED), took(3, ended_ms=None), False),
        (branch(TRIGGERED), took(3, status=FAILED), False),
        (branch(TRIGGERED), took(3, kind=SAVEPOINT), False),
        (branch(TRIGGERED), took(3, kind=LAST_SAVEPOINT), True),
    ],
)
def test_a_branch_is_held_by_a_checkpoint_around_its_prepare(
    of_branch: BranchFacts, third: FlinkCheckpoint, is_held: bool
) -> None:
    facts = ran(third)
    told = unread_list_of_branch(state_of(facts), facts, of_branch)
    assert (told is not None) is is_held
    if told is not None:
        assert (told.number, told.why) == (3, "denied")
        assert told.doubt.startswith("whether the branch was prepared for that checkpoint or for a later one")


def test_the_last_checkpoint_that_may_hold_a_branch_is_told_unless_read() -> None:
    facts = ran(took(5), took(4))
    told = unread_list_of_branch(state_of(facts), facts, branch(TRIGGERED))
    assert told is not None
    assert told.number == 5
    assert unread_list_of_branch(state_of(facts, lists=(listing(5, ENDED),)), facts, branch(TRIGGERED)) is None


def test_of_branches_the_last_twenty_checkpoints_are_looked_at() -> None:
    failed = [took(number, status=FAILED) for number in range(4, 24)]
    near, far = ran(THIRD, *failed[:19]), ran(THIRD, *failed)
    assert unread_list_of_branch(state_of(near), near, branch(TRIGGERED)) is not None
    assert unread_list_of_branch(state_of(far), far, branch(TRIGGERED)) is None
