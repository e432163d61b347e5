"""Attempts at one batch; those that have left memory are put together of what history has of the decisions about them."""

from __future__ import annotations

from indoubt.collector.facts import transaction_join
from indoubt.collector.history import row_coding, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import KAFKA, BrokerIdentity, handle_identity
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.views.batches import Batch, batches, current_batches
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import pasts_of
from indoubt.lifecycle.decisions import Decision

MOST_DECISIONS = 100
"""Attempts at one batch, the newest."""
PAST_MS, MOST_KEPT = 60_000, 64
"""A page asks again with each change, and among 500,000 decisions a search for one takes up to a second."""


class Attempts:
    """Answers about single batches. What history has of one is looked for once in PAST_MS: it changes no more. Thread-safe."""

    def __init__(self, current: CurrentState, store: Store) -> None:
        self._current, self._store = current, store
        self._past = TtlCache(self._found, PAST_MS, most=MOST_KEPT)

    def at(self, pipeline: str, number: int) -> list[Batch]:
        """Return the attempts at a batch of a pipeline, as ``batches`` does, also where a part of them left memory.

        Of what has left it an attempt without a decision is not there: that its transactions are of one batch, events alone
        tell. Raises StoreFailed.
        """
        known = {
            batch.key: batch
            for batch in current_batches(self._current, lambda batch_attempt: batch_attempt.batch == number)
            if batch.pipeline == pipeline
        }
        if known and all(_is_whole(batch) for batch in known.values()):
            return list(known.values())
        past = self._past.at(now_ms(), pipeline, number)
        return list((past | {key: one for key, one in known.items() if _is_whole(one) or key not in past}).values())

    def _found(self, at_ms: int, pipeline: str, number: int) -> dict[str, Batch]:
        return {batch.key: batch for batch in _past_batches(self._current, self._store, pipeline, number, at_ms)}


def _is_whole(batch: Batch) -> bool:
    """Say whether memory has all of it. What is open has not left memory, and there it can be settled."""
    if batch.decision is None or any(side.open for side in batch.sides):
        return True
    return len(batch.transactions) >= len(batch.decision[1].handles)


def _past_batches(current: CurrentState, store: Store, pipeline: str, number: int, at_ms: int) -> list[Batch]:
    store.catch_up()
    rows = store.rows(transaction_sql.DECISIONS_OF_BATCH, pipeline, f'"batch":{number},', number, MOST_DECISIONS)
    seen, _ = row_coding.decision_records(rows)
    handles = [handle for each in seen if isinstance(each.record, Decision) for handle in each.record.handles]
    of_kafka = [handle_identity(handle) for handle in handles if handle.resource_manager == KAFKA]
    branches = [handle.transaction for handle in handles if handle.resource_manager != KAFKA]
    identities = row_coding.identities_of(store.rows, of_kafka)
    identities += [BrokerIdentity(name, transaction_sql.BRANCH, 0) for name in branches]
    judged = []
    for past in pasts_of(current, store, identities):
        # What a decision lists besides is in the other past.
        judged += [
            each
            for each in current.transactions.judged_of_past(
                past, lambda state: transaction_join.views(state, settled=True)
            )
            if (each.view.broker is not None or each.view.branch is not None)
            and each.view.pipeline == pipeline
            and each.view.batch_attempt is not None
            and each.view.batch_attempt.batch == number
        ]
    return batches(judged, at_ms, current.commit_overdue_ms)
