"""Current state rebuilt from history: read without the state's lock, then put into it at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from collector import history_observations, queries
from collector.facts import BrokerTransaction, Init
from collector.fold import apply, put_init, put_transaction
from collector.fold_columns import put_events
from collector.id_leaks import KnownIds
from collector.lifecycle_batch import EventColumns
from collector.observations import Observation
from collector.state import State
from collector.store import Store
from lifecycle.errors import MalformedRecord

DECISIONS_LOADED = 200_000
EVENTS_LOADED = 5
"""Lifecycle events that are loaded for each settled transaction that is kept: as many are told of one."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What history has of current state. ``sources``: observations in the order in which they are folded."""

    transactions: Iterable[BrokerTransaction]
    inits: Iterable[tuple[str, Init]]
    told: EventColumns
    sources: tuple[Iterable[Observation], ...]
    ids: KnownIds
    events: int
    malformed: int

    def put_into(self, state: State) -> None:
        """Fold it into an empty state; one record of the past that is refused now must not keep the collector from starting."""
        for transaction in self.transactions:
            put_transaction(state, transaction)
        for transaction_id, init in self.inits:
            put_init(state, transaction_id, init)
        put_events(state, self.told)
        for source in self.sources:
            for observation in source:
                try:
                    apply(state, observation)
                except MalformedRecord as error:
                    # An earlier version took it.
                    log.warning("an observation in history is left out: %s", error)
        state.events, state.malformed = self.events, self.malformed
        # Counted over all of history, in its order: what was applied above is a part of it.
        state.ids = self.ids
        state.committed = state.rolled_back = 0


def read_kept(store: Store, settled_kept: int, checkpoints_kept: int) -> Kept:
    """Return what history has of current state. Raises HistoryDamaged, StoreFailed."""
    rows, kept, checkpoints = store.rows, settled_kept, checkpoints_kept * 4
    sources: tuple[Iterable[Observation], ...] = (
        history_observations.lifecycle_events(rows(queries.PIPELINE_EVENTS)),
        history_observations.lifecycle_events(rows(queries.CHECKPOINT_EVENTS, checkpoints)),
        history_observations.decision_records(rows(queries.DECISIONS_OF_CURRENT_STATE, DECISIONS_LOADED)),
        history_observations.checkpoint_files(rows(queries.CHECKPOINT_FILES, checkpoints)),
        history_observations.branches(rows(queries.BRANCHES_OF_CURRENT_STATE, kept)),
        history_observations.operator_orders(rows(queries.ORDERS_CARRIED_OUT, kept)),
        history_observations.flink_checkpoints(rows(queries.FLINK_CHECKPOINTS, checkpoints)),
        history_observations.flink_jobs(rows(queries.FLINK_JOBS, checkpoints)),
        history_observations.transaction_offsets(rows(queries.OFFSETS_OF_TRANSACTIONS, kept)),
    )
    texts = [text.encode() for _, _, text in rows(queries.EVENTS_OF_CURRENT_STATE, EVENTS_LOADED * kept)]
    told, odd = history_observations.events_in_columns(texts)
    ((events,),), ((malformed,),) = rows(queries.EVENTS_FOLDED), rows(queries.MALFORMED_COUNT)
    ids = KnownIds()
    for id_, first_ms, last_ms in store.rows_in_parts(queries.KNOWN_IDS):
        ids.see(id_, last_ms, created_ms=first_ms)
    return Kept(
        transactions=history_observations.transactions(rows(queries.TRANSACTIONS_OF_CURRENT_STATE, kept)),
        inits=history_observations.inits(rows(queries.INITS_OF_CURRENT_STATE, kept)),
        told=told,
        sources=(odd, *sources),
        ids=ids,
        events=events,
        malformed=malformed,
    )
