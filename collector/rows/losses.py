"""Rows of GET /losses, in the columns of the OpenAPI document; all times epoch ms."""

from __future__ import annotations

from collector.records.observations import OffsetsSeen
from collector.verdicts.data_loss import Loss
from lifecycle.rows.ends import LossRow, OffsetRange
from lifecycle.verdicts import Certainty


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
        checkpoint=loss.checkpoint,
        verdict=loss.verdict.value,
        certainty=loss.certainty.value,
        why=loss.why,
        cause=loss.cause.cause if loss.cause is not None else None,
        cause_certainty=loss.cause.certainty.value if loss.cause is not None else None,
        opened_at_ms=view.opened_ms,
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
