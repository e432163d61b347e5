"""States of a transaction, and which may follow which."""

from __future__ import annotations

from enum import Enum

from lifecycle.errors import IllegalTransition


class TransactionState(Enum):
    """Where a transaction stands; each member names what brings it there."""

    OPEN = "open"
    """The first write reached the resource manager (Kafka: Ongoing)."""
    PREPARED = "prepared"
    """Everything is flushed and the handle is known; not yet decided: in doubt."""
    DECIDED = "decided"
    """Listed in a commit decision that counts; it must be committed."""
    COMMITTING = "committing"
    """The resource manager has accepted the commit and is writing its markers (Kafka: PrepareCommit)."""
    COMMITTED = "committed"
    """Visible to read_committed readers (Kafka: CompleteCommit)."""
    ABORTING = "aborting"
    """The resource manager is undoing it (Kafka: PrepareAbort, PrepareEpochFence)."""
    ABORTED = "aborted"
    """Undone before any decision to commit it; its rows will be replayed."""
    LOST = "lost"
    """Undone after it was decided; only a replay of its batch brings the rows back."""
    ENDED = "ended"
    """Its coordinator has gone on to something else under its id: it was committed or aborted, and which was not seen."""

    @property
    def is_final(self) -> bool:
        """True when nothing can follow."""
        return self in FINAL

    @property
    def is_in_doubt(self) -> bool:
        """True between prepare and the resource manager's own completion."""
        return self in IN_DOUBT


_S = TransactionState

PREDECESSORS: dict[TransactionState, frozenset[TransactionState | None]] = {
    _S.OPEN: frozenset({None}),
    _S.PREPARED: frozenset({_S.OPEN, None}),
    _S.DECIDED: frozenset({_S.PREPARED, _S.OPEN, None}),
    _S.COMMITTING: frozenset({_S.OPEN, _S.PREPARED, _S.DECIDED, None}),
    _S.COMMITTED: frozenset({_S.OPEN, _S.PREPARED, _S.DECIDED, _S.COMMITTING, None}),
    _S.ABORTING: frozenset({_S.OPEN, _S.PREPARED, _S.DECIDED, None}),
    _S.ABORTED: frozenset({_S.OPEN, _S.PREPARED, _S.ABORTING, None}),
    _S.LOST: frozenset({_S.DECIDED, _S.ABORTING, None}),
    _S.ENDED: frozenset({_S.OPEN, _S.PREPARED, None}),
}
"""Legal predecessors of each state. None: an observer may join late and see a transaction in any state first."""

FINAL = frozenset({_S.COMMITTED, _S.ABORTED, _S.LOST, _S.ENDED})
IN_DOUBT = frozenset({_S.PREPARED, _S.DECIDED})


def may_follow(from_: TransactionState | None, to: TransactionState) -> bool:
    """Say whether a transaction in state ``from_`` (None: never seen) may move to ``to``."""
    return from_ in PREDECESSORS[to]


def follow(transaction: str, from_: TransactionState | None, to: TransactionState) -> TransactionState:
    """Return ``to``. Raises IllegalTransition when it may not follow ``from_``."""
    if not may_follow(from_, to):
        raise IllegalTransition(transaction, from_, to)
    return to
