"""Rows of GET /losses, in the columns and order of docs/api.md; all times epoch ms."""

from __future__ import annotations

from typing import Any

from collector.abort_causes import Certainty
from collector.data_loss import Loss
from collector.observations import OffsetsSeen


def loss_row(loss: Loss) -> dict[str, Any]:
    """Return a row of GET /losses."""
    view = loss.view
    return {
        "at_ms": view.ended_ms,
        "key": view.key,
        "transaction": view.transaction,
        "producer_id": view.producer_id,
        "producer_epoch": view.producer_epoch,
        "pipeline": loss.pipeline,
        "checkpoint": loss.checkpoint,
        "verdict": loss.verdict.value,
        "certainty": loss.certainty.value,
        "why": loss.why,
        "cause": loss.cause.cause.value if loss.cause is not None else None,
        "cause_certainty": loss.cause.certainty.value if loss.cause is not None else None,
        "opened_at_ms": view.opened_ms,
        "rows": view.handle.rows if view.handle is not None else None,
        "partitions": sorted(view.broker.partitions) if view.broker is not None else [],
        "offsets": [_offsets(seen) for seen in loss.offsets],
    }


def _offsets(seen: OffsetsSeen) -> dict[str, Any]:
    certainty = Certainty.LIKELY if seen.first_is_exact else Certainty.GUESS
    return {
        "partition": seen.partition,
        "first": seen.first,
        "next": seen.next_offset,
        "certainty": certainty.value,
        "how": seen.how,
    }
