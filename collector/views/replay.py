"""Current state rebuilt from history: read without the state's lock, then put into it at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from indoubt.collector.facts.eviction import trim_checkpoints
from indoubt.collector.facts.fold import apply, put_events, put_init, put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transactional_ids import KnownIds
from indoubt.collector.history import observation_tables, row_decoding, sql, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import KAFKA, BrokerIdentity, BrokerTransaction, Init
from indoubt.collector.records.formats.lifecycle_event_batch import EventColumns
from indoubt.collector.records.observations import Observation
from indoubt.lifecycle.decisions import Decision
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.identity import Handle

DECISIONS_LOADED = 200_000
DECISIONS_OF_EACH = 1_000
"""The newest records of each prefix: it may have been idle while others wrote more than is loaded."""
EVENTS_LOADED = 5
"""Lifecycle events that are loaded for each settled transaction that is kept: as many are reported of one."""
ABORTED_LOADED = 10_000
"""How many aborted transactions of pipelines are looked at, the newest."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What history has of current state. ``sources``: observations in the order in which they are folded."""

    transactions: Iterable[BrokerTransaction]
    lost: Iterable[BrokerTransaction]
    """Of those that are behind the newest: what may be lost, and what may have replayed it."""
    lost_branches: Sequence[str]
    """The same of branches in databases; what was seen of them is in ``sources``."""
    inits: Iterable[tuple[str, Init]]
    reported: EventColumns
    sources: tuple[Iterable[Observation], ...]
    ids: KnownIds
    events: int
    malformed: int
    newer_decision: str
    """Which decision in history a newer collector wrote, empty where none: without it the log may not be trusted."""

    def put_into(self, state: State) -> None:
        """Fold it into an empty state; one record of the past that is refused now must not keep the collector from starting."""
        ends: list[int] = []
        last_ms = 0
        for transaction in self.transactions:
            put_transaction(state, transaction)
            if transaction.is_final and transaction.ended_ms is not None:
                ends.append(transaction.ended_ms)
            last_ms = max(last_ms, transaction.identity.start_ms, transaction.ended_ms or 0)
        # History may have more behind the newest that are loaded.
        state.ended.evicted_until_ms = min(ends, default=0)
        # It also has some whose end was never seen, and which a later one of their id followed: these are not loaded.
        state.ended.dropped_until_ms = last_ms
        for transaction in self.lost:
            put_transaction(state, transaction)
            state.ended.told_by_history.add(transaction.identity)
        state.ended.branches_told_by_history.update(self.lost_branches)
        for transaction_id, init in self.inits:
            put_init(state, transaction_id, init)
        put_events(state, self.reported)
        for source in self.sources:
            for observation in source:
                try:
                    apply(state, observation)
                except MalformedRecord as error:
                    log.warning("an observation in history is left out: %s", error)
        state.events, state.malformed, state.newer_decision = self.events, self.malformed, self.newer_decision
        # Several events are read for each checkpoint that is kept, as there may be so many.
        trim_checkpoints(state)
        # Counted over all of history, in its order: what was applied above is a part of it.
        state.ids = self.ids
        state.ends.committed = state.ends.rolled_back = 0
        state.ends.take()
        state.ended.told_by_history.clear()
        state.ended.branches_told_by_history.clear()


def read_kept(store: Store, settled_kept: int, checkpoints_kept: int) -> Kept:
    """Return what history has of current state. Raises HistoryDamaged, StoreFailed."""
    rows, kept, checkpoints = store.rows, settled_kept, checkpoints_kept * 4
    lost = lost_in_history(store)
    topics, offsets = [source for source, _ in lost.decisions], [offset for _, offset in lost.decisions]
    decided, newer = row_decoding.decision_records(
        rows(sql.DECISIONS_OF_CURRENT_STATE, DECISIONS_LOADED, DECISIONS_OF_EACH, topics, offsets)
    )
    sources: tuple[Iterable[Observation], ...] = (
        row_decoding.lifecycle_events(rows(sql.PIPELINE_EVENTS)),
        decided,
        observation_tables.CHECKPOINT_FILES.observations(rows(sql.CHECKPOINT_FILES, checkpoints)),
        observation_tables.PREPARED_BRANCHES.observations(_rows_of_branches(store, kept, lost.branches)),
        row_decoding.operator_orders(rows(sql.ORDERS_CARRIED_OUT, kept)),
        observation_tables.FLINK_CHECKPOINTS.observations(rows(sql.FLINK_CHECKPOINTS, checkpoints)),
        observation_tables.FLINK_JOBS.observations(rows(sql.FLINK_JOBS, checkpoints)),
        observation_tables.TRANSACTION_OFFSETS.observations(rows(sql.OFFSETS_OF_TRANSACTIONS, kept)),
    )
    found = rows(sql.EVENTS_OF_CURRENT_STATE, EVENTS_LOADED * kept) + rows(sql.CHECKPOINT_EVENTS, checkpoints)
    reported, odd = row_decoding.events_in_columns([text.encode() for _, _, text in found])
    ((events,),), ((malformed,),) = rows(sql.EVENTS_FOLDED), rows(sql.QUARANTINED_COUNT)
    ids = KnownIds()
    for id_, first_ms, last_ms in store.rows_in_parts(sql.KNOWN_IDS):
        ids.see(id_, last_ms, created_ms=first_ms)
    return Kept(
        transactions=row_decoding.transactions(rows(sql.TRANSACTIONS_OF_CURRENT_STATE, kept)),
        lost=row_decoding.transactions_of(rows, lost.identities),
        lost_branches=lost.branches,
        inits=row_decoding.inits(rows(sql.INITS_OF_CURRENT_STATE, kept)),
        reported=reported,
        sources=(odd, *sources),
        ids=ids,
        events=events,
        malformed=malformed,
        newer_decision=newer,
    )


def _rows_of_branches(store: Store, kept: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
    known = store.rows(sql.BRANCHES_OF_CURRENT_STATE, kept)
    return known + store.rows(transaction_sql.BRANCHES_OF_NAMES, list(names)) if names else known


@dataclass(frozen=True, slots=True, kw_only=True)
class LostInHistory:
    """Transactions, branches and records of the decision log that the present state needs besides the newest of each."""

    identities: Sequence[BrokerIdentity] = ()
    branches: Sequence[str] = ()
    decisions: Sequence[tuple[str, int]] = ()
    """Topic and offset of each."""


def lost_in_history(store: Store) -> LostInHistory:
    """Return what was decided and undone, with the decisions that say so and the last ones of the same checkpoint ids.

    Raises HistoryDamaged, StoreFailed.
    """
    decided = store.rows(transaction_sql.DECIDED_AND_ABORTED, ABORTED_LOADED)
    if not decided:
        return LostInHistory()
    names, producer_ids, starts, sources, offsets, prefixes, checkpoint_ids = map(list, zip(*decided, strict=True))
    # A later decision of the checkpoint id tells that the batch was replayed: of the same batch, once all of it is committed.
    last = store.rows(transaction_sql.LAST_DECISIONS, prefixes, checkpoint_ids, min(offsets))
    again = [handle for *_, record in last for handle in _handles(record)]
    of_kafka = [handle for handle in again if handle.resource_manager == KAFKA]
    rows = store.rows(transaction_sql.IDENTITIES_OF_HANDLES, *_columns(of_kafka)) if of_kafka else []
    known = [BrokerIdentity(*each) for each in zip(names, producer_ids, starts, strict=True)]
    branches = [name for name, producer_id, _ in known if producer_id == transaction_sql.BRANCH]
    return LostInHistory(
        identities=list(dict.fromkeys([*(each for each in known if each.producer_id != transaction_sql.BRANCH),
                                       *(BrokerIdentity(*row) for row in rows)])),
        branches=list(dict.fromkeys([*branches, *(h.transaction for h in again if h.resource_manager != KAFKA)])),
        decisions=list(dict.fromkeys([*zip(sources, offsets, strict=True), *((source, at) for source, at, _ in last)])),
    )  # fmt: skip


def _handles(record: str) -> Sequence[Handle]:
    seen, _ = row_decoding.decision_records([(0, 0, record, True)])
    return [handle for each in seen if isinstance(each.record, Decision) for handle in each.record.handles]


def _columns(handles: Sequence[Handle]) -> tuple[list[Any], ...]:
    return (
        [handle.transaction for handle in handles],
        [handle.producer_id for handle in handles],
        [handle.producer_epoch for handle in handles],
    )
