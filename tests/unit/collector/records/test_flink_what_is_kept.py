"""What is forgotten of Flink's jobs is forgotten with all that goes by it, and what tells nothing new is known as such."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records import flink_facts, flink_lists
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.records.flink_states import DONE, FAILED, RUNS, A, B, C, listed, see, state, taken_again

PREFIX = frozenset({"orders"})


def in_us(one: Any) -> Any:
    """Return the same as another cluster tells it."""
    return replace(one, cluster="us")


@pytest.mark.parametrize(
    ("seen", "then", "several"),
    [
        # In every case the limit is one job: with a third one, all but the newest are forgotten.
        ([job(changed_ms=1), in_us(job(changed_ms=1))], [], []),
        ([job(changed_ms=T0 + 9), in_us(job(changed_ms=T0 + 9))], [], [CLUSTER, "us"]),
        ([job(changed_ms=1), in_us(job(changed_ms=1)), listed(1, A)], [], [CLUSTER, "us"]),
        # A job that comes back elsewhere, once it is forgotten, is one alone.
        ([job(changed_ms=1)], [in_us(job(changed_ms=T0 + 9))], ["us"]),
        ([job(changed_ms=1), listed(1, A)], [in_us(job(changed_ms=T0 + 9))], [CLUSTER, "us"]),
    ],
    ids=["forgotten", "kept", "kept for its list", "forgotten, back elsewhere", "kept for its list, back elsewhere"],
)
def test_where_a_job_was_seen_is_forgotten_with_it(
    seen: list[Any], then: list[Any], several: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 1)
    found = state(*seen, job(B, changed_ms=2), job(C, changed_ms=3), *then)
    assert found.clusters.several(A) == (several if len(several) > 1 else [])


@pytest.mark.parametrize(
    ("seen", "several"),
    [
        # Where a checkpoint of its own lies tells of which job a list is that another cluster's reader finds there.
        ([checkpoint(1, path=f"s3://c/{A}/chk-1"), listed(2, A, path=f"s3a://c/{A}/chk-2", cluster="us")], []),
        ([checkpoint(1, path=f"s3://c/{A}/chk-1"), listed(2, A, path=f"s3a://d/{A}/chk-2", cluster="us")], ["eu", "us"]),
        ([checkpoint(1), listed(2, A, path=f"s3a://c/{A}/chk-2", cluster="us")], ["eu", "us"]),
        # A savepoint beside them, or the checkpoint of another job, does not.
        ([checkpoint(1, path=f"s3://c/{A}/savepoint-1"), listed(2, A, path=f"s3://c/{A}/chk-2", cluster="us")], ["eu", "us"]),
        ([checkpoint(1, path=f"s3://c/{B}/chk-1"), listed(2, A, path=f"s3://c/{A}/chk-2", cluster="us")], ["eu", "us"]),
        ([checkpoint(1, path=f"s3://c/{A}/chk-1"), listed(1, A, path="s3://save/savepoint-1", cluster="us")], []),
        ([checkpoint(1, path=f"s3://c/{A}/chk-1"), listed(1, A, path=f"s3://c/{B}/chk-1", cluster="us")], []),
        # REST told of its checkpoints in both: those are two jobs, even in one directory.
        ([checkpoint(1, path=f"s3://c/{A}/chk-1"), in_us(checkpoint(1, path=f"s3://c/{A}/chk-1"))], ["eu", "us"]),
    ],
)  # fmt: skip
def test_a_job_is_told_from_one_of_its_id_by_where_its_checkpoints_lie(seen: list[Any], several: list[str]) -> None:
    for order in (seen, seen[::-1]):
        assert state(*order).clusters.several(A) == several


def test_of_a_number_that_was_taken_again_both_are_forgotten() -> None:
    found = state(*(checkpoint(number) for number in (1, 2, 3)), taken_again(1), checkpoints_kept=2)
    assert found.jobs[A].earlier.keys() == {1}
    for number in (14, 15):
        found.see_checkpoint(taken_again(number, at=900_000 + number))
    assert (found.jobs[A].checkpoints.keys(), found.jobs[A].earlier) == ({14, 15}, {})
    before = listed(1, written_ms=T0 + 10_500)
    assert found.jobs[A].ended(before, DONE) is None


@pytest.mark.parametrize(
    ("seen", "most", "newest"),
    [
        ([checkpoint(3), checkpoint(4)], 1, [4]),
        ([checkpoint(3), checkpoint(5), checkpoint(4)], 3, [5, 4, 3]),
        ([checkpoint(3), checkpoint(4, RUNS), checkpoint(5, FAILED)], 3, [3]),
        ([checkpoint(3), checkpoint(4, path="<checkpoint-not-externally-addressable>")], 3, [3]),
        ([checkpoint(3), checkpoint(4, cluster="us", job=B)], 3, [3]),
        # A number that was taken again is of the newest checkpoint, whatever was told first.
        ([checkpoint(3), checkpoint(4), taken_again(3)], 1, [3]),
        ([checkpoint(3), checkpoint(4), taken_again(3)], 2, [4, 3]),
        ([taken_again(3), taken_again(4, at=600_000), checkpoint(3)], 1, [4]),
        ([taken_again(3), checkpoint(4), checkpoint(3)], 1, [4]),
    ],
)
def test_the_last_checkpoints_that_a_job_may_be_restored_from(
    seen: list[FlinkCheckpoint], most: int, newest: list[int]
) -> None:
    found = state(*(replace(one, path=one.path or f"s3://c/{A}/chk-{one.number}") for one in seen))
    assert [(of_job, [each.number for each in last]) for of_job, last in found.newest_completed(CLUSTER, most)] == [
        (A, newest)
    ]


def test_a_job_whose_last_list_is_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_lists, "JOBS_KEPT", 2)
    long = [listed(1, A, written_ms=T0), listed(2, A, written_ms=T0 + 100)]
    short = [listed(1, B, written_ms=T0 + 50), listed(2, B, written_ms=T0 + 60)]
    found = state(*long, *short, listed(1, C, written_ms=T0 + 200))
    assert [job for _, job in found.lists.committables] == [A, C]


def test_a_prefix_is_free_again_once_the_job_that_had_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_lists, "JOBS_KEPT", 2)
    bills = frozenset({"bills"})
    found = state(
        listed(1, A, written_ms=T0 + 9, prefixes=PREFIX),
        listed(1, B, written_ms=T0 + 30, prefixes=bills),
        listed(1, C, written_ms=T0 + 20),
    )
    assert found.lists.job_of_prefix("orders") is None
    found.see_committables(listed(2, C, written_ms=T0 + 5, prefixes=PREFIX | bills))
    assert found.lists.job_of_prefix("orders") == (CLUSTER, C)
    assert found.lists.job_of_prefix("bills") == (CLUSTER, B), "it wrote later, and is not forgotten"


def test_in_a_copy_too_an_older_list_takes_no_prefix() -> None:
    copy = state(listed(2, A, written_ms=T0 + 9, prefixes=PREFIX)).copy()
    copy.see_committables(listed(1, B, written_ms=T0 + 5, prefixes=PREFIX))
    assert copy.lists.job_of_prefix("orders") == (CLUSTER, A)


def test_rows_are_what_would_be_made_anew_once_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_KEPT", 1)

    def rows() -> list[tuple[int, bool]]:
        told = list(found.checkpoint_facts())
        assert told == list(found.copy().checkpoint_facts()), "as made again from the start"
        return [(row.number, row.completed_ms is not None) for row in told]

    proof = job(B, changed_ms=1, restored=2, restored_at=30_000, restored_path=f"file:/c/{A}/chk-2")
    found = state(job(changed_ms=T0 + 9), checkpoint(2, RUNS), proof)
    assert rows() == [(2, True)]
    found.see_job(job(C, changed_ms=2))
    assert rows() == [(2, False)], "the job that proved it is forgotten"


FACTS = [job(restored=1, restored_at=50, seen_ms=5), checkpoint(3, RUNS), checkpoint(4), checkpoint(6), taken_again(6)]


@pytest.mark.parametrize(
    ("seen", "is_known"),
    [
        # A job: what is the same but for the time of the look, and what an older look says.
        (job(restored=1, restored_at=50, seen_ms=5), True),
        (job(restored=1, restored_at=50, seen_ms=9), True),
        (job(restored=1, restored_at=50, seen_ms=9, state="FAILED"), False),
        (job(restored=1, restored_at=50, seen_ms=2, state="CREATED"), True),
        (job(restored=2, restored_at=90, seen_ms=9), False),
        (job(seen_ms=9), True),
        (job(restored=1, restored_at=50, seen_ms=2, restarts=3), False),
        (job(B), False),
        # A checkpoint: an end is never taken back.
        (checkpoint(3, RUNS), True),
        (checkpoint(3), False),
        (checkpoint(3, FAILED), False),
        (checkpoint(4, RUNS), True),
        (checkpoint(4), True),
        (checkpoint(4, FAILED), True),
        (checkpoint(5), False),
        (checkpoint(3, job=B), False),
        # A number that was taken again: the last two are kept.
        (taken_again(6), True),
        (taken_again(6, at=700_000), False),
        (taken_again(6, at=300_000), False),
        (checkpoint(6), True),
        (checkpoint(6, triggered_ms=T0 + 60_001), False),
        (taken_again(4), False),
    ],
)
def test_what_tells_nothing_new_changes_nothing(seen: Any, is_known: bool) -> None:
    found = state(*FACTS)
    assert found.knows(seen) is is_known
    before = found.copy()
    see(found, seen)
    assert (_timeless(found) == _timeless(before)) is is_known


def _timeless(found: FlinkState) -> dict[str, Any]:
    """Return what is known of the jobs, but for when REST was asked last."""
    return {id_: replace(facts, job=replace(facts.job, seen_ms=0)) for id_, facts in found.jobs.items()}
