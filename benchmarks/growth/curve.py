"""A curve: the cost of one thing at growing sizes, a row for each as soon as it is measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import row
from benchmarks.machine import NotEnoughRoom

FIRST, WIDTH = 12, 15
ROOM_FACTOR = 1.5
THREADS_SHOWN = 6
THREAD_SHARE = 0.1
"""A thread with less than this per cent of a core is not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says of a curve; each curve takes what it needs."""

    seconds: float
    """How long an idle collector is watched."""
    facts: int
    """How many facts are followed to the API."""
    record_bytes: int
    tasks: int
    megabytes: int
    """How much passes through the sink for one size; 0: the curve's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What was measured at one size. ``parts``: what the cost is made of (threads, steps), in the same unit or a share of it."""

    size: int
    figures: Mapping[str, float]
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """``cost``: the figure whose growth is told; ``is_rate``: it falls as the cost grows. ``columns``: figure -> its format."""

    name: str
    title: str
    sizes: tuple[int, ...]
    """The default: all of them end within ten minutes on two cores."""
    cost: str
    columns: Mapping[str, str]
    parts: str
    """What the parts of a point are."""
    measure: Callable[[Path, Sequence[int], Options], Iterator[Point]]
    disk_bytes: Callable[[int, Options], int]
    """How much the disk must hold for a size."""

    def require_disk(self, directory: Path, sizes: Sequence[int], options: Options) -> None:
        """Raise NotEnoughRoom when the disk does not hold the largest size, and half as much again."""
        needed = int(ROOM_FACTOR * max(self.disk_bytes(size, options) for size in sizes))
        free = shutil.disk_usage(directory).free
        if free < needed:
            raise NotEnoughRoom(
                f"{directory} has {free >> 20:,} MiB free; the curve {self.name} wants {needed >> 20:,} MiB: take smaller --sizes"
            )

    def header(self) -> str:
        """Return the first line of the table."""
        return row(self.name, *self.columns, "cost", "load", first=FIRST, width=WIDTH)

    def line(self, point: Point, before: Point | None) -> str:
        """Return a point's line, with the ratio of its cost to that of the size before it."""
        figures = (format(point.figures[name], form) for name, form in self.columns.items())
        ratio = f"x {self.ratio(point, before):.2f}" if before is not None else "-"
        return row(f"{point.size:,}", *figures, ratio, f"{load():.1f}", first=FIRST, width=WIDTH)

    def parts_of(self, point: Point) -> str:
        """Return a line with the largest parts of a point, or nothing."""
        largest = sorted(point.parts.items(), key=lambda part: -part[1])
        shown = [f"{name} {value:.4g}" for name, value in largest[:THREADS_SHOWN] if value >= THREAD_SHARE]
        return f"  {'':<{FIRST}}{self.parts}: {', '.join(shown)}" if shown else ""

    def ratio(self, point: Point, before: Point) -> float:
        """Return how many times the cost before a point costs."""
        return point.figures[self.cost] / max(before.figures[self.cost], 1e-9)


def load() -> float:
    """Return the machine's load average of the last minute."""
    return os.getloadavg()[0]
