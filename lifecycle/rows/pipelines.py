"""Rows of GET /pipelines, /checkpoints, /jobs, /timeouts and /ids."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.checkpoints import CheckpointState


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartUnderWay:
    """A restart that was ordered or reported, and whose new run has not committed yet.

    ``run``: that run's number, None before it has begun. ``usually_ms``: the median of the measured ones, None without any.
    ``who`` ordered it; empty: its supervisor restarts it by itself.
    """

    since_ms: int
    run: int | None
    usually_ms: int | None
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRow:
    """A pipeline and its newest run: ``attempt`` is that run's number, ``state`` what it reported last.

    ``may_start``: it gives no sign that it runs, and the collector has a command that starts it. ``restart``: the one that goes
    on; it needs no other.
    """

    key: str
    pipeline: str
    checkpoint_id: str
    attempt: int
    state: str
    run_at_ms: int
    started_at_ms: int | None
    last_seen_at_ms: int | None
    last_heartbeat: str
    interval_ms: int | None
    source: str | None
    sink: str | None
    may_start: bool | None
    restart: RestartUnderWay | None
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommitsRow:
    """How many commits a checkpoint announces of one sink of a Flink job.

    ``kind``: kafka, jdbc, files, iceberg, paimon; unknown: how its committables are to be read is not known, only how many there
    are.
    ``visible``, ``hidden``, ``missing``: how many of its files the store had so at the last look; null where they are no files.
    """

    sink: str
    kind: str
    commits: int
    visible: int | None
    hidden: int | None
    missing: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """One checkpoint and what it committed; ``job`` is Flink's job id, ``sinks`` what its sinks announce where that was read."""

    pipeline: str
    number: int
    state: CheckpointState
    started_at_ms: int | None
    ended_at_ms: int | None
    duration_ms: int | None
    transactions: int | None
    rows: int | None
    source: str
    kind: str
    reason: str
    state_bytes: int | None
    job: str
    path: str
    sinks: tuple[SinkCommitsRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDurationsRow:
    """How long a pipeline's completed checkpoints took (ms), those that ended from ``from_ms`` to before ``until_ms``.

    ``known_from_ms``: what was before it is not in memory. The lists have a value for each bucket of ``bucket_ms``, the oldest
    first; None where none ended.
    """

    pipeline: str
    from_ms: int
    until_ms: int
    bucket_ms: int
    known_from_ms: int
    completed: int
    p50_ms: int | None
    p99_ms: int | None
    longest_ms: int | None
    bucket_completed: tuple[int, ...]
    bucket_p50_ms: tuple[int | None, ...]
    bucket_longest_ms: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job of Flink; ``restored_from``: the checkpoint of its newest restore, None where there was none."""

    cluster: str
    job: str
    name: str
    pipeline: str
    state: str
    started_at_ms: int | None
    ended_at_ms: int | None
    restarts: int | None
    restored_from: int | None
    restored_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRestart:
    """A restart of a pipeline that is over: the run that it led to, when that one first committed, and how long it took."""

    run: int
    committed_at_ms: int
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutRow:
    """One application of the last 24 hours: its timeout, how long its transactions were open, and what a restart needs.

    ``restarts``: those that were measured, the oldest first.
    """

    pipeline: str
    managed: bool
    risk: str
    advice: str
    timeout_ms: int
    left_ms: int | None
    recovery_ms: int
    recovery: str
    restarts: tuple[MeasuredRestart, ...]
    transactions: int
    timed_out: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    longest_ms: int | None
    longest_transaction: str | None
    open: int
    oldest_key: str | None
    oldest_opened_at_ms: int | None
    oldest_deadline_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsRow:
    """The transactional ids of one prefix: how many, how they grow, which were never used again.

    ``ids_by_hour``: how many there were at the end of each of the last 24 hours, the oldest first; the last one is not over.
    """

    prefix: str
    ids: int
    growth_per_hour: float
    ids_by_hour: tuple[int, ...]
    stale_ids: int
    leaks: bool
    shared: bool
    why: str
    checkpoint_ids: int
    fenced_last_hour: int
    newest_at_ms: int
    oldest_at_ms: int
    example: str
