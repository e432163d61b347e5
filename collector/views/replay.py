"""Current state rebuilt from history, when the collector starts."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from indoubt.collector.facts.eviction import trim
from indoubt.collector.facts.fold import apply, put_events, put_init, put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transactional_ids import KnownIds
from indoubt.collector.history import observation_tables, row_coding, sql, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import KAFKA, BrokerIdentity, BrokerTransaction, handle_identity
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


def load(store: Store, state: State) -> None:
    """Fold what history has of current state into an empty one. Raises HistoryDamaged, StoreFailed.

    One record of the past that is refused now must not keep the collector from starting.
    """
    rows, kept, checkpoints = store.rows, state.ended.kept, state.checkpoints_kept * 4
    lost = lost_in_history(store)
    # What makes one of them lost, or its batch replayed, is folded after it: until then nothing leaves.
    state.ended.kept += len(lost.identities) + len(lost.branches)
    _put_transactions(state, row_coding.transactions(rows(sql.TRANSACTIONS_OF_CURRENT_STATE, kept)))
    for transaction in row_coding.transactions_of(rows, lost.identities):
        put_transaction(state, transaction)
    for transaction_id, init in row_coding.inits(rows(sql.INITS_OF_CURRENT_STATE, kept)):
        put_init(state, transaction_id, init)
    found = rows(sql.EVENTS_OF_CURRENT_STATE, EVENTS_LOADED * kept) + rows(sql.CHECKPOINT_EVENTS, checkpoints)
    reported, odd = row_coding.events_in_columns([text.encode() for _, _, text in found])
    put_events(state, reported)
    topics, offsets = [source for source, _ in lost.decisions], [offset for _, offset in lost.decisions]
    decided, state.newer_decision = row_coding.decision_records(
        rows(sql.DECISIONS_OF_CURRENT_STATE, DECISIONS_LOADED, DECISIONS_OF_EACH, topics, offsets)
    )
    sources: tuple[Iterable[Observation], ...] = (
        odd,
        row_coding.lifecycle_events(rows(sql.PIPELINE_EVENTS)),
        # Before the decisions about them, so that they are known to be lost.
        observation_tables.PREPARED_BRANCHES.observations(_rows_of_branches(store, kept, lost.branches)),
        decided,
        observation_tables.CHECKPOINT_FILES.observations(rows(sql.CHECKPOINT_FILES, checkpoints)),
        row_coding.operator_orders(rows(sql.ORDERS_CARRIED_OUT, kept)),
        observation_tables.FLINK_CHECKPOINTS.observations(rows(sql.FLINK_CHECKPOINTS, checkpoints)),
        observation_tables.FLINK_JOBS.observations(rows(sql.FLINK_JOBS, checkpoints)),
        observation_tables.TRANSACTION_OFFSETS.observations(rows(sql.OFFSETS_OF_TRANSACTIONS, kept)),
    )
    for observation in itertools.chain.from_iterable(sources):
        try:
            apply(state, observation)
        except MalformedRecord as error:
            log.warning("an observation in history is left out: %s", error)
    state.ended.kept = kept
    # Several events are read for each checkpoint that is kept, as there may be so many.
    trim(state)
    _count(store, state)


def _put_transactions(state: State, newest: Iterable[BrokerTransaction]) -> None:
    ends: list[int] = []
    last_ms = 0
    for transaction in newest:
        put_transaction(state, transaction)
        if transaction.is_final and transaction.ended_ms is not None:
            ends.append(transaction.ended_ms)
        last_ms = max(last_ms, transaction.identity.start_ms, transaction.ended_ms or 0)
    # History may have more behind the newest that are loaded.
    state.ended.evicted_until_ms = min(ends, default=0)
    # It also has some whose end was never seen, and which a later one of their id followed: these are not loaded.
    state.ended.dropped_until_ms = last_ms


def _count(store: Store, state: State) -> None:
    """Count over all of history, in its order: what was folded is a part of it."""
    ((state.events,),), ((state.malformed,),) = store.rows(sql.EVENTS_FOLDED), store.rows(sql.QUARANTINED_COUNT)
    state.ids = KnownIds()
    for id_, first_ms, last_ms in store.rows_in_parts(sql.KNOWN_IDS):
        state.ids.see(id_, last_ms, created_ms=first_ms)
    state.ends.committed = state.ends.rolled_back = 0
    state.ends.take()


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
    of_kafka = [handle_identity(handle) for handle in again if handle.resource_manager == KAFKA]
    known = [BrokerIdentity(*each) for each in zip(names, producer_ids, starts, strict=True)]
    branches = [name for name, producer_id, _ in known if producer_id == transaction_sql.BRANCH]
    return LostInHistory(
        identities=list(dict.fromkeys([*(each for each in known if each.producer_id != transaction_sql.BRANCH),
                                       *row_coding.identities_of(store.rows, of_kafka)])),
        branches=list(dict.fromkeys([*branches, *(h.transaction for h in again if h.resource_manager != KAFKA)])),
        decisions=list(dict.fromkeys([*zip(sources, offsets, strict=True), *((source, at) for source, at, _ in last)])),
    )  # fmt: skip


def _handles(record: str) -> Sequence[Handle]:
    seen, _ = row_coding.decision_records([(0, 0, record, True)])
    return [handle for each in seen if isinstance(each.record, Decision) for handle in each.record.handles]
