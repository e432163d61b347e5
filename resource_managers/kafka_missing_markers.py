"""End markers that a coordinator takes for written and a partition has not, and writing them.

A coordinator that finds no leader for a partition at the moment takes the partition for deleted and completes the transaction
without it (Kafka 4.3.1, KAFKA-20734; seen most times when a broker that has accepted EndTxn is killed and started again). The rows
stay hidden, their readers blocked, the offsets of the transaction unstable; and the next transaction of the same producer
there would take the rows along, to commit or to abort them with its own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors

from lifecycle.errors import Unreachable
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_descriptions import ABORTED, COMMITTED
from resource_managers.kafka_partitions import KafkaPartitions, Layout, OpenProducer
from resource_managers.kafka_wire import wire

CONSUMER_OFFSETS = "__consumer_offsets"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingMarker:
    """A transaction that is over for its coordinator and open on a partition. ``epoch``: the one its markers carry."""

    transaction: str
    producer: OpenProducer
    epoch: int
    commit: bool

    def __str__(self) -> str:
        topic, number = self.producer.partition
        return f"{'commit' if self.commit else 'abort'} marker of {self.transaction} on {topic}-{number}"


def is_end_of(state: str, coordinator_epoch: int, open_epoch: int) -> bool:
    """Say whether a coordinator in this state, at this epoch of the producer, has ended what is open at ``open_epoch``.

    From transaction.version 2 on the end of a transaction moves the epoch up by one (KIP-890), so one epoch on means that
    very transaction. Below, the epoch stays: what is open may then be a later transaction, and nothing is said of it.
    """
    return state in (COMMITTED, ABORTED) and coordinator_epoch == open_epoch + 1


def missing_markers(rows: Mapping[str, Any], opened: Iterable[OpenProducer]) -> list[MissingMarker]:
    """Return what is missing. ``rows``: DescribeTransactions by transactional id; ``opened`` was asked for after them."""
    ended = {
        row.producer_id: (id_, row) for id_, row in rows.items() if not isinstance(row, type) and row.producer_id >= 0
    }
    found: list[MissingMarker] = []
    for producer in opened:
        id_, row = ended.get(producer.producer_id, ("", None))
        if row is not None and is_end_of(row.transaction_state, row.producer_epoch, producer.producer_epoch):
            commit = row.transaction_state == COMMITTED
            found.append(MissingMarker(transaction=id_, producer=producer, epoch=row.producer_epoch, commit=commit))
    return found


def write_missing_markers(connection: KafkaConnection, ids: Collection[str], topics: Sequence[str] | None) -> None:
    """Write the markers that are missing of these transactional ids' last transactions.

    ``topics``: where their rows may be, None for all; the offsets' own partitions are looked at with them. What may not be
    written, or cannot be looked at now, is logged and left: it hangs, and a later look finds it again. Raises nothing of
    Kafka's.
    """
    rows = wire(connection).describe_transactions(list(ids))
    if not any(getattr(row, "transaction_state", "") in (COMMITTED, ABORTED) for row in rows.values()):
        return
    partitions = KafkaPartitions(connection, "")
    try:
        layout = partitions.layout(None if topics is None else [*topics, CONSUMER_OFFSETS])
    except Unreachable as error:
        log.warning("whether the transactions ended on every partition could not be looked at: %s", error)
        return
    opened = partitions.open_producers(layout.leaders.keys(), layout).found.values()
    for marker in missing_markers(rows, [producer for some in opened for producer in some]):
        _write(connection, marker, layout)


def _write(connection: KafkaConnection, marker: MissingMarker, layout: Layout) -> None:
    producer = marker.producer
    error = wire(connection).write_marker(
        layout.leaders[producer.partition],
        producer.partition,
        (producer.producer_id, marker.epoch),
        producer.coordinator_epoch,
        commit=marker.commit,
    )
    if error is kafka_errors.NoError:
        log.warning("wrote the missing %s: its coordinator had completed the transaction without it", marker)
    else:
        log.error("the missing %s could not be written: %s", marker, error.__name__)
