"""A part of a partition, by its offsets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The records of a partition from offset ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, offsets {self.start} to {self.end}"

    @property
    def size(self) -> int:
        """Return how many offsets it has."""
        return self.end - self.start
