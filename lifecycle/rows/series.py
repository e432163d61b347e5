"""The answers of GET /series and of those below it, and the rows of GET /checkpoints/gaps. Times are epoch ms, lengths ms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MarkKind(Enum):
    """What happened at a moment; the value is what the API says."""

    ORDER = "order"
    """An operator's, or a standing order."""
    START = "start"
    RESTART = "restart"
    """Of a pipeline by its supervisor, or of a Flink job from a checkpoint."""
    STOP = "stop"
    LOST = "lost"
    DUPLICATED = "duplicated"
    ALERT = "alert"
    """An alert began to fire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMark:
    """One moment of an application; ``pipeline`` is empty where it is about no application in particular."""

    at_ms: int
    kind: MarkKind
    pipeline: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesGap:
    """A time in which ``source`` was not observed: ``collector``, ``transactions`` or ``partitions``; ``text`` says so."""

    source: str
    from_ms: int
    until_ms: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSeries:
    """One application: a value for each bucket, the oldest first; None where nothing was observed.

    ``waiting``: most consumer groups that waited behind its transactions; ``longest_wait_ms``: of the one that waited longest;
    ``hidden``: most offsets between last stable offset and high watermark, of the partition that hid most; ``lag``: most records
    that a group had not read where the application writes, hidden ones too. ``longest_open_ms``: of its transactions that ended
    or are open, of which ``timeout_ms`` is the newest timeout (0: none ends them). ``checkpoint_ms``: its longest checkpoint,
    and ``checkpoint_p50_ms``: half of those in memory took no longer. ``last_commit_ms``: of its newest commit in memory.
    """

    pipeline: str
    managed: bool
    commits: tuple[int | None, ...]
    aborts: tuple[int | None, ...]
    lost: tuple[int | None, ...]
    waiting: tuple[int | None, ...]
    longest_wait_ms: tuple[int | None, ...]
    hidden: tuple[int | None, ...]
    lag: tuple[int | None, ...]
    longest_open_ms: tuple[int | None, ...]
    checkpoint_ms: tuple[int | None, ...]
    timeout_ms: int | None
    checkpoint_p50_ms: int | None
    last_commit_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """A time in buckets of ``bucket_ms`` from ``from_ms`` on; the last one may not be over yet."""

    now_ms: int
    from_ms: int
    until_ms: int
    bucket_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(TimeAxis):
    """Applications over time; ``more``: how many applications were left out."""

    applications: tuple[ApplicationSeries, ...]
    more: int
    marks: tuple[SeriesMark, ...]
    gaps: tuple[SeriesGap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointGap:
    """A time without a completed checkpoint that is longer than usual; ``ongoing``: none has come since.

    ``observed`` is False where the collector was not there to see one. ``name`` says how long, ``why`` what was seen meanwhile.
    """

    from_ms: int
    until_ms: int
    ongoing: bool
    observed: bool
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailure:
    """A checkpoint that failed, the newest time; ``failures``: how often it did."""

    number: int
    at_ms: int
    failures: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HungCheckpoint:
    """A checkpoint that began and did not end for longer than usual; ``until_ms``: now, or when a later one was completed."""

    number: int
    started_at_ms: int
    until_ms: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointGapsRow:
    """What is wrong with a pipeline's checkpoints over time, each list oldest first; ``usual_ms``: the usual time between two."""

    pipeline: str
    usual_ms: int | None
    gaps: tuple[CheckpointGap, ...]
    failures: tuple[CheckpointFailure, ...]
    hung: tuple[HungCheckpoint, ...]
