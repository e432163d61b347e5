"""States of a transaction."""

from __future__ import annotations

from enum import Enum


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
    WRITTEN_AGAIN = "lost, then written again"
    """Lost, and its batch was completed since: its rows are there."""
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


ROLLED_BACK = frozenset({TransactionState.ABORTED, TransactionState.LOST, TransactionState.WRITTEN_AGAIN})
FINAL = ROLLED_BACK | {TransactionState.COMMITTED, TransactionState.ENDED}
IN_DOUBT = frozenset({TransactionState.PREPARED, TransactionState.DECIDED})
