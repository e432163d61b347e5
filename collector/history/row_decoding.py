"""Observations made again of what history's queries return. Whole rows: observation_tables.py."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from indoubt.collector.history import transaction_sql
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction, Init
from indoubt.collector.records.formats import lifecycle_event_batch
from indoubt.collector.records.formats.lifecycle_event_batch import EventColumns
from indoubt.collector.records.observations import DecisionSeen, EventSeen, OperatorOrder
from indoubt.collector.records.orders import StepOutcome
from indoubt.lifecycle import decisions
from indoubt.lifecycle import events as lifecycle_json
from indoubt.lifecycle.decisions import Part, Snapshot
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.orders import Action

Rows = Callable[..., list[tuple[Any, ...]]]
"""``Store.rows``."""
log = logging.getLogger(__name__)


def transactions(rows: Iterable[Sequence[Any]]) -> Iterator[BrokerTransaction]:
    """Yield the transactions of rows of TRANSACTIONS_OF_CURRENT_STATE."""
    for id_, producer_id, start_ms, partitions, source, *rest in rows:
        identity = BrokerIdentity(id_, producer_id, start_ms)
        yield BrokerTransaction(identity, frozenset(partitions or ()), source, *rest)


def transactions_of(rows: Rows, identities: Sequence[BrokerIdentity]) -> list[BrokerTransaction]:
    """Return those of these transactions that history has, in no order. Raises StoreFailed."""
    if not identities:
        return []
    ids, producer_ids, starts = (list(column) for column in zip(*identities, strict=True))
    values = (ids, producer_ids, starts, min(starts), max(starts))
    return list(transactions(rows(transaction_sql.TRANSACTIONS_OF_IDENTITIES, *values, since_ms=min(starts))))


def identities_of(rows: Rows, handles: Iterable[tuple[str, int | None, int | None]]) -> list[BrokerIdentity]:
    """Return what history has under these handles in Kafka (id, producer id, epoch), in no order. Raises StoreFailed."""
    columns = [list(column) for column in zip(*handles, strict=True)]
    return [BrokerIdentity(*row) for row in rows(transaction_sql.IDENTITIES_OF_HANDLES, *columns)] if columns else []


def inits(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Init]]:
    """Yield (transactional id, init) of (id, update time, producer id, epoch) rows."""
    for id_, at_ms, producer_id, epoch in rows:
        yield id_, Init(at_ms=at_ms, producer_id=producer_id, producer_epoch=epoch)


def events_in_columns(values: Sequence[bytes]) -> tuple[EventColumns, Iterator[EventSeen]]:
    """Return lifecycle events as they were reported: the ordinary ones in columns, and the observations of the others."""
    columns, numbers = lifecycle_event_batch.decode(values)
    odd = sorted(set(range(len(values))) - set(numbers.tolist()))
    return columns, lifecycle_events((0, number, values[number].decode()) for number in odd)


def lifecycle_events(rows: Iterable[Sequence[Any]]) -> Iterator[EventSeen]:
    """Yield the observations of (partition, offset, event) rows.

    Those are left out that were taken among many, in columns, and are refused alone.
    """
    for partition, offset, text in rows:
        try:
            yield EventSeen(event=lifecycle_json.decode(text.encode()))
        except MalformedRecord as error:
            log.warning("lifecycle event %d of partition %d in history is left out: %s", offset, partition, error)


def decision_records(rows: Iterable[Sequence[Any]]) -> tuple[list[DecisionSeen], str]:
    """Return the observations of (partition, offset, record, counts) rows, and which of them a newer collector wrote first.

    Without that one what was decided is not known. Other rows that cannot be read are left out.
    """
    found: list[DecisionSeen] = []
    newer = ""
    for partition, offset, text, counts in rows:
        try:
            record = decisions.decode(text.encode())
            if isinstance(record, Snapshot | Part):
                raise MalformedRecord(f"a {type(record).__name__.lower()} is not kept in history")
            found.append(DecisionSeen(offset=offset, record=record, counts=counts))
        except UnknownVersion as error:
            newer = (
                newer
                or f"history holds of the decision log, at offset {offset}, what a newer collector wrote ({error})"
            )
        except MalformedRecord as error:
            log.warning("decision record %d of partition %d in history is left out: %s", offset, partition, error)
    return found, newer


def operator_orders(rows: Iterable[Sequence[Any]]) -> Iterator[OperatorOrder]:
    """Yield one observation per transaction that ended as ordered, of (audit, at_ms, who, action, detail) rows."""
    for audit, at_ms, who, action, detail in rows:
        for key in _ended_as_ordered(action, detail):
            yield OperatorOrder(key=key, action=action, who=who, at_ms=at_ms, audit=audit)


def _ended_as_ordered(action: str, detail: str) -> list[str]:
    try:
        ordered = Action(action)
        return [step["key"] for step in json.loads(detail) if StepOutcome(step["outcome"]).fulfils(ordered)]
    except (ValueError, TypeError, KeyError):
        return []  # a row about something else than an order, or of one that failed before its first step
