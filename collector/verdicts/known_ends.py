"""How a transaction ended that hangs on a partition, where that is proven: by the coordinator's log and the records themselves.

An epoch alone proves nothing. Below transaction.version 2 it stays from one transaction to the next, and init moves it by one, as
the end of a transaction does from version 2 on: "committed, one epoch on" may be the next one's end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indoubt.collector.facts.state import State
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.verdicts.flink_cases import case_of
from indoubt.collector.verdicts.flink_evidence import checkpoint_name
from indoubt.lifecycle.identity import transaction_key

if TYPE_CHECKING:
    # The module asks brokers: to load history needs none of it, nor the time to import it.
    from indoubt.resource_managers.kafka.partitions import OpenProducer

OWN_EPOCH = 2
"""The transaction.version from which on a transaction has its epochs to itself (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """The end of the one transaction that was written at a producer's epoch. ``at_ms``: epoch ms by the coordinator's clock."""

    transaction: str
    commit: bool
    why: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAt:
    """Everything known that was written at one epoch of a producer id.

    ``listed_by``: what lists one of them, whose writers take a new epoch for each transaction; empty where nothing does.
    """

    transactions: tuple[BrokerTransaction, ...]
    listed_by: str = ""


def written_at(state: State, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], WrittenAt]:
    """Return by (producer id, epoch) what is known of it. Call it under the state's lock."""
    found: dict[tuple[int, int], list[BrokerTransaction]] = {}
    producer_ids = {producer_id for producer_id, _ in wanted}
    for identity, broker in state.broker.items():
        if identity.producer_id in producer_ids and broker.handle_epoch is not None:
            at = (identity.producer_id, broker.handle_epoch)
            if at in wanted:
                found.setdefault(at, []).append(broker)
    return {
        at: WrittenAt(transactions=tuple(transactions), listed_by=_listed_by(state, transactions))
        for at, transactions in found.items()
    }


def _listed_by(state: State, transactions: Iterable[BrokerTransaction]) -> str:
    """Return a commit decision that counts, or a checkpoint of Flink's KafkaSink, which inits before each transaction.

    Source: ProducerPoolImpl.getTransactionalProducer of flink-connector-kafka.
    """
    for broker in transactions:
        if state.ledger.listing(transaction_key("kafka", *broker.handle_identity)) is not None:
            return "a commit decision lists it"
        case = case_of(state.flink, broker)
        if case is not None and case.listings:
            return f"{checkpoint_name(case.first)} of the Flink job {case.name} lists it"
    return ""


def known_end(producer: OpenProducer, written: WrittenAt, first_epoch: int | None) -> KnownEnd | None:
    """Return how what is open ended, None where that is not proven.

    Its first and its last record were written at one epoch, and one transaction alone was: its writer's epochs move with each
    transaction, or a commit decision or a checkpoint of Flink lists it, whose writers take a new producer epoch for each. A commit
    needs the partition among those that the coordinator committed.
    """
    if first_epoch != producer.producer_epoch or len(written.transactions) != 1:
        return None
    (transaction,) = written.transactions
    own_epoch = min(transaction.ongoing_version or 0, transaction.end_version or 0) >= OWN_EPOCH
    if transaction.ongoing_epoch != producer.producer_epoch or not (own_epoch or written.listed_by):
        return None
    at_ms, how = transaction.complete_commit_ms, "committed"
    if at_ms is not None and "-".join(map(str, producer.partition)) not in transaction.partitions:
        return None
    if at_ms is None:
        at_ms, how = transaction.complete_abort_ms, "aborted"
    if at_ms is None:
        return None
    why = "its writer has an epoch for each transaction (transaction.version 2)" if own_epoch else written.listed_by
    id_ = transaction.identity.transaction
    return KnownEnd(
        transaction=id_,
        commit=transaction.complete_commit_ms is not None,
        why=f"{id_} was {how} at epoch {producer.producer_epoch}, the only one of that epoch: {why}",
        at_ms=at_ms,
    )
