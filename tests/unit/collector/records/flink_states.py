"""What is known of Flink from a few jobs, checkpoints and lists of committables."""

from __future__ import annotations

from typing import Any

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkKind,
    FlinkStatus,
)
from tests.unit.collector.flink_observations import checkpoint
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0

A, B, C = "a" * 32, "b" * 32, "c" * 32
RUNS, DONE, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.COMPLETED, FlinkStatus.FAILED
ID = Committable("orders-0-1", 1, 0)


def path(of_job: str, number: int) -> str:
    return f"/chk/{of_job}/chk-{number}"


def listed(number: int = 1, of_job: str = A, *ids: Committable, **fields: Any) -> FlinkCommittables:
    told: dict[str, Any] = {
        "cluster": CLUSTER,
        "job": of_job,
        "number": number,
        "path": path(of_job, number),
        "kind": FlinkKind.CHECKPOINT,
        "written_ms": T0,
        "read_ms": T0,
        "committables": frozenset(ids),
        **fields,
    }
    return FlinkCommittables(**told)


def see(found: FlinkState, one: Any) -> None:
    """Put a checkpoint, what one lists, or a job into what is known."""
    match one:
        case FlinkCheckpoint():
            found.see_checkpoint(one)
        case FlinkCommittables():
            found.see_committables(one)
        case _:
            found.see_job(one)


def state(*seen: Any, **fields: Any) -> FlinkState:
    found = FlinkState(**fields)
    for one in seen:
        see(found, one)
    return found


def taken_again(number: int, status: FlinkStatus = DONE, at: int = 500_000, took: int = 1_000) -> FlinkCheckpoint:
    """Return a checkpoint of a later run under the same job id, which began from an older one."""
    ended_ms = None if status is RUNS else T0 + at + took
    return checkpoint(number, status, triggered_ms=T0 + at, ended_ms=ended_ms)
