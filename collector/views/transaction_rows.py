"""Rows of transactions, open and ended, in the columns of the OpenAPI document; all times epoch ms."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.collector.facts.transaction_pages import opening_sort_key
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.observations import OffsetsSeen
from indoubt.collector.verdicts import abort_causes
from indoubt.collector.verdicts.abort_causes import AbortClues
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.search import Found
from indoubt.lifecycle.application import ApplicationKind
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.ends import AbortRow, LossRow, OffsetRange
from indoubt.lifecycle.rows.events import EndedTransactionRow
from indoubt.lifecycle.rows.row_json import fields_of
from indoubt.lifecycle.rows.search import FoundTransactionRow
from indoubt.lifecycle.rows.transactions import (
    TransactionCountRow,
    TransactionRow,
)
from indoubt.lifecycle.verdicts import URGENCY, Certainty, Verdict

_FAR = MAX_WHOLE_NUMBER


def urgency(judged: Judged) -> tuple[int, int, int, str]:
    """Return the sort key of the pending list: most urgent verdict, then nearest deadline, then oldest.

    Settled ones come last, newest opening first: there may be thousands of them.
    """
    view = judged.view
    if judged.judgement.verdict is Verdict.SETTLED:
        return (URGENCY.index(Verdict.SETTLED), *opening_sort_key(view))
    return (URGENCY.index(judged.judgement.verdict), view.deadline_ms or _FAR, view.opened_ms or _FAR, view.key)


def transaction_row(judged: Judged) -> TransactionRow:
    """Return a row of GET /transactions."""
    view, judgement = judged.view, judged.judgement
    batch_attempt, handle = view.batch_attempt, view.handle
    return TransactionRow(
        key=view.key,
        resource_manager=view.resource_manager,
        transaction=view.transaction,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        client_transaction_version=view.broker.client_transaction_version if view.broker is not None else None,
        pipeline=view.pipeline,
        application=view.application,
        managed=view.managed,
        checkpoint_id=batch_attempt.checkpoint_id if batch_attempt is not None else None,
        batch=batch_attempt.batch if batch_attempt is not None else None,
        attempt=batch_attempt.attempt if batch_attempt is not None else None,
        slot=view.slot,
        checkpoint=view.checkpoint,
        state=view.state,
        verdict=judgement.verdict,
        certainty=judgement.certainty,
        rule=judgement.rule,
        opened_at_ms=view.opened_ms,
        timeout_ms=view.timeout_ms,
        deadline_ms=view.deadline_ms,
        rows=handle.rows if handle is not None else None,
        bytes=handle.bytes if handle is not None else None,
        partitions=tuple(sorted(view.broker.partitions)) if view.broker is not None else (),
        may_commit=judgement.may_commit,
        may_abort=judgement.may_abort,
        loses_data=judgement.loses_data,
        commit_confirmation=judgement.commit_confirmation,
        evidence=judgement.evidence,
        revision=view.revision,
        updated_at_ms=view.updated_ms,
        written_again_at_ms=view.written_again_ms,
    )


def count_rows(judged: Iterable[Judged]) -> list[TransactionCountRow]:
    """Return the rows of GET /transaction-counts: most urgent verdict first, then the most transactions."""
    found: dict[tuple[ApplicationKind, str, Verdict], list[TransactionView]] = {}
    for item in judged:
        application = item.view.application
        found.setdefault((application.kind, application.name, item.judgement.verdict), []).append(item.view)
    rows = [
        TransactionCountRow(
            pipeline=name,
            kind=kind,
            verdict=verdict,
            transactions=len(views),
            oldest_opened_at_ms=min((view.opened_ms for view in views if view.opened_ms is not None), default=None),
            deadline_ms=min((view.deadline_ms for view in views if view.deadline_ms is not None), default=None),
        )
        for (kind, name, verdict), views in found.items()
        if verdict is not Verdict.SETTLED
    ]
    return sorted(rows, key=lambda row: (URGENCY.index(row.verdict), -row.transactions, row.pipeline))


def abort_row(clues: AbortClues) -> AbortRow:
    """Return a row of GET /aborts."""
    ended = ended_row(clues.view)
    cause, certainty = abort_causes.infer(clues)
    return AbortRow(
        at_ms=ended.ended_at_ms,
        key=ended.key,
        transaction=ended.transaction,
        pipeline=ended.pipeline,
        batch=ended.batch,
        slot=ended.slot,
        verdict=ended.state,
        cause=cause,
        certainty=certainty.value,
        open_ms=ended.open_ms,
        written_again_at_ms=ended.written_again_at_ms,
        rows=ended.rows,
    )


def ended_row(view: TransactionView) -> EndedTransactionRow:
    """Return a row of GET /transactions/{key}/earlier."""
    ended, opened = view.ended_ms, view.opened_ms
    return EndedTransactionRow(
        key=view.key,
        transaction=view.transaction,
        pipeline=view.pipeline,
        batch=view.batch_attempt.batch if view.batch_attempt is not None else None,
        slot=view.slot,
        state=view.state,
        opened_at_ms=opened,
        ended_at_ms=ended,
        open_ms=max(0, ended - opened) if ended is not None and opened is not None else None,
        written_again_at_ms=view.written_again_ms,
        rows=view.handle.rows if view.handle is not None else None,
        partitions=tuple(sorted(view.broker.partitions)) if view.broker is not None else (),
    )


def found_row(found: Found) -> FoundTransactionRow:
    """Return a row of GET /search."""
    certainty = found.certainty.value if found.certainty is not None else None
    return FoundTransactionRow(**fields_of(ended_row(found.view)), cause=found.cause, certainty=certainty)


def loss_row(loss: Loss) -> LossRow:
    """Return a row of GET /losses."""
    view = loss.view
    return LossRow(
        at_ms=view.ended_ms,
        key=view.key,
        transaction=view.transaction,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        pipeline=view.pipeline,
        managed=view.managed,
        checkpoint=loss.checkpoint,
        verdict=loss.verdict.value,
        certainty=loss.certainty.value,
        why=loss.why,
        cause=loss.cause.cause if loss.cause is not None else None,
        cause_certainty=loss.cause.certainty.value if loss.cause is not None else None,
        opened_at_ms=view.opened_ms,
        written_again_at_ms=view.written_again_ms,
        rows=view.handle.rows if view.handle is not None else None,
        partitions=tuple(sorted(view.broker.partitions)) if view.broker is not None else (),
        offsets=tuple(_offsets(seen) for seen in loss.offsets),
    )


def _offsets(seen: OffsetsSeen) -> OffsetRange:
    certainty = Certainty.LIKELY if seen.first_is_exact else Certainty.GUESS
    return OffsetRange(
        partition=seen.partition,
        first=seen.first,
        next=seen.next_offset,
        certainty=certainty.value,
        how=seen.how,
    )
