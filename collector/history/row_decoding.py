"""Observations made again of history's rows. How they came there: history_rows.py."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from collector import lifecycle_batch
from collector.facts import BrokerIdentity, BrokerTransaction, Init
from collector.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from collector.history_rows import EXPIRED, LISTED, PLACE, TABLES
from collector.lifecycle_batch import EventColumns
from collector.observations import (
    BranchGone,
    BranchListed,
    BranchProof,
    BrokerRecord,
    CheckpointFile,
    CheckpointFileKind,
    DecisionSeen,
    EventSeen,
    IdExpired,
    OffsetsSeen,
    OperatorOrder,
)
from collector.orders import Action, StepOutcome
from collector.transaction_state_records import BrokerStatus
from lifecycle import decisions
from lifecycle import events as lifecycle_json
from lifecycle.errors import MalformedRecord

log = logging.getLogger(__name__)


def broker_records(rows: Iterable[Sequence[Any]]) -> Iterator[BrokerRecord | IdExpired]:
    """Yield the observations of rows of transaction_records."""
    for (
        source,
        _,
        _,
        transaction,
        producer_id,
        epoch,
        status,
        start_ms,
        update_ms,
        timeout_ms,
        partitions,
        version,
    ) in rows:
        if status == EXPIRED:
            yield IdExpired(transaction=transaction)
            continue
        yield BrokerRecord(
            transaction=transaction,
            producer_id=producer_id,
            producer_epoch=epoch,
            status=BrokerStatus[status],
            start_ms=start_ms,
            update_ms=update_ms,
            timeout_ms=timeout_ms,
            partitions=tuple(partitions),
            client_version=version,
            source=source,
        )


def transactions(rows: Iterable[Sequence[Any]]) -> Iterator[BrokerTransaction]:
    """Yield the transactions of rows of TRANSACTIONS_OF_CURRENT_STATE."""
    names = [field.name for field in fields(BrokerTransaction)][1:]
    for id_, producer_id, start_ms, timeout_ms, partitions, *rest in rows:
        known = dict(zip(names, (timeout_ms, frozenset(partitions or ()), *rest), strict=True))
        yield BrokerTransaction(identity=BrokerIdentity(id_, producer_id, start_ms), **known)


def inits(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Init]]:
    """Yield (transactional id, init) of (id, update time, producer id, epoch) rows."""
    for id_, at_ms, producer_id, epoch in rows:
        yield id_, Init(at_ms=at_ms, producer_id=producer_id, producer_epoch=epoch)


def events_in_columns(values: Sequence[bytes]) -> tuple[EventColumns, Iterator[EventSeen]]:
    """Return lifecycle events as they were told: the ordinary ones in columns, and the observations of the others."""
    columns, numbers = lifecycle_batch.decode(values)
    odd = sorted(set(range(len(values))) - set(numbers.tolist()))
    return columns, lifecycle_events((0, number, values[number].decode()) for number in odd)


def lifecycle_events(rows: Iterable[Sequence[Any]]) -> Iterator[EventSeen]:
    """Yield the observations of (partition, offset, event) rows, but those that this version does not understand any more."""
    for partition, offset, text in rows:
        try:
            yield EventSeen(event=lifecycle_json.decode(text.encode()))
        except MalformedRecord as error:
            log.warning("lifecycle event %d of partition %d in history is left out: %s", offset, partition, error)


def decision_records(rows: Iterable[Sequence[Any]]) -> Iterator[DecisionSeen]:
    """Yield the observations of (partition, offset, record) rows, but those that this version does not understand any more."""
    for partition, offset, text in rows:
        try:
            yield DecisionSeen(offset=offset, record=decisions.decode(text.encode()))
        except MalformedRecord as error:
            log.warning("decision record %d of partition %d in history is left out: %s", offset, partition, error)


def checkpoint_files(rows: Iterable[Sequence[Any]]) -> Iterator[CheckpointFile]:
    """Yield the observations of rows of checkpoint_files."""
    for _, _, _, pipeline, kind, number, at_ms, modified_ns, watermark_ms in rows:
        yield CheckpointFile(
            pipeline=pipeline,
            kind=CheckpointFileKind(kind),
            number=number,
            at_ms=at_ms,
            modified_ns=modified_ns,
            watermark_ms=watermark_ms,
        )


def flink_checkpoints(rows: Iterable[Sequence[Any]]) -> Iterator[FlinkCheckpoint]:
    """Yield the observations of rows of flink_checkpoints."""
    for (
        _,
        _,
        _,
        cluster,
        job,
        job_name,
        number,
        status,
        kind,
        triggered_ms,
        ended_ms,
        state_bytes,
        reason,
        path,
    ) in rows:
        yield FlinkCheckpoint(
            cluster=cluster,
            job=job,
            job_name=job_name,
            number=number,
            status=FlinkStatus(status),
            kind=FlinkKind(kind),
            triggered_ms=triggered_ms,
            ended_ms=ended_ms,
            state_bytes=state_bytes,
            reason=reason,
            path=path,
        )


def flink_jobs(rows: Iterable[Sequence[Any]]) -> Iterator[FlinkJob]:
    """Yield the observations of rows of flink_jobs."""
    names = [field.name for field in TABLES["flink_jobs"]][len(PLACE) :]
    return (FlinkJob(**dict(zip(names, row[len(PLACE) :], strict=True))) for row in rows)


def branches(rows: Iterable[Sequence[Any]]) -> Iterator[BranchListed | BranchGone]:
    """Yield the observations of rows of prepared_branches."""
    for _, _, _, place, resource_manager, transaction, what, at_ms, proof, prepared_ms, owner, database in rows:
        if what == LISTED:
            yield BranchListed(
                place=place,
                resource_manager=resource_manager,
                transaction=transaction,
                at_ms=at_ms,
                prepared_ms=prepared_ms,
                owner=owner,
                database=database,
            )
        else:
            yield BranchGone(
                place=place,
                resource_manager=resource_manager,
                transaction=transaction,
                at_ms=at_ms,
                proof=BranchProof(proof) if proof is not None else None,
            )


def transaction_offsets(rows: Iterable[Sequence[Any]]) -> Iterator[OffsetsSeen]:
    """Yield the observations of rows of transaction_offsets."""
    for _, _, _, transaction, producer_id, start_ms, partition, first, first_is_exact, next_offset, how, at_ms in rows:
        yield OffsetsSeen(
            transaction=transaction,
            producer_id=producer_id,
            start_ms=start_ms,
            partition=partition,
            first=first,
            first_is_exact=first_is_exact,
            next_offset=next_offset,
            how=how,
            at_ms=at_ms,
        )


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
