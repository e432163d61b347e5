"""Every record about one transaction, as it was read: the broker's, the decision log's, events, checkpoints, orders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.views.past_of_identities import AROUND_MS, MOST_RECORDS
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.events import TYPE_PREFIX
from indoubt.lifecycle.rows.events import EventKind, RawEventRow

_PLACE = ("source", "partition", "offset")
Row = Mapping[str, Any]


def raw_events(store: Store, view: TransactionView, until_ms: int) -> list[RawEventRow]:
    """Return what history has of a transaction, oldest first; ``until_ms``: how far to look while it is open. Raises StoreFailed.

    Of its batch: the decision, the checkpoint's events and files. At most MOST_RECORDS of each kind are looked at.
    """
    store.catch_up()
    found = [*_of_broker(store, view), *_of_database(store, view), *_of_orders(store, view)]
    if view.managed:
        period = (view.pipeline, (view.opened_ms or 0) - AROUND_MS, (view.ended_ms or until_ms) + AROUND_MS)
        found += [*_of_decisions(store, view, period), *_of_events(store, view, period), *_of_checkpoint(store, view)]
    return sorted(found, key=lambda row: (row.at_ms, row.kind.value, row.source, row.offset))


def _of_broker(store: Store, view: TransactionView) -> Iterator[RawEventRow]:
    if view.broker is None:
        return
    identity = view.broker.identity
    of_it = (transaction_sql.RECORDS_OF_TRANSACTION, *identity, MOST_RECORDS)
    for row in store.named_rows(*of_it, since_ms=identity.start_ms):
        what = "".join(word.capitalize() for word in row["status"].split("_"))
        yield _event(EventKind.BROKER, what, row["update_ms"] or row["start_ms"], row, _rest(row))


def _of_decisions(store: Store, view: TransactionView, period: tuple[str, int, int]) -> Iterator[RawEventRow]:
    of_period = (transaction_sql.DECISION_RECORDS_OF_PERIOD, *period, MOST_RECORDS)
    for row in store.named_rows(*of_period, since_ms=period[1], until_ms=period[2]):
        record = json.loads(row["record"])
        # A decision is about the whole batch; an outcome only about the handles that it names.
        is_decision = record["type"] == "decision"
        if _batch_attempt(record) == view.batch_attempt and (is_decision or view.handle_key in record["handles"]):
            what = f"{record['ruling' if is_decision else 'settled']} by {record['who']}"
            yield _event(EventKind.DECISION, f"{record['type']}: {what}", row["at_ms"], row, record)


def _of_events(store: Store, view: TransactionView, period: tuple[str, int, int]) -> Iterator[RawEventRow]:
    of_period = (transaction_sql.LIFECYCLE_OF_PERIOD, *period, MOST_RECORDS)
    for row in store.named_rows(*of_period, since_ms=period[1], until_ms=period[2]):
        event = json.loads(row["event"])
        data, kind = event.get("data", {}), event["type"].removeprefix(TYPE_PREFIX)
        named = (data.get("transaction"), data.get("producer_id"), data.get("producer_epoch"))
        is_its_own = named == (view.transaction, view.producer_id, view.producer_epoch)
        is_its_batch = kind.startswith("checkpoint.") and _batch_attempt(data) == view.batch_attempt
        if is_its_own or is_its_batch:
            yield _event(EventKind.LIFECYCLE, kind, row["at_ms"], row, event)


def _of_checkpoint(store: Store, view: TransactionView) -> Iterator[RawEventRow]:
    if view.batch_attempt is None:
        return
    number = view.batch_attempt.batch
    for row in store.named_rows(transaction_sql.FILES_OF_BATCH, view.pipeline, number, MOST_RECORDS):
        yield _event(EventKind.CHECKPOINT, f"{row['kind']} {number}", row["at_ms"], row, _rest(row))


def _of_database(store: Store, view: TransactionView) -> Iterator[RawEventRow]:
    if view.producer_id is not None:
        return
    for row in store.named_rows(transaction_sql.BRANCH_RECORDS, view.transaction, MOST_RECORDS):
        yield _event(EventKind.DATABASE, f"{row['what']} in {row['instance']}", row["at_ms"], row, _rest(row))


def _of_orders(store: Store, view: TransactionView) -> Iterator[RawEventRow]:
    # An order may have named it before its start was known.
    names = {view.key, view.key.rpartition("@")[0] or view.key}
    for row in store.named_rows(transaction_sql.AUDIT_OF_KEYS, *map(json.dumps, (view.key, min(names))), MOST_RECORDS):
        if names.isdisjoint(json.loads(row["keys"])):
            continue
        what = f"{row['action']} {row['outcome'].replace('_', ' ')}, by {row['who']}"
        place = {"source": "audit", "partition": None, "offset": row["audit"]}
        decoded = {name: json.loads(row[name]) for name in ("keys", "evidence")}
        yield _event(EventKind.ORDER, what, row["at_ms"], place, {**row, **decoded})


def _event(kind: EventKind, what: str, at_ms: int, place: Row, raw: Row) -> RawEventRow:
    return RawEventRow(
        at_ms=at_ms,
        kind=kind,
        what=what,
        source=place["source"],
        partition=place["partition"],
        offset=place["offset"],
        raw=raw,
    )


def _rest(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _PLACE and value is not None}


def _batch_attempt(fields: Row) -> BatchAttempt | None:
    names = ("checkpoint_id", "batch", "attempt")
    return BatchAttempt(**{name: fields[name] for name in names}) if all(name in fields for name in names) else None
