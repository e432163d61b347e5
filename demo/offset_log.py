"""Spark's own offset log in a checkpoint directory: the end offsets and the watermark of each micro-batch.

Format (Spark 4.2, OffsetSeqLog): file ``offsets/<batch>``; line 1 ``v1``; line 2 JSON with ``batchWatermarkMs``; then one
line per source, for Kafka ``{"topic": {"<partition>": <end offset>}}``, or ``-`` while the source has no data.
``commits/<batch>`` exists once the batch is complete.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from demo.checkpoint_directory import CheckpointDirectory


class OffsetLogUnreadable(Exception):
    """The offset log has another format or a gap; the message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A micro-batch: its number, its watermark (epoch ms), and the end offset of each partition."""

    number: int
    watermark_ms: int
    end_offsets: dict[int, int]


def parse(number: int, text: str, topic: str) -> PlannedBatch:
    """Return the batch in a file of ``offsets/``. Raises OffsetLogUnreadable."""
    lines = text.splitlines()
    if len(lines) < 3 or lines[0] != "v1":
        raise OffsetLogUnreadable(f"offsets/{number} is not a v1 offset log with one source: {text[:80]!r}")
    try:
        watermark_ms = int(json.loads(lines[1])["batchWatermarkMs"])
        ends = {} if lines[2] == "-" else json.loads(lines[2])[topic]
        return PlannedBatch(
            number=number, watermark_ms=watermark_ms, end_offsets={int(key): int(end) for key, end in ends.items()}
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OffsetLogUnreadable(
            f"offsets/{number} is not in Spark 4.2's format ({error!r}): {text[:200]!r}"
        ) from None


class OffsetLog:
    """The log of a checkpoint directory, kept in memory: Spark removes its files after about a hundred batches."""

    def __init__(self, checkpoint: CheckpointDirectory, topic: str) -> None:
        self._checkpoint, self._topic = checkpoint, topic
        self._batches: dict[int, PlannedBatch] = {}
        self._committed = -1

    def refresh(self) -> None:
        """Read the new batches; call it at least every few minutes."""
        for number in sorted(self._checkpoint.files("offsets").keys() - self._batches.keys()):
            self._batches[number] = parse(number, self._checkpoint.text("offsets", number), self._topic)
        self._committed = max(self._checkpoint.files("commits"), default=self._committed)

    @property
    def last_committed(self) -> int:
        """Return the number of the last complete batch, -1 before the first."""
        return self._committed

    def committed(self) -> list[PlannedBatch]:
        """Return the complete batches in order. Raises OffsetLogUnreadable if a batch between them was never read."""
        missing = [number for number in range(self._committed + 1) if number not in self._batches]
        if missing:
            raise OffsetLogUnreadable(
                f"Spark removed batches {missing[:5]} of {self._checkpoint.setting} before they were read"
            )
        return [self._batches[number] for number in range(self._committed + 1)]
