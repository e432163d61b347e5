"""Checkpoints of Flink as rows: those that are kept are what would be made anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.records.facts import CheckpointFacts
from collector.records.flink_facts import SOURCE, FlinkState
from collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from lifecycle.checkpoints import CheckpointState
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
        assert rows == list(state.copy().checkpoint_facts()), "made anew"


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
