"""Parts of incidents: whatever needs attention, of transactions, pipelines, readers and observers alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.verdicts import Certainty, Verdict


class AttentionKind(Enum):
    """What a part is about; the value is the API's word."""

    TRANSACTIONS = "transactions"
    PIPELINE = "pipeline"
    READERS = "readers"
    OBSERVER = "observer"


class Remedy(Enum):
    """What a person does about it; the value is the API's word."""

    COMMIT = "commit"
    ABORT = "abort"
    RESTART = "restart"
    """Order the pipeline's supervisor to start the next run."""
    START = "start"
    """Start a pipeline whose supervisor has ended."""
    OPEN = "open"
    """No order helps from here: look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """A consumer group that waits: on how many partitions, since when, and its lag on these together."""

    group: str
    lag: int | None
    since_ms: int | None
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One thing that needs a person. ``key`` names it while it lasts; ``headline`` and ``consequence`` are one sentence each.

    ``group``: the incident that it is a part of. ``badge``: the verdict; ``frozen`` (no sign in the middle of a batch),
    ``stuck`` (runs, and its batch makes no progress), ``silent`` (not back from a restart, or says no more that it runs),
    ``failed``; ``waiting``, ``stalled``; ``down``, ``starting``, ``silent``, ``not written`` (history). ``certainty``: of the
    verdict, that of its least sure transaction. ``severity``: critical or warning. ``pipeline``: the application's name, or
    empty. ``keys``: of transactions. ``waits``: who waits behind it, the longest first. ``consequence``: what happens if nobody
    acts, at ``deadline_ms`` where there is one. ``target``: a pipeline's key to restart or start, else what there is to open: a
    topic-partition, a pipeline's key or an observer's name; empty where ``keys`` say it. A list that is cut says its whole
    length in the field of its name and ``_total``.
    """

    key: str
    kind: AttentionKind
    group: str
    badge: str
    verdict: Verdict | None
    certainty: Certainty | None
    severity: str
    pipeline: str
    batch: int | None
    keys: tuple[str, ...]
    headline: str
    waits: tuple[WaitingGroup, ...]
    since_ms: int | None
    deadline_ms: int | None
    consequence: str
    remedy: Remedy
    target: str
    rows: int | None
    partitions: tuple[str, ...]
    keys_total: int | None = None
    waits_total: int | None = None
    partitions_total: int | None = None
