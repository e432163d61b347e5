"""The answer of GET /overview."""

from __future__ import annotations

from dataclasses import dataclass

from lifecycle.rows.attention import Attention
from lifecycle.rows.pipelines import RestartUnderWay
from lifecycle.verdicts import Certainty, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequired:
    """Transactions of one batch, or one foreign transaction, that an operator must look at; ``headline`` is one sentence.

    ``certainty``: that of the least sure of them.
    A list that is cut says its whole length in the field of its name and ``_total``.
    """

    verdict: Verdict
    certainty: Certainty
    pipeline: str
    batch: int | None
    keys: tuple[str, ...]
    rows: int | None
    decided_at_ms: int | None
    deadline_ms: int | None
    headline: str
    partitions: tuple[str, ...]
    keys_total: int | None = None
    partitions_total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewCounts:
    """How many transactions, partitions where groups wait, and groups that wait."""

    open: int
    prepared: int
    committed_per_minute: int
    aborted_per_minute: int
    blocked_partitions: int
    waiting_groups: int
    hanging: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteRow:
    """How many transactions ended in one minute, by outcome."""

    minute_ms: int
    committed: int
    aborted: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFigures:
    """How long completed checkpoints took, how many failed, and how many are known."""

    p50_ms: int | None
    p99_ms: int | None
    failed: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgress:
    """The open transactions of one application that go on by themselves; ``timeout_ms``: of the oldest of them."""

    pipeline: str
    transactions: int
    oldest_opened_at_ms: int | None
    timeout_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedPipeline:
    """A pipeline of ours that shows no life now and is not counted as wrong yet: it is silent, or it restarts.

    ``silent_since_ms``: its last sign, where others were expected since. ``counted_after_ms``: after so long it counts as
    frozen, silent or failed.
    """

    pipeline: str
    silent_since_ms: int | None
    counted_after_ms: int | None
    restart: RestartUnderWay | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of everything; ``quiet_since_ms``: since when no action was required, None while one is.

    ``attention``: by deadline, then severity, then age. ``all_well_since_ms``: since when that list is empty, every pipeline
    shows life and every observer sees its source, None while that is not so. ``awaited``: the pipelines that show none.
    ``observers`` counts the sources that exist. ``in_progress``: the oldest first. These lists may be cut; ``attention_total``
    and ``in_progress_total`` say how long they are.
    """

    now_ms: int
    action_required: tuple[ActionRequired, ...]
    counts: OverviewCounts
    oldest_open_at_ms: int | None
    quiet_since_ms: int | None
    attention: tuple[Attention, ...]
    attention_total: int
    alerts_firing: int
    """Those that are silenced left out."""
    all_well_since_ms: int | None
    awaited: tuple[AwaitedPipeline, ...]
    pipelines_alive: int
    observers_up: int
    observers: int
    in_progress: tuple[InProgress, ...]
    in_progress_total: int
    per_minute: tuple[MinuteRow, ...]
    checkpoints: CheckpointFigures
