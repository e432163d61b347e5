"""Recorded checkpoints of Flink laid where a job keeps them, and their reader."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from indoubt.collector.observe.flink_committables import FlinkCommittablesReader
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables
from indoubt.collector.records.observations import Observed, Position
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.records.flink_metadata_recordings import RECORDED, coordinator

JOB = "a" * 32
LIMIT_S = 30.0
RECORDING = "2.3-incrementing"
NOBODY_READS = "/proc/sys/vm/compact_memory"
"""A file that Linux lets nobody read, root neither."""


def listed(name: str = RECORDING) -> list[Committable]:
    """Return what a recorded checkpoint lists: what its coordinator had open then."""
    rows = [row for row in coordinator(name) if row["state"] == "ONGOING"]
    return [Committable(row["transactional_id"], row["producer_id"], row["producer_epoch"]) for row in rows]


def reader(current: CurrentState, *directories: Path | str) -> FlinkCommittablesReader:
    places = map(str, directories)
    return FlinkCommittablesReader(current, CLUSTER, places, interval_ms=0, remote_interval_ms=0)


def put(directory: Path, name: str = RECORDING) -> Path:
    """Lay a recorded checkpoint where a job keeps its own."""
    shutil.copytree(RECORDED / name, directory)
    return directory


def seen_listings(current: CurrentState) -> list[FlinkCommittables]:
    with current.reading() as state:
        return state.flink.lists.listings(listed()[0])


def told_by_rest(current: CurrentState, *observations: Any) -> None:
    """Have REST tell of a job and its checkpoints."""
    current.observe(
        [
            Observed(position=Position(source="flink eu", partition=0, offset=number), observation=observation)
            for number, observation in enumerate(observations)
        ]
    )
