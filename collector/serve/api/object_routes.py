"""The API's part about single objects: one transaction with its events and those before it, one topic-partition."""

from __future__ import annotations

import heapq
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Path
from fastapi.responses import Response
from starlette.convertors import Convertor, register_url_convertor

from indoubt.collector.facts import transaction_join
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.answers import Table, row_answer, table_answer
from indoubt.collector.serve.api.dependencies import ApiDependencies, KnownCaller, caller_of_request
from indoubt.collector.serve.api.paging import Page, behind, place_of
from indoubt.collector.serve.api.table_routes import After, Limit
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views import aborts_and_losses, past_transactions
from indoubt.collector.views.application_names import applications_of_hanging, applications_of_holders
from indoubt.collector.views.partition_rows import blocked_row, hanging_rows
from indoubt.collector.views.raw_events import raw_events
from indoubt.collector.views.transaction_detail import detail_row
from indoubt.collector.views.transaction_rows import ended_row, transaction_row
from indoubt.lifecycle.rows.events import EndedTransactionRow, RawEventRow
from indoubt.lifecycle.rows.partitions import PartitionRow
from indoubt.lifecycle.rows.transactions import TransactionDetailRow

KEY = "{key:transaction_key}"
MOST_ENDED = 50
MAX_PARTITION = 2**31 - 1


class TransactionKey(Convertor[str]):
    """Takes the rest of a path, whatever a key holds, slashes too; Starlette's own ``path`` ends at a line end."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the key."""
        return value

    def to_string(self, value: str) -> str:
        """Return the path."""
        return value


register_url_convertor("transaction_key", TransactionKey())


def serve(app: FastAPI, dependencies: ApiDependencies) -> None:
    """Add the routes; those below a transaction come before the one that takes any key."""
    _serve_transaction(app, dependencies)

    @app.get("/api/v1/partitions/{topic}/{number}", response_model=PartitionRow)
    def partition(_: KnownCaller, topic: str, number: Annotated[int, Path(ge=0, le=MAX_PARTITION)]) -> Response:
        return row_answer(_partition(dependencies, topic, number))


def _serve_transaction(app: FastAPI, dependencies: ApiDependencies) -> None:
    protected = [Depends(caller_of_request)]

    @app.get(f"/api/v1/transactions/{KEY}/events", response_model=Table[RawEventRow], dependencies=protected)
    def events(key: str, limit: Limit = 500, after: After = None) -> Response:
        if (named_so := dependencies.current.transactions.find(f"{key}/events")) is not None:
            return row_answer(_detail(dependencies, named_so))
        found = raw_events(dependencies.store, _judged(dependencies, key).view, now_ms())
        place = place_of(after, int)
        shown, more = behind(list(enumerate(found)), lambda numbered: (numbered[0],), limit, place)
        last = (shown[-1][0],) if shown else None
        return table_answer(Page(rows=[row for _, row in shown], more=more, last=last))

    @app.get(f"/api/v1/transactions/{KEY}/earlier", response_model=Table[EndedTransactionRow], dependencies=protected)
    def earlier(key: str, limit: Limit = 20, after: After = None) -> Response:
        if (named_so := dependencies.current.transactions.find(f"{key}/earlier")) is not None:
            return row_answer(_detail(dependencies, named_so))
        view, place = _judged(dependencies, key).view, place_of(after, int, int)
        current, store = dependencies.current, dependencies.store
        found, more = past_transactions.earlier(current, store, view, before=place, most=limit)
        last = (found[-1].opened_ms or 0, found[-1].producer_id or 0) if found else None
        page = Page(rows=[ended_row(each) for each in found], more=more, last=last)
        return table_answer(page)

    @app.get(f"/api/v1/transactions/{KEY}", response_model=TransactionDetailRow)
    def transaction(_: KnownCaller, key: str) -> Response:
        judged = dependencies.current.transactions.find(key)
        if judged is not None:
            return row_answer(_detail(dependencies, judged))
        judged, loss, siblings = _past(dependencies, key)
        return row_answer(detail_row(judged, dependencies.current.orders(judged.view.key), siblings, loss))


def _judged(dependencies: ApiDependencies, key: str) -> Judged:
    return dependencies.current.transactions.find(key) or _past(dependencies, key)[0]


def _past(dependencies: ApiDependencies, key: str) -> tuple[Judged, Loss | None, list[str]]:
    found = past_transactions.find(dependencies.current, dependencies.store, key)
    if found is None:
        raise HTTPException(
            404, f"transaction {key} is neither in memory nor in history: it never was seen, or left history"
        )
    return found


def _detail(dependencies: ApiDependencies, judged: Judged) -> TransactionDetailRow:
    loss = aborts_and_losses.loss(dependencies.current, judged.view)
    return detail_row(judged, dependencies.current.orders(judged.view.key), _siblings(dependencies, judged), loss)


def _siblings(dependencies: ApiDependencies, judged: Judged) -> list[str]:
    batch_attempt, key = judged.view.batch_attempt, judged.view.key
    if batch_attempt is None:
        return []
    same = dependencies.current.transactions.judged_of_batches(lambda other: other == batch_attempt)
    return sorted(other.view.key for other in same if other.view.key != key)


def _partition(dependencies: ApiDependencies, topic: str, number: int) -> PartitionRow:
    name, findings, at_ms = f"{topic}-{number}", dependencies.partitions(), now_ms()
    readers = next((b for b in findings.blocked if b.snapshot.partition == (topic, number)), None)
    with dependencies.current.reading() as state:
        applications = applications_of_hanging(state, findings.hanging)
        holders = applications_of_holders(state, [readers] if readers is not None else [])
    hanging = [row for row in hanging_rows(findings, applications) if (row.topic, row.partition) == (topic, number)]
    running = (each for each in dependencies.assessor.now().judged if not each.view.state.is_final)
    open_ = [each for each in running if each.view.broker is not None and name in each.view.broker.partitions]
    open_.sort(key=lambda each: (each.view.opened_ms or 0, each.view.key))
    ended = _newest_ended(dependencies, name)
    if not (hanging or open_ or ended or (topic, number) in findings.snapshots or readers is not None):
        raise HTTPException(404, f"nothing is known of partition {name}: no transaction in memory wrote to it")
    return PartitionRow(
        topic=topic,
        partition=number,
        readers=blocked_row(readers, at_ms, holders.get((topic, number))) if readers is not None else None,
        read_by=tuple(sorted(group for group, read in findings.read_by.items() if (topic, number) in read)),
        hanging=tuple(hanging),
        open=tuple(transaction_row(each) for each in open_),
        ended=tuple(ended),
    )


def _newest_ended(dependencies: ApiDependencies, partition: str) -> list[EndedTransactionRow]:
    with dependencies.current.reading() as state:
        wrote = (broker for broker in state.broker.values() if broker.is_final and partition in broker.partitions)
        newest = heapq.nlargest(MOST_ENDED, wrote, key=lambda broker: (broker.ended_ms or 0, broker.identity))
        views = [transaction_join.at_coordinator(state, broker.identity) for broker in newest]
    return [ended_row(view) for view in views]
