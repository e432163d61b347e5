"""The answer of GET /overview."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.rows.incidents import Incident
from indoubt.lifecycle.rows.pipelines import RestartUnderWay


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewCounts:
    """How many transactions, groups that wait, and transactions that hang."""

    open: int
    prepared: int
    committed_per_minute: int
    aborted_per_minute: int
    waiting_groups: int
    hanging: int


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
    """The state of everything.

    ``incidents``: those that need a person, by deadline, then severity, then age; then those that go on by themselves; then
    those that are over. ``all_well_since_ms``: since when none lasts, every pipeline shows life and every observer sees its
    source, None while that is not so. ``awaited``: the pipelines that show none, of no incident. ``observers`` counts the
    sources that exist. ``in_progress``: the oldest first. These lists may be cut; ``incidents_total`` counts those that last,
    ``in_progress_total`` says how long that list is.
    """

    now_ms: int
    counts: OverviewCounts
    oldest_open_at_ms: int | None
    incidents: tuple[Incident, ...]
    incidents_total: int
    to_act: int
    """How many of them need a person."""
    alerting: int
    """How many of them an alert fires about: one that is silenced, or is not found any more, does not count."""
    all_well_since_ms: int | None
    awaited: tuple[AwaitedPipeline, ...]
    pipelines_alive: int
    observers_up: int
    observers: int
    in_progress: tuple[InProgress, ...]
    in_progress_total: int
