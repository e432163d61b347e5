"""The recorded checkpoints of flink_metadata_recorded/ (its README.md says how they were made)."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import (
    FlinkCheckpointMetadata,
    OpenState,
    read_checkpoint_metadata,
)
from indoubt.lifecycle.errors import MalformedRecord

RECORDED = Path(__file__).with_name("flink_metadata_recorded")
NAMES = sorted(path.parent.name for path in RECORDED.glob("*/coordinator.json"))
"""Checkpoints of running jobs."""
EVERY_HANDLE = {version: f"every-handle-{version}" for version in range(3, 8)}
"""Written by Flink's serializers, by format version: the operators of 2.3-incrementing behind handles of every kind."""
ON_THE_WAY = "committables-on-the-way"
"""2.3-incrementing with channel states at the sink's operators."""


def metadata_bytes(name: str) -> bytes:
    """Return the bytes of a recorded ``_metadata``."""
    return (RECORDED / name / "_metadata").read_bytes()


def opener(name: str) -> OpenState:
    """Return what opens a recording's state files, which lie beside ``_metadata`` wherever they lay on the recording machine."""

    def open_state(path: str) -> BinaryIO:
        return (RECORDED / name / path.removeprefix("file:").rpartition("/")[2]).open("rb")

    return open_state


def read(name: str) -> FlinkCheckpointMetadata:
    """Return what a recorded checkpoint says."""
    return read_checkpoint_metadata(metadata_bytes(name), opener(name))


def read_damaged(name: str) -> Iterator[FlinkCheckpointMetadata]:
    """Yield what a recorded checkpoint says with one bit turned, each of 500, where it is not refused."""
    data, generator = metadata_bytes(name), random.Random(name)
    for at in (generator.randrange(len(data)) for _ in range(500)):
        changed = bytearray(data)
        changed[at] ^= 1 << generator.randrange(8)
        with contextlib.suppress(MalformedRecord):
            yield read_checkpoint_metadata(bytes(changed), opener(name))


def coordinator(name: str) -> list[dict[str, Any]]:
    """Return what the broker answered to DescribeTransactions when the checkpoint was taken."""
    found: list[dict[str, Any]] = json.loads((RECORDED / name / "coordinator.json").read_text())
    return found
