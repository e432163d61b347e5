"""What was undone, why, and whether data was lost with it; asked of current state, and of history for what has left memory."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

from collector import id_leaks, losses, newest_transactions, transaction_joins
from collector.abort_causes import AbortClues, Cause, infer
from collector.clock import now_ms
from collector.current_state import CurrentState
from collector.data_loss import COMMITTED, UNDONE, Loss
from collector.facts import BrokerIdentity
from collector.id_leaks import PrefixReport
from collector.newest_transactions import EndPlace
from collector.rollups import Aborted
from collector.store import Store, StoreFailed
from collector.transaction_view import TransactionView
from lifecycle.states import TransactionState

EVERY = 1 << 40
"""More than memory holds: no limit."""
FLUSH_LIMIT_S = 2.0
_DONE = (TransactionState.ABORTED, TransactionState.LOST)


def abort_clues(
    current: CurrentState, since_ms: int = 0, *, most: int = EVERY, before: EndPlace | None = None
) -> tuple[list[AbortClues], int]:
    """Return up to ``most`` transactions that were aborted or lost, newest first, with what may tell why.

    And how many more there are. ``since_ms``: those that ended since; ``before``: those behind that place.
    """
    with current.reading() as state:
        found = newest_transactions.ended(state, _DONE, most=most, before=before, since_ms=since_ms)
        return [losses.clues(state, view) for view in found.views], found.more


def causes(current: CurrentState, aborted: Sequence[Aborted]) -> list[str]:
    """Return why each of these was aborted, as far as memory tells: ``unknown`` for one that has left it."""
    identities = [BrokerIdentity(*one) for one in aborted]
    with current.reading() as state:
        known = [identity for identity in identities if identity in state.broker]
        clues = {one: losses.clues(state, transaction_joins.at_coordinator(state, one)) for one in known}
    found = (clues.get(identity) for identity in identities)
    return [(infer(one)[0] if one is not None else Cause.UNKNOWN).value for one in found]


def losses_in_memory(
    current: CurrentState,
    *,
    committed: bool = False,
    since_ms: int = 0,
    most: int = EVERY,
    before: EndPlace | None = None,
) -> tuple[list[Loss], int]:
    """Return whether data was lost with each of the newest ``most`` transactions in memory that were undone, newest first.

    And how many more there are. ``committed``: also those that were committed; ``since_ms``: those that ended since;
    ``before``: those behind that place.
    """
    wanted, sight = (*COMMITTED, *UNDONE) if committed else UNDONE, current.decision_log_sight[0]
    with current.reading() as state:
        found = newest_transactions.ended(state, wanted, most=most, before=before, since_ms=since_ms)
        material = losses.material(state, sight, found.views)
    return losses.judged(material), found.more


def losses_in_history(
    current: CurrentState,
    store: Store,
    transaction: str,
    *,
    since_ms: int = 0,
    most: int = EVERY,
    before: EndPlace | None = None,
) -> tuple[list[Loss], int]:
    """Return the same for every transaction of one id that history knows, committed ones too. Raises StoreFailed."""
    # What was seen a moment ago is in memory alone. Where history cannot be written now, what it has is told.
    with contextlib.suppress(StoreFailed):
        store.flushed(FLUSH_LIMIT_S)
    with current.reading() as state:
        prefixes = state.ledger.prefixes()
    past = losses.past_of(transaction, store.rows, prefixes)
    wanted, sight = (*COMMITTED, *UNDONE), current.decision_log_sight[0]
    with current.reading() as state:
        losses.share(past, state)
        found = newest_transactions.ended(
            past, wanted, most=most, before=before, since_ms=since_ms, transaction=transaction
        )
        material = losses.material(past, sight, found.views)
    return losses.judged(material), found.more


def loss(current: CurrentState, view: TransactionView) -> Loss | None:
    """Return the same for one transaction; None while it has not ended."""
    with current.reading() as state:
        material = losses.material(state, current.decision_log_sight[0], [view])
    return next(iter(losses.judged(material)), None)


def id_reports(current: CurrentState, *, fences: bool = True) -> list[PrefixReport]:
    """Return what there is to say about the transactional ids of each prefix, most ids first.

    Without ``fences`` nobody is looked for who takes ids from others: that is what takes time.
    """
    at_ms = now_ms()
    recent = abort_clues(current, at_ms - id_leaks.HOUR_MS)[0] if fences else []
    fenced = Counter(id_leaks.prefix_of(clues.view.transaction) for clues in recent if infer(clues)[0] is Cause.FENCED)
    with current.reading() as state:
        lives = {prefix: state.ledger.lives(prefix) for prefix in state.ledger.prefixes()}
        return list(id_leaks.reports(state.ids, lives, fenced, at_ms))
