"""Rows of GET /batches, in the columns of the OpenAPI document; all times epoch ms."""

from __future__ import annotations

from typing import assert_never

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.batches import Batch, BatchSide, BatchVerdict, is_committed
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.batches import BatchRow, BatchSideRow, BatchTransactionRow


def batch_row(batch: Batch) -> BatchRow:
    """Return one attempt at a batch with all its parts."""
    offset, decision = batch.decision if batch.decision is not None else (None, None)
    return BatchRow(
        key=batch.key,
        pipeline=batch.pipeline,
        checkpoint_id=batch.batch_attempt.checkpoint_id,
        batch=batch.batch_attempt.batch,
        attempt=batch.batch_attempt.attempt,
        verdict=batch.verdict.value,
        explanation=explanation(batch),
        committed_on=batch.committed_on,
        missing_on=batch.missing_on,
        decision=decision.ruling.value if decision is not None else None,
        decision_offset=offset,
        decided_at_ms=decision.at_ms if decision is not None else None,
        decided_by=decision.who if decision is not None else None,
        settle=batch.settling.value if batch.settling is not None else None,
        sides=tuple(_side_row(side) for side in batch.sides),
        transactions=tuple(_transaction_row(judged) for judged in batch.transactions),
        rows=batch.rows,
        opened_at_ms=batch.opened_ms,
        deadline_ms=batch.deadline_ms,
        updated_at_ms=batch.updated_ms,
        written_again_at_ms=batch.written_again_ms,
        revision=batch.revision,
    )


def explanation(batch: Batch) -> str:
    """Return one sentence that says how the batch stands and what follows from it."""
    total, lost = len(batch.transactions), sum(side.lost for side in batch.sides)
    match batch.verdict:
        case BatchVerdict.ONE_SIDE_ONLY:
            sides = f"{' and '.join(batch.committed_on)}, not on {' and '.join(batch.missing_on)}"
            missing = ", ".join(_missing(side) for side in batch.sides if not side.is_committed)
            return f"Committed on {sides} ({missing}). {_remedy(batch)}."
        case BatchVerdict.LOST:
            return f"Decided, but {lost} of {_counted(total)} rolled back. A restart writes them again."
        case BatchVerdict.IN_DOUBT:
            open_ = sum(side.open for side in batch.sides)
            return f"Decided, but {open_} of {_counted(total)} not committed yet. Commit: an abort would lose rows."
        case BatchVerdict.UNDECIDED:
            return (
                "Not decided yet. Its driver may still decide it; if it cannot, the next run writes these rows again."
            )
        case BatchVerdict.ABORTED:
            return "Never decided, and rolled back. The next run writes these rows again."
        case BatchVerdict.WRITTEN_AGAIN:
            return f"Decided, but {lost} of {_counted(total)} rolled back. {_again(batch, 'those rows')}"
        case BatchVerdict.ABORTED_WRITTEN_AGAIN:
            return f"Never decided, and rolled back. {_again(batch, 'these rows')}"
        case BatchVerdict.COMPLETE:
            # Of an old one a part may have left memory: what is lost stays.
            total = total if batch.decision is None else max(total, len(batch.decision[1].handles))
            return (
                "Its one transaction is committed."
                if total == 1
                else f"All of its transactions ({total:,}) are committed."
            )
        case _:
            assert_never(batch.verdict)


def _again(batch: Batch, what: str) -> str:
    at = f" at {utc(batch.written_again_ms)}" if batch.written_again_ms is not None else ""
    return f"A later attempt wrote {what} again{at}: nothing is missing."


def _remedy(batch: Batch) -> str:
    if batch.decision is None:
        return "A person committed it by hand, without a decision: the next run writes those rows a second time"
    if any(side.lost for side in batch.sides):
        return "A restart writes the rest again"
    return "Settle it" if batch.settling is not None else "The pipeline's next start settles the rest"


def _missing(side: BatchSide) -> str:
    parts = ((side.open, "open"), (side.lost, "rolled back"))
    standing = " and ".join(f"{count} {word}" for count, word in parts if count)
    return f"{side.resource_manager}: {standing} of {len(side.transactions)}"


def _counted(total: int) -> str:
    return f"{counted(total, 'transaction')} {'is' if total == 1 else 'are'}"


def _side_row(side: BatchSide) -> BatchSideRow:
    return BatchSideRow(
        resource_manager=side.resource_manager,
        transactions=len(side.transactions),
        committed=side.committed,
        aborted=side.lost,
        open=side.open,
        rows=side.rows,
    )


def _transaction_row(judged: Judged) -> BatchTransactionRow:
    view = judged.view
    return BatchTransactionRow(
        key=view.key,
        resource_manager=view.resource_manager,
        slot=view.slot,
        state=view.state,
        verdict=judged.judgement.verdict,
        certainty=judged.judgement.certainty,
        committed=is_committed(judged),
        rows=view.handle.rows if view.handle is not None else None,
        opened_at_ms=view.opened_ms,
        prepared_at_ms=_prepared_ms(view),
        ended_at_ms=_ended_ms(view),
    )


def _prepared_ms(view: TransactionView) -> int | None:
    """Return when it was prepared: as its database says, else as its driver reported."""
    if view.branch is not None and view.branch.prepared_ms is not None:
        return view.branch.prepared_ms
    return view.reported.event_times.get(EventType.TRANSACTION_PREPARED) if view.reported is not None else None


def _ended_ms(view: TransactionView) -> int | None:
    """Return when it ended: as its coordinator, the decision log or its database says, else as its driver reported."""
    if not view.state.is_final or view.ended_ms is not None or view.reported is None:
        return view.ended_ms
    times = view.reported.event_times
    return times.get(EventType.TRANSACTION_COMMITTED, times.get(EventType.TRANSACTION_ABORTED))
