"""The lost transactions that history may have behind the newest ones: after a restart they stand in the present state again.

What is returned may be more than is lost: whether it is, and whether its batch was replayed, the fold of it tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collector.history import row_decoding, transaction_sql
from collector.history.store import Store
from collector.records.facts import KAFKA, BrokerIdentity
from lifecycle.decisions import Decision
from lifecycle.identity import Handle

MOST = 10_000
"""How many aborted transactions of pipelines are looked at, the newest."""


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
    decided = store.rows(transaction_sql.DECIDED_AND_ABORTED, MOST)
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
