"""The answer of GET /status."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.orders import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverRow:
    """One source that the collector observes; ``delay_ms`` is the age of its last successful poll."""

    name: str
    state: str
    delay_ms: int | None
    since_ms: int
    error: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatus:
    """Why history cannot be written (empty while it can), rows that are not on disk yet, damaged files that were renamed.

    ``archived_until_ms``: the time before which everything is in the archive, None without one; ``archive_error``: why nothing
    more gets there, empty while it does.
    """

    error: str
    waiting: int
    set_aside: tuple[str, ...]
    archived_until_ms: int | None = None
    archive_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The collector, and the caller's ``name`` and ``role``; ``quarantined``, ``events`` and ``lost_forgotten`` are counts.

    ``cluster`` is the id that Kafka gave it, ``cluster_name`` what its collector was told to call it, or empty.
    ``standby_of``: the address of the collector that leads instead of this one; empty where this one leads, or is alone.
    ``lost_forgotten``: lost transactions that left memory before their batch was replayed, since there were too many of them.
    """

    now_ms: int
    cluster: str
    cluster_name: str
    bootstrap: str
    name: str
    role: Role
    read_only: bool
    quarantined: int
    events: int
    lost_forgotten: int
    history: HistoryStatus
    observers: tuple[ObserverRow, ...]
    standby_of: str = ""

    @property
    def may_order(self) -> bool:
        """True when this token may give orders to this collector."""
        return self.role is Role.OPERATOR and not self.read_only
