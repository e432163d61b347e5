"""Classified answers of a resource manager to an order about one prepared transaction."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.identity import Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """This very order committed it (or a retry of it did: Kafka answers both alike)."""

    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyCommitted:
    """The marker proves that it had been committed before this order."""

    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The resource manager aborted it: its rows are gone until the batch is replayed."""

    handle: Handle
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLater:
    """No final answer yet (coordinator moving, broker gone): the same order may be given again."""

    handle: Handle
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Marker and id are both gone: the outcome is not known; never treated as lost."""

    handle: Handle
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """It is aborted now (or was before)."""

    handle: Handle


CommitOutcome = Committed | AlreadyCommitted | Lost | RetryLater | Unknown
RollbackOutcome = RolledBack | AlreadyCommitted | RetryLater | Unknown
