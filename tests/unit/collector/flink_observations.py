"""Made-up observations of one Flink job and its checkpoints, ten seconds apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0


def checkpoint(
    number: int, status: FlinkStatus = FlinkStatus.COMPLETED, took: int = 1_000, **fields: Any
) -> FlinkCheckpoint:
    """Return checkpoint ``number``, triggered ``number`` * 10 s after T0."""
    at = T0 + 10_000 * number
    seen = FlinkCheckpoint(
        cluster=CLUSTER, job="a" * 32, job_name="orders", number=number, status=status, kind=FlinkKind.CHECKPOINT,
        triggered_ms=at, ended_ms=None if status is FlinkStatus.IN_PROGRESS else at + took,
    )  # fmt: skip
    return replace(seen, **fields)


def job(
    id_: str = "a" * 32, state: str = "RUNNING", restored: int | None = None, restored_at: int = 0, **fields: Any
) -> FlinkJob:
    at = T0 + restored_at if restored is not None else None
    seen = FlinkJob(
        cluster=CLUSTER, job=id_, name="orders", state=state, started_ms=T0 - 1_000, changed_ms=T0 + 200_000,
        restored_number=restored, restored_ms=at,
    )  # fmt: skip
    return replace(seen, **fields)


def of_state(state: str) -> tuple[FlinkJob, FlinkCheckpoint]:
    """Return a job of this state that is called by it, and a checkpoint of it that is under way."""
    under_way = checkpoint(7, FlinkStatus.IN_PROGRESS, cluster="f", job=state, job_name=state, triggered_ms=T0 + 1)
    return job(state, state, cluster="f", name=state, started_ms=T0, changed_ms=T0), under_way
