"""Checkpoints of Flink as rows: those that are kept are what would be made anew."""

from __future__ import annotations

from collector.records.flink_facts import FlinkState
from collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkStatus
from lifecycle.checkpoints import CheckpointState
from tests.unit.collector.flink_observations import checkpoint, job

FIRST, SECOND = "a" * 32, "b" * 32
OPEN = FlinkStatus.IN_PROGRESS


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
