"""Which checkpoints of Flink count by their end, which list is of which, and which ends are still to come."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, newest_first
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkKind
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.records.flink_states import DONE, FAILED, ID, RUNS, A, B, listed, state

PATH = f"s3://bucket/{A}/chk-3"
TRIGGERED, ENDED = 30_000, 31_000
"""Of checkpoint 3, in milliseconds after T0."""


@pytest.mark.parametrize(
    ("kind", "of_job", "newest", "counts"),
    [
        (FlinkKind.CHECKPOINT, "RUNNING", 4, True),
        (FlinkKind.UNALIGNED_CHECKPOINT, "FAILED", 4, True),
        (FlinkKind.SAVEPOINT, "FINISHED", 3, False),
        (FlinkKind.SYNC_SAVEPOINT, "FINISHED", 3, True),
        (FlinkKind.SYNC_SAVEPOINT, "FINISHED", 4, False),
        (FlinkKind.SYNC_SAVEPOINT, "FAILED", 3, False),
        (FlinkKind.SYNC_SAVEPOINT, "RUNNING", 3, False),
    ],
)
def test_a_savepoint_counts_once_the_job_stopped_with_it_is_finished(
    kind: FlinkKind, of_job: str, newest: int, counts: bool
) -> None:
    seen = checkpoint(3, kind=kind)
    facts = state(job(state=of_job), checkpoint(2), seen, *([checkpoint(newest)] if newest > 3 else [])).jobs[A]
    assert facts.counts(seen) is counts


@pytest.mark.parametrize(("started", "is_its"), [(ENDED, True), (ENDED + 1, False)])
def test_a_job_that_starts_later_may_write_into_the_same_directory(started: int, is_its: bool) -> None:
    facts = state(job(started_ms=T0 + started), checkpoint(3, path=PATH)).jobs[A]
    late = listed(3, path=PATH, written_ms=T0 + ENDED + 5_000)
    assert (facts.ended(late, DONE) is not None) is is_its


@pytest.mark.parametrize(
    ("written", "by_flink"),
    [
        (TRIGGERED - CLOCK_SKEW_MS - 1, TRIGGERED - CLOCK_SKEW_MS - 1),
        (TRIGGERED - CLOCK_SKEW_MS, TRIGGERED),
        (TRIGGERED, TRIGGERED),
        (TRIGGERED + 500, TRIGGERED + 500),
        (ENDED, ENDED),
        (ENDED + CLOCK_SKEW_MS, ENDED),
        (ENDED + CLOCK_SKEW_MS + 1, ENDED + CLOCK_SKEW_MS + 1),
    ],
)
def test_a_list_was_written_while_its_checkpoint_ran(written: int, by_flink: int) -> None:
    facts = state(checkpoint(3)).jobs[A]
    assert facts.timed(listed(3, written_ms=T0 + written)).written_ms == T0 + by_flink


READ: dict[str, Any] = {"written_ms": T0 + ENDED, "read_ms": T0 + 40_000}


@pytest.mark.parametrize(
    ("seen", "since", "is_awaited"),
    [
        ([job(), listed(3, **READ)], 0, True),
        ([job(), checkpoint(3, RUNS), listed(3, **READ)], 0, True),
        ([job(), checkpoint(3), listed(3, **READ)], 0, False),
        ([job(), checkpoint(3, FAILED), listed(3, **READ)], 0, False),
        # The list that was read last says which checkpoint it is about.
        ([job(), checkpoint(3), listed(2, **READ), listed(3, **READ)], 0, False),
        ([job(), checkpoint(3), listed(3, **READ), listed(4, **READ)], 0, True),
        # What ended well before it was written is an earlier one of its number.
        ([job(), checkpoint(3), listed(3, **READ | {"written_ms": T0 + ENDED + CLOCK_SKEW_MS})], 0, False),
        ([job(), checkpoint(3), listed(3, **READ | {"written_ms": T0 + ENDED + CLOCK_SKEW_MS + 1})], 0, True),
        # One that was read long ago is asked for no more.
        ([job(), listed(3, **READ)], 40_000, True),
        ([job(), listed(3, **READ)], 40_001, False),
        # Of a job that is over, or that REST did not tell of, there is no end to ask for.
        ([job(state="FAILED"), listed(3, **READ)], 0, False),
        ([listed(3, **READ)], 0, False),
        ([job(B), listed(3, **READ)], 0, False),
        # A list that was read in another cluster is not this one's.
        ([job(), listed(3, **READ, cluster="us")], 0, False),
    ],
)  # fmt: skip
def test_the_end_of_a_checkpoint_is_awaited_where_its_list_was_read_first(
    seen: list[Any], since: int, is_awaited: bool
) -> None:
    found = state(*seen).awaiting_end(CLUSTER, T0 + since)
    assert [each.job for each in found] == ([A] if is_awaited else [])


def test_the_lists_of_a_job_that_were_read_whole() -> None:
    of_others = (listed(4, B), listed(5, A, cluster="us"))
    found = state(job(), listed(1, A), listed(2, A, error="cut short"), listed(3, A), *of_others)
    assert found.lists.read_whole(found.jobs[A]) == {1, 3}


@pytest.mark.parametrize(
    ("seen", "since", "on_disk"),
    [
        ([listed(3, **READ)], 40_000, {A}),
        ([listed(3, **READ)], 40_001, set()),
        # Of a job's lists the one counts that was read last, whatever its number.
        ([listed(3, **READ | {"read_ms": T0}), listed(2, **READ)], 40_000, {A}),
        ([listed(3, **READ), listed(2, **READ, of_job=B)], 0, {A, B}),
        ([listed(3, **READ), listed(2, **READ, of_job=B, cluster="us")], 0, {A}),
    ],
)
def test_the_jobs_that_are_read_on_disk_now(seen: list[FlinkCommittables], since: int, on_disk: set[str]) -> None:
    assert state(*seen).lists.read_on_disk(CLUSTER, T0 + since) == on_disk


def test_how_many_transactions_each_checkpoint_lists() -> None:
    other = ID._replace(producer_epoch=1)
    found = state(listed(1, A, ID, other), listed(2, A), listed(3, A, ID, error="cut short"), listed(1, B, ID))
    assert found.lists.listed_counts() == {(A, 1): 2, (A, 2): 0, (B, 1): 1}


def test_the_prefixes_of_a_pipeline_are_those_that_its_jobs_used_last() -> None:
    of_orders = listed(1, A, prefixes=frozenset({"orders", "returns"}))
    found = state(job(), job(B, name="bills"), of_orders, listed(1, B, prefixes=frozenset({"bills"})))
    assert sorted(found.prefixes_of(f"{CLUSTER}/orders")) == ["orders", "returns"]
    assert found.prefixes_of(f"{CLUSTER}/bills") == ["bills"]
    assert found.prefixes_of(f"{CLUSTER}/else") == []


def test_jobs_stand_running_ones_first_then_the_one_that_changed_last() -> None:
    jobs = [
        job(A, changed_ms=1),
        job(B, "FINISHED", changed_ms=9),
        job("c" * 32, changed_ms=5),
        job("d" * 32, "FAILED", changed_ms=12),
        job("e" * 32, changed_ms=5),
    ]
    for order in (jobs, jobs[::-1]):
        stand = newest_first(state(*order).jobs.values())
        assert "".join(facts.job.job[0] for facts in stand) == "ceadb"
