"""Checkpoints of Flink as rows: those that are kept are what would be made again."""

from __future__ import annotations

import operator
from dataclasses import replace

import pytest

from indoubt.collector.records import flink_facts
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import SOURCE
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from indoubt.lifecycle.checkpoints import CheckpointState
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0

FIRST, SECOND = "a" * 32, "b" * 32
OPEN, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.FAILED
GOES_ON_FROM_2 = job(SECOND, restored=2, restored_at=90_000, restored_path=f"file:/c/{FIRST}/chk-2")
PROVEN = "its end was not seen; a job was restored from it, so it was completed"


def test_rows_follow_what_is_told_of_their_job_and_of_others() -> None:
    state = FlinkState()
    steps: list[tuple[FlinkJob | FlinkCheckpoint, str, list[CheckpointState]]] = [
        (job(), "orders", []),
        (checkpoint(1), "orders", [CheckpointState.COMPLETED]),
        (checkpoint(2, OPEN), "orders", [CheckpointState.COMPLETED, CheckpointState.STARTED]),
        # Another job goes on from it: that proves it.
        (
            job(SECOND, restored=2, restored_at=30_000, restored_path=f"file:/c/{FIRST}/chk-2"),
            "orders",
            [CheckpointState.COMPLETED, CheckpointState.COMPLETED],
        ),
        (
            checkpoint(3, OPEN),
            "orders",
            [CheckpointState.COMPLETED, CheckpointState.COMPLETED, CheckpointState.STARTED],
        ),
        (
            job(state="FAILED", name="renamed"),
            "renamed",
            [CheckpointState.COMPLETED, CheckpointState.COMPLETED, CheckpointState.FAILED],
        ),
    ]
    for seen, name, states in steps:
        state.see_job(seen) if isinstance(seen, FlinkJob) else state.see_checkpoint(seen)
        rows = list(state.checkpoint_facts())
        assert [row.state for row in rows] == states
        assert {row.pipeline.rpartition("/")[2] for row in rows} <= {name}
        assert rows == list(state.copy().checkpoint_facts()), "as made again from the start"


@pytest.mark.parametrize(
    ("seen", "of_job", "also", "completed", "failed", "kind", "reason"),
    [
        (checkpoint(2), job(), [], 21_000, None, "checkpoint", ""),
        (checkpoint(2, FAILED, reason="declined"), job(), [], None, 21_000, "checkpoint", "declined"),
        (checkpoint(2, OPEN), job(), [], None, None, "checkpoint", ""),
        # That a job was restored from it proves it, where its end was not seen.
        (checkpoint(2, OPEN), job(), [GOES_ON_FROM_2], 90_000, None, "checkpoint", PROVEN),
        (checkpoint(2, OPEN), job(state="FAILED"), [GOES_ON_FROM_2], 90_000, None, "checkpoint", PROVEN),
        (checkpoint(2), job(), [GOES_ON_FROM_2], 21_000, None, "checkpoint", ""),
        (checkpoint(2, FAILED, reason="lost"), job(), [GOES_ON_FROM_2], None, 21_000, "checkpoint", "lost"),
        # It fails with its job: at its end, or as it was noticed to be gone.
        (checkpoint(2, OPEN), job(state="FAILED", ended_ms=T0 + 70_000), [], None, 70_000, "checkpoint",
            "its end was not seen; its job is FAILED"),
        (checkpoint(2, OPEN), job(state="GONE"), [], None, 200_000, "checkpoint", "its end was not seen; its job is GONE"),
        (checkpoint(2), job(state="FAILED"), [], 21_000, None, "checkpoint", ""),
        (checkpoint(2, kind=FlinkKind.SAVEPOINT), job(), [], 21_000, None, "savepoint", ""),
        (checkpoint(2, kind=FlinkKind.SYNC_SAVEPOINT), job(), [], 21_000, None, "savepoint", ""),
        (checkpoint(2, kind=FlinkKind.UNALIGNED_CHECKPOINT), job(), [], 21_000, None, "checkpoint", ""),
    ],
)  # fmt: skip
def test_a_row_says_how_a_checkpoint_stands(
    seen: FlinkCheckpoint,
    of_job: FlinkJob,
    also: list[FlinkJob],
    completed: int | None,
    failed: int | None,
    kind: str,
    reason: str,
) -> None:
    state = FlinkState()
    for told in (of_job, *also):
        state.see_job(told)
    state.see_checkpoint(replace(seen, path=f"file:/c/{FIRST}/chk-2", state_bytes=77))
    (row,) = state.checkpoint_facts()
    assert row == CheckpointFacts(
        pipeline="eu/orders",
        number=2,
        started_ms=T0 + 20_000,
        completed_ms=T0 + completed if completed is not None else None,
        failed_ms=T0 + failed if failed is not None else None,
        reason=reason,
        sources=frozenset({SOURCE}),
        kind=kind,
        job=FIRST,
        state_bytes=77,
        path=f"file:/c/{FIRST}/chk-2",
    )


def of_each(state: FlinkState) -> dict[str, list[CheckpointFacts]]:
    found: dict[str, list[CheckpointFacts]] = {}
    for row in state.checkpoint_facts():
        found.setdefault(row.job, []).append(row)
    return found


def are_same(rows: list[CheckpointFacts], others: list[CheckpointFacts]) -> bool:
    return len(rows) == len(others) and all(map(operator.is_, rows, others))


def test_rows_are_the_very_same_until_one_of_their_job_changes() -> None:
    state = FlinkState()
    for seen in (checkpoint(1), checkpoint(2, OPEN), replace(checkpoint(1), job=SECOND)):
        state.see_checkpoint(seen)
    before = of_each(state)
    assert are_same(of_each(state)[FIRST], before[FIRST])
    state.see_checkpoint(checkpoint(2))
    after = of_each(state)
    assert are_same(after[SECOND], before[SECOND]), "another job's"
    assert after[FIRST][0] is before[FIRST][0], "another checkpoint's"
    assert [row.state for row in after[FIRST]] == [CheckpointState.COMPLETED] * 2
    state.see_job(job(name="renamed"))
    assert [row.pipeline for row in of_each(state)[FIRST]] == ["eu/renamed"] * 2
    assert are_same(of_each(state)[SECOND], after[SECOND])


def test_a_restore_changes_the_rows_of_the_job_that_it_proves_alone() -> None:
    state = FlinkState()
    third = "c" * 32
    for seen in (checkpoint(2, OPEN), replace(checkpoint(2, OPEN), job=third)):
        state.see_checkpoint(seen)
    before = of_each(state)
    state.see_job(GOES_ON_FROM_2)
    after = of_each(state)
    assert [row.reason for row in after[FIRST]] == [PROVEN]
    assert are_same(after[third], before[third])


def test_a_job_that_was_restored_from_its_own_checkpoint_proves_it() -> None:
    state = FlinkState()
    state.see_checkpoint(checkpoint(2, OPEN))
    assert [row.reason for row in of_each(state)[FIRST]] == [""]
    state.see_job(job(restored=2, restored_at=90_000))
    assert [row.reason for row in of_each(state)[FIRST]] == [PROVEN]


def test_very_many_jobs_share_what_is_kept_of_all_but_each_keeps_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_facts, "CHECKPOINTS_IN_ALL", 20)
    monkeypatch.setattr(flink_facts, "FEWEST_CHECKPOINTS", 3)
    monkeypatch.setattr(flink_facts, "JOBS_WITH_ALL_CHECKPOINTS", 0)
    for jobs, kept in ((4, 5), (10, 3)):
        state = FlinkState(checkpoints_kept=40)
        for other in range(jobs - 1):
            state.see_job(job(f"{other:032x}"))
        for number in range(1, 2 * kept + 2):
            state.see_checkpoint(checkpoint(number))
        assert [row.number for row in of_each(state)[FIRST]] == list(range(kept + 2, 2 * kept + 2))


@pytest.mark.parametrize(
    ("jobs", "kept"),
    [(1, 40), (2, 40), (4, 20), (8, 10), (16, 8)],
    ids=[
        "one job",
        "as many as may keep all",
        "twice as many",
        "four times as many",
        "so many that each keeps the least",
    ],
)
def test_many_jobs_share_what_a_few_may_keep(monkeypatch: pytest.MonkeyPatch, jobs: int, kept: int) -> None:
    monkeypatch.setattr(flink_facts, "JOBS_WITH_ALL_CHECKPOINTS", 2)
    monkeypatch.setattr(flink_facts, "LEAST_CHECKPOINTS", 8)
    state = FlinkState(checkpoints_kept=40)
    for other in range(jobs - 1):
        state.see_job(job(f"{other:032x}"))
    for number in range(1, 2 * kept + 1):
        state.see_checkpoint(checkpoint(number))
    assert [row.number for row in of_each(state)[FIRST]] == list(range(1, 2 * kept + 1))
    state.see_checkpoint(checkpoint(2 * kept + 1))
    assert [row.number for row in of_each(state)[FIRST]] == list(range(kept + 2, 2 * kept + 2)), "the newest"
    assert list(state.checkpoint_facts()) == list(state.copy().checkpoint_facts())


def test_states_that_saw_the_same_are_equal_whichever_was_asked_for_rows() -> None:
    asked, other = FlinkState(), FlinkState()
    for state in (asked, other):
        state.see_checkpoint(checkpoint(1))
    assert of_each(asked)
    assert asked == other
