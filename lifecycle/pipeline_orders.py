"""Orders to a pipeline's supervisor, and their codec: records of the topic ``pipeline_orders``.

They need no open port; who may give one is what Kafka lets write to the topic. Each names the one run that it is meant
for, so that an old record never hits a newer run. They are answered by lifecycle events (``order`` holds the order's id).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.json_record import read_object

RECORD_VERSION = 1


class PipelineAction(Enum):
    """What a supervisor may be ordered to do."""

    RESTART = "restart"
    """End the driver in order, by force where it stands still, and start the next one at once."""
    STOP = "stop"
    """End the driver in order, by force where it stands still, then the supervisor. The checkpoint is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one pipeline: ``attempt`` is the offset of its *run started* record in the decision log."""

    prefix: str
    checkpoint_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOrder:
    """Do this to that run, and to no other one; ``id`` is the order's own, ``at_ms`` epoch ms."""

    run: Run
    action: PipelineAction
    who: str
    reason: str
    id: str
    at_ms: int


def encode(order: PipelineOrder) -> bytes:
    """Return the order as it stands in the topic: one JSON object, UTF-8."""
    value = {
        "version": RECORD_VERSION,
        "prefix": order.run.prefix,
        "checkpoint_id": order.run.checkpoint_id,
        "attempt": order.run.attempt,
        "action": order.action.value,
        "who": order.who,
        "reason": order.reason,
        "id": order.id,
        "at_ms": order.at_ms,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode(value: bytes | None) -> PipelineOrder:
    """Return the order. Raises UnknownVersion for a newer format and MalformedRecord that says which field is wrong."""
    fields = read_object(value, "pipeline order")
    if fields.get("version") != RECORD_VERSION:
        raise UnknownVersion(
            f"pipeline order has version {fields.get('version')!r}; this program knows {RECORD_VERSION}"
        )
    run = Run(
        prefix=_text(fields, "prefix"), checkpoint_id=_text(fields, "checkpoint_id"), attempt=_int(fields, "attempt")
    )
    try:
        action = PipelineAction(fields.get("action"))
    except ValueError:
        raise MalformedRecord(f"pipeline order has action {fields.get('action')!r}") from None
    return PipelineOrder(
        run=run,
        action=action,
        who=_text(fields, "who"),
        reason=_text(fields, "reason"),
        id=_text(fields, "id"),
        at_ms=_int(fields, "at_ms"),
    )


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedRecord(f"pipeline order field {name!r} is {value!r}, not text")
    return value


def _int(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedRecord(f"pipeline order field {name!r} is {value!r}, not a whole number")
    return value
