"""A committed transaction of Flink's and the restores behind it: which has it written again, at the edge of every time. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.facts.flink_sinks import Sink, SubtaskIds
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.verdicts.flink_checkpoints import Fate
from indoubt.collector.verdicts.flink_duplicates import SetBack, evidence, evidence_of_branch, may_be_twice, set_backs
from tests.unit.collector.flink_observations import checkpoint, job

JOB, LATER = "a" * 32, "b" * 32
START, WRITTEN, END = 100_000, 110_000, 111_000
RESTORED = 200_000
TAKEN = (checkpoint(1, triggered_ms=60_000, ended_ms=61_000), checkpoint(2, triggered_ms=90_000, ended_ms=91_000))
HOLDS_IT = checkpoint(3, triggered_ms=109_000, ended_ms=WRITTEN)


def transaction(
    id_: str = "sink-0-3", ended_ms: int | None = END, epoch: int | None = 4, start_ms: int = START
) -> BrokerTransaction:
    return BrokerTransaction(BrokerIdentity(id_, 3, start_ms), complete_commit_ms=ended_ms, ongoing_epoch=epoch)


def sink(is_pooled: bool | None = False, takes: tuple[int, ...] = ()) -> Sink:
    ids = SubtaskIds(takes={3: list(takes)})
    return Sink(prefix="sink", subtasks={0: ids}, is_pooled=is_pooled, commits=[(START, END, 3)])


def ran(*checkpoints: FlinkCheckpoint, started_ms: int = 50_000) -> FlinkJobFacts:
    """Return the job that wrote it, which is over."""
    over = job(JOB, "CANCELED", started_ms=started_ms, ended_ms=RESTORED - 50_000)
    return FlinkJobFacts(job=over, checkpoints={one.number: one for one in checkpoints})


def later(*restores: tuple[int, int]) -> FlinkJobFacts:
    """Return a job that was restored from these checkpoints of the first: (number, epoch ms)."""
    found = tuple(Restore(at_ms=at_ms, number=number, of_job=JOB) for number, at_ms in restores)
    return FlinkJobFacts(job=job(LATER, started_ms=RESTORED - 1_000), restores=found)


def flink(*jobs: FlinkJobFacts, listed: int | None = None) -> FlinkState:
    """Return these jobs; ``listed``: the number of the checkpoint on disk that lists the transaction."""
    state = FlinkState(jobs={facts.job.job: facts for facts in jobs})
    if listed is not None:
        state.see_committables(
            FlinkCommittables(
                cluster="eu", job=JOB, number=listed, path=f"/c/chk-{listed}", kind=FlinkKind.CHECKPOINT,
                written_ms=WRITTEN, read_ms=WRITTEN, committables=frozenset({Committable("sink-0-3", 3, 4)}),
                prefixes=frozenset({"sink"}),
            )
        )  # fmt: skip
    return state


@pytest.mark.parametrize(
    ("seen", "restore", "undone_ms"),
    [
        ((*TAKEN, HOLDS_IT), (2, RESTORED), 90_000),
        ((TAKEN[0], HOLDS_IT), (2, RESTORED), 50_000),
        ((*TAKEN, HOLDS_IT), (3, RESTORED), None),
        ((*TAKEN, HOLDS_IT), (2, 109_001), 90_000),
        ((*TAKEN, HOLDS_IT), (2, 109_000), None),
        ((*TAKEN, replace(HOLDS_IT, status=FlinkStatus.FAILED)), (2, RESTORED), None),
        ((*TAKEN, replace(HOLDS_IT, kind=FlinkKind.SAVEPOINT)), (2, RESTORED), None),
        ((*TAKEN, replace(HOLDS_IT, kind=FlinkKind.SYNC_SAVEPOINT)), (2, RESTORED), 90_000),
    ],
)
def test_a_restore_sets_back_where_a_later_checkpoint_had_committed(
    seen: tuple[FlinkCheckpoint, ...], restore: tuple[int, int], undone_ms: int | None
) -> None:
    found = [each.undone_ms for each in set_backs(flink(ran(*seen), later(restore)))]
    assert found == ([undone_ms] if undone_ms is not None else [])


@pytest.mark.parametrize(("before", "undone_ms"), [(HOLDS_IT, 90_000), (replace(HOLDS_IT, number=2), None)])
def test_what_had_committed_counts_where_its_number_was_taken_again_since(
    before: FlinkCheckpoint, undone_ms: int | None
) -> None:
    again = replace(HOLDS_IT, triggered_ms=RESTORED + 9_000, ended_ms=RESTORED + 9_500)
    source = replace(ran(*TAKEN, again), earlier={before.number: before})
    found = [each.undone_ms for each in set_backs(flink(source, later((2, RESTORED))))]
    assert found == ([undone_ms] if undone_ms is not None else [])


def test_only_restores_since_a_time_are_looked_at() -> None:
    state = flink(ran(*TAKEN, HOLDS_IT), later((2, 190_000), (1, RESTORED)))
    assert [each.restore.number for each in set_backs(state)] == [2, 1]
    assert [each.restore.number for each in set_backs(state, 190_000)] == [2, 1]
    assert [each.restore.number for each in set_backs(state, 190_001)] == [1]
    at_zero = flink(ran(*TAKEN, replace(HOLDS_IT, triggered_ms=-5)), later((2, 0)))
    assert len(set_backs(at_zero)) == 1


@pytest.mark.parametrize(
    ("undone_ms", "restored_ms", "may_be"),
    [
        (START + 1_000, RESTORED, True), (START + 1_001, RESTORED, False), (START, START + 1, True), (START, START, False),
    ],
)  # fmt: skip
def test_one_that_began_in_the_work_undone_is_asked_about(undone_ms: int, restored_ms: int, may_be: bool) -> None:
    known = [SetBack(undone_ms=undone_ms, restore=Restore(at_ms=restored_ms, number=2))]
    assert may_be_twice(transaction(), FlinkState(), known) is may_be
    assert not may_be_twice(transaction("writer"), FlinkState(), known), "its id is not Flink's"


@pytest.mark.parametrize(
    ("listed", "restores", "may_be"),
    [
        (3, [(2, RESTORED)], True),
        (3, [(3, RESTORED)], False),
        (3, [(4, RESTORED)], False),
        (3, [(2, RESTORED - 1)], False),
        (3, [(3, RESTORED), (2, RESTORED)], True),
        (3, [], False),
        (None, [(2, RESTORED)], False),
    ],
)
def test_one_that_is_listed_is_asked_about_after_a_restore_from_before_that(
    listed: int | None, restores: list[tuple[int, int]], may_be: bool
) -> None:
    state = flink(ran(), later(*restores), listed=listed)
    assert may_be_twice(transaction(), state, [], since_ms=RESTORED) is may_be


def test_without_a_time_every_restore_counts() -> None:
    assert may_be_twice(transaction(), flink(ran(), later((2, WRITTEN)), listed=3), [])


@pytest.mark.parametrize(
    ("epoch", "id_"), [(None, "sink-0-3"), (5, "sink-0-3"), (4, "sink-0-4"), (4, "writer")], ids=str
)
def test_another_transaction_than_the_listed_one_is_not_asked_about(epoch: int | None, id_: str) -> None:
    assert not may_be_twice(transaction(id_, epoch=epoch), flink(ran(), later((2, RESTORED)), listed=3), [])


@pytest.mark.parametrize(
    ("restores", "checkpoint_", "sure"),
    [
        ([(2, RESTORED)], 3, False),
        ([(3, RESTORED)], None, False),
        ([(2, WRITTEN - 1_000)], 3, False),
        ([(2, WRITTEN - 1_001)], None, False),
        ([(2, RESTORED), (3, RESTORED + 5)], 3, False),
        ([(2, RESTORED), (9, RESTORED + 5)], 3, False),
    ],
)
def test_a_listed_one_is_twice_after_a_restore_from_before_it(
    restores: list[tuple[int, int]], checkpoint_: int | None, sure: bool
) -> None:
    found = evidence(transaction("sink-0-3"), sink(), flink(ran(), later(*restores), listed=3))
    if checkpoint_ is None:
        assert found is None
    else:
        assert found is not None
        assert (found.fate, found.checkpoint, found.sure) == (Fate.REPLAYED, checkpoint_, sure)
        assert "before checkpoint 3 that lists it" in found.why


def test_a_job_of_its_name_from_nowhere_leaves_a_listed_one_likely() -> None:
    stranger = FlinkJobFacts(job=job("c" * 32, started_ms=RESTORED + 10_000))
    found = evidence(transaction(), sink(), flink(ran(), later((2, RESTORED)), stranger, listed=3))
    assert found is not None
    assert not found.sure


@pytest.mark.parametrize(
    ("restores", "says"),
    [
        ([(2, END + 1)], "checkpoint 2"),
        ([(2, END)], ""),
        ([(3, RESTORED)], ""),
        ([(1, RESTORED), (2, RESTORED + 5), (0, RESTORED + 3)], "checkpoint 2"),
        ([(3, RESTORED + 9), (2, RESTORED)], "checkpoint 2"),
        ([(2, RESTORED), (2, RESTORED)], "checkpoint 2"),
    ],
)
def test_by_its_number_it_is_twice_after_a_restore_below_it(restores: list[tuple[int, int]], says: str) -> None:
    found = evidence(transaction(), sink(), flink(ran(*TAKEN, HOLDS_IT), later(*restores)))
    if not says:
        assert found is None
    else:
        assert found is not None
        assert f"was restored from {says} at" in found.why
        assert "before checkpoint 3 that holds it" in found.why
        assert (found.fate, found.checkpoint, found.sure) == (Fate.REPLAYED, 3, False)


@pytest.mark.parametrize(
    ("taken", "is_before"),
    [
        (checkpoint(9, triggered_ms=START - 2, ended_ms=START - 1), True),
        (checkpoint(9, triggered_ms=START - 2, ended_ms=START), False),
        (checkpoint(9, triggered_ms=START - 1, ended_ms=None), True),
        (checkpoint(9, triggered_ms=START, ended_ms=None), False),
        (checkpoint(8, triggered_ms=START - 2, ended_ms=START - 1), False),
    ],
)
def test_of_pooled_ids_the_time_of_the_checkpoint_counts(taken: FlinkCheckpoint, is_before: bool) -> None:
    found = evidence(transaction(), sink(is_pooled=True), flink(ran(taken), later((9, RESTORED))))
    assert (found is not None) is is_before
    if found is not None:
        assert "which was taken before it: its rows are written again" in found.why
        assert (found.checkpoint, found.sure) == (None, False)


@pytest.mark.parametrize(
    ("told", "of_sink"),
    [
        (transaction("writer"), sink()),
        (transaction(ended_ms=None), sink()),
        (transaction(), Sink(prefix="sink")),
    ],
)
def test_what_is_not_ended_or_not_understood_proves_nothing(told: BrokerTransaction, of_sink: Sink) -> None:
    assert evidence(told, of_sink, flink(ran(*TAKEN, HOLDS_IT), later((2, RESTORED)))) is None


def test_without_a_job_that_ran_then_nothing_is_said() -> None:
    assert evidence(transaction(), sink(), flink(ran(started_ms=START + 5_000), later((2, RESTORED)))) is None


@pytest.mark.parametrize(("by_order", "twice"), [(True, True), (False, False)])
def test_of_one_that_an_order_committed_a_take_of_its_id_counts(by_order: bool, twice: bool) -> None:
    found = evidence(transaction(), sink(takes=(RESTORED,)), flink(), by_order=by_order)
    assert (found is not None) is twice
    if found is not None:
        assert (found.fate, found.checkpoint, found.sure) == (Fate.REPLAYED, 3, False)
    assert evidence(transaction(), sink(takes=(RESTORED,)), flink()) is None, "by its job, unless it is said"


@pytest.mark.parametrize(
    ("listed", "is_pooled", "number"), [(7, False, 7), (7, True, 7), (None, False, 3), (None, True, None)]
)
def test_the_checkpoint_is_the_listed_one_else_the_number_in_its_id(
    listed: int | None, is_pooled: bool, number: int | None
) -> None:
    """Restored by a job that no path names, which uses the prefix."""
    taken = checkpoint(2, triggered_ms=60_000, ended_ms=61_000)
    restored = FlinkJobFacts(
        job=job(LATER, started_ms=RESTORED - 1_000), restores=(Restore(at_ms=RESTORED, number=2),)
    )  # fmt: skip
    state = flink(replace(ran(taken), checkpoints={2: taken}), restored, listed=listed)
    state.see_committables(
        FlinkCommittables(
            cluster="eu", job=LATER, number=9, path="/d/chk-9", kind=FlinkKind.CHECKPOINT, written_ms=RESTORED,
            read_ms=RESTORED, prefixes=frozenset({"sink"}),
        )
    )  # fmt: skip
    found = evidence(transaction(), sink(is_pooled=is_pooled), state)
    assert found is not None
    assert (found.fate, found.checkpoint) == (Fate.REPLAYED, number)
    assert ("before checkpoint 7 that lists it" if listed else "which uses the prefix sink") in found.why


@pytest.mark.parametrize("prefixes", [frozenset({"sink"}), frozenset()])
def test_a_later_transaction_of_the_same_epoch_is_not_the_listed_one(prefixes: frozenset[str]) -> None:
    state = flink(ran(), later((2, RESTORED)))
    state.see_committables(
        FlinkCommittables(
            cluster="eu", job=JOB, number=3, path="/c/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=START - 1_001,
            read_ms=WRITTEN, committables=frozenset({Committable("sink-0-3", 3, 4)}), prefixes=prefixes,
        )
    )  # fmt: skip
    assert not may_be_twice(transaction(), state, [])
    assert evidence(transaction(), Sink(prefix="sink"), state) is None


@pytest.mark.parametrize(
    ("by_order", "start_ms", "restored_ms", "twice"),
    [(True, START, 105_000, True), (False, START, 105_000, False), (True, -2_000, 1, True)],
)
def test_of_one_that_an_order_committed_a_restore_before_the_order_counts(
    by_order: bool, start_ms: int, restored_ms: int, twice: bool
) -> None:
    restored = FlinkJobFacts(job=job(LATER, started_ms=0), restores=(Restore(at_ms=restored_ms, number=2),))
    state = flink(restored)
    state.see_committables(
        FlinkCommittables(
            cluster="eu", job=LATER, number=9, path="/d/chk-9", kind=FlinkKind.CHECKPOINT, written_ms=RESTORED,
            read_ms=RESTORED, prefixes=frozenset({"sink"}),
        )
    )  # fmt: skip
    told = transaction(start_ms=start_ms)
    assert (evidence(told, sink(), state, by_order=by_order) is not None) is twice


def test_a_branch_that_no_checkpoint_lists_is_not_judged() -> None:
    assert (
        evidence_of_branch(BranchFacts(resource_manager="mysql", instance="db", transaction="not-flinks"), flink(ran()))
        is None
    )
