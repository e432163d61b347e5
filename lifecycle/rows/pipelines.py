"""Rows of GET /pipelines, /checkpoints, /jobs, /timeouts and /ids."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.checkpoints import CheckpointState


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartUnderWay:
    """A restart that was ordered or reported, and whose new run has not committed yet.

    ``run``: that run's number, None before it has begun. ``usually_ms``: the median of the measured ones, None without any.
    """

    since_ms: int
    run: int | None
    usually_ms: int | None


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
class CheckpointRow:
    """One checkpoint and what it committed; ``job`` is Flink's job id."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRestore:
    """A restore of a job from a checkpoint."""

    checkpoint: int
    at_ms: int


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
    restores: tuple[JobRestore, ...]
    restored_from: int | None
    restored_at_ms: int | None
    restored_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutRow:
    """One application of the last 24 hours: its timeout, how long its transactions were open, and what a restart needs."""

    pipeline: str
    managed: bool
    risk: str
    advice: str
    timeout_ms: int
    left_ms: int | None
    recovery_ms: int
    recovery: str
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
    """The transactional ids of one prefix: how many, how they grow, which were never used again."""

    prefix: str
    ids: int
    growth_per_hour: float
    stale_ids: int
    leaks: bool
    shared: bool
    why: str
    checkpoint_ids: int
    fenced_last_hour: int
    newest_at_ms: int
    oldest_at_ms: int
    example: str
