"""Rows of GET /restores: what a Flink job would lose or write twice if it were restored from one of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.verdicts import Certainty


class AfterRestore(Enum):
    """What becomes of a transaction that does not simply stay as it is."""

    LOST = "lost"
    """The checkpoint lists it, and it was undone: its rows are in no sink and are not written again."""
    TWICE = "twice"
    """It is committed, and was written behind the checkpoint: its rows are written again."""
    COMMITTED_BY_IT = "committed by the restore"
    """The checkpoint lists it, and it is open: the restore commits it, if it comes before its timeout."""
    ROLLED_BACK = "rolled back"
    """It is open, and was written behind the checkpoint: its rows are written again. A commit by hand would double them."""
    UNKNOWN = "unknown"
    """How it ended was not seen, or whether it was written before the checkpoint is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRow:
    """One retained checkpoint or savepoint of a Flink job, and what a restore from it would do. Counts are transactions.

    ``is_safe``: nothing would be lost or written twice, as far as is known. ``advice``: what to do first. ``doubts``: why it may
    be otherwise. ``deadline_ms``: when the first of ``commits`` times out (epoch ms). ``keys``: the first hundred of each kind.
    """

    pipeline: str
    cluster: str
    job: str
    checkpoint: int
    path: str
    kind: str | None
    written_at_ms: int
    is_newest: bool
    is_safe: bool
    certainty: Certainty
    lost: int
    twice: int
    commits: int
    rolled_back: int
    unknown: int
    deadline_ms: int | None
    advice: str
    doubts: tuple[str, ...]
    keys: dict[str, tuple[str, ...]]
