"""Orders to a pipeline's supervisor, and their codec: records of the topic ``pipeline_orders``.

They need no open port; who may give one is what Kafka lets write to the topic. Each names the one run that it is meant
for, so that an old record never hits a newer run. They are answered by lifecycle events (``order`` holds the order's id).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum

from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.json_record import read_object
from indoubt.lifecycle.record_fields import read_fields

RECORD_VERSION = 1
WHAT = "pipeline order"


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
    value = {"version": RECORD_VERSION, **asdict(order), "action": order.action.value}
    value |= value.pop("run")
    return json.dumps(value, separators=(",", ":")).encode()


def decode(value: bytes | None) -> PipelineOrder:
    """Return the order. Raises UnknownVersion for a newer format and MalformedRecord that says which field is wrong."""
    fields = read_object(value, WHAT)
    if fields.get("version") != RECORD_VERSION:
        raise UnknownVersion(
            f"pipeline order has version {fields.get('version')!r}; this program knows {RECORD_VERSION}"
        )
    try:
        action = PipelineAction(fields.get("action"))
    except ValueError:
        raise MalformedRecord(f"pipeline order has action {fields.get('action')!r}") from None
    run = read_fields(Run, fields, WHAT)
    order = read_fields(PipelineOrder, fields, WHAT, run=run, action=action)
    for name, value_ in (asdict(run) | asdict(order)).items():
        if value_ == "":
            raise MalformedRecord(f"pipeline order field {name!r} is empty")
    return order
