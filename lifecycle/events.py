"""Lifecycle events as CloudEvents 1.0 (JSON, structured mode), and their codec.

Events are informational: they may be lost, and no decision depends on them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import uuid4

from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.json_record import read_object

SPEC_VERSION = "1.0"
CONTENT_TYPE = "application/cloudevents+json"
TYPE_PREFIX = "io.indoubt."
STOPPED_ON_REQUEST = "stopped on request"
"""The reason in pipeline.stopped when a person asked for the stop: nothing is wrong then."""
_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
YEAR_10000_MS = 253_402_300_800_000


class EventType(Enum):
    """What happened. ``data`` holds, for every type, ``pipeline`` (the prefix), ``checkpoint_id`` and ``attempt``; besides:

    transaction.*: ``batch``, ``slot``, ``transaction`` (transactional id, xid or gid), ``producer_id``,
    ``producer_epoch``, ``resource_manager``; transaction.prepared also ``handle`` (the whole handle);
    transaction.timeout_near also ``age_ms`` and ``timeout_ms``; transaction.lost also ``reason``.
    checkpoint.*: ``batch``; checkpoint.completed also ``rows``, ``bytes``, ``duration_ms``;
    checkpoint.failed also ``reason``.
    pipeline.*: ``job``; pipeline.started also ``settings`` (interval_ms, transaction_timeout_ms, restart_delay_ms,
    checkpoint_directory, sink, source, alive_ms: how often pipeline.alive follows); pipeline.restarting also ``restart``
    (1, 2, …) and ``reason``; pipeline.stopped also ``reason``. Where an operator's order asked for it, restarting and
    stopped also ``order``, its id.
    """

    TRANSACTION_OPENED = "transaction.opened"
    TRANSACTION_PREPARED = "transaction.prepared"
    TRANSACTION_COMMIT_DECIDED = "transaction.commit_decided"
    TRANSACTION_COMMITTED = "transaction.committed"
    TRANSACTION_ABORTED = "transaction.aborted"
    TRANSACTION_LOST = "transaction.lost"
    TRANSACTION_TIMEOUT_NEAR = "transaction.timeout_near"
    CHECKPOINT_STARTED = "checkpoint.started"
    CHECKPOINT_COMPLETED = "checkpoint.completed"
    CHECKPOINT_FAILED = "checkpoint.failed"
    PIPELINE_STARTED = "pipeline.started"
    PIPELINE_ALIVE = "pipeline.alive"
    PIPELINE_RESTARTING = "pipeline.restarting"
    PIPELINE_STOPPED = "pipeline.stopped"

    # Each member is one object; Enum's own hash is Python code, and events are counted by their type.
    __hash__ = object.__hash__


_SIGNS = {
    EventType.TRANSACTION_OPENED: "a transaction was opened",
    EventType.TRANSACTION_PREPARED: "a transaction was prepared",
    EventType.TRANSACTION_COMMIT_DECIDED: "a commit was decided",
    EventType.TRANSACTION_COMMITTED: "a transaction was committed",
    EventType.TRANSACTION_ABORTED: "a transaction was aborted",
    EventType.TRANSACTION_LOST: "a transaction was lost",
    EventType.TRANSACTION_TIMEOUT_NEAR: "the timeout of a transaction was near",
    EventType.CHECKPOINT_STARTED: "a checkpoint began",
    EventType.CHECKPOINT_COMPLETED: "a checkpoint was completed",
    EventType.CHECKPOINT_FAILED: "a checkpoint failed",
    EventType.PIPELINE_STARTED: "the driver started",
    EventType.PIPELINE_ALIVE: "the driver was alive",
    EventType.PIPELINE_RESTARTING: "the supervisor restarted the driver",
    EventType.PIPELINE_STOPPED: "the supervisor ended",
}


def sign_in_words(heartbeat: str) -> str:
    """Return what a heartbeat told, ``a commit was decided``; one of another name as it is."""
    words = {f"event {kind.value}": said for kind, said in _SIGNS.items()}
    return words.get(heartbeat, heartbeat)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    """One event: ``source`` is ``/pipeline/<prefix>``, ``subject`` the transaction's key or the checkpoint, ``at_ms`` epoch ms."""

    type: EventType
    source: str
    subject: str
    at_ms: int
    data: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid4()))


def encode(event: LifecycleEvent) -> bytes:
    """Return the event as CloudEvents JSON, UTF-8."""
    return json.dumps(
        {
            "specversion": SPEC_VERSION,
            "id": event.id,
            "source": event.source,
            "type": TYPE_PREFIX + event.type.value,
            "subject": event.subject,
            "time": (_EPOCH + event.at_ms * _MS).isoformat(timespec="milliseconds"),
            "datacontenttype": "application/json",
            "data": event.data,
        },
        separators=(",", ":"),
    ).encode()


def decode(value: bytes | None) -> LifecycleEvent:
    """Return the event. Raises UnknownVersion for another specversion, MalformedRecord that names what is wrong."""
    fields = read_object(value, "event")
    if fields.get("specversion") != SPEC_VERSION:
        raise UnknownVersion(f"event has specversion {fields.get('specversion')!r}; this program knows {SPEC_VERSION}")
    for name in ("id", "source", "type", "time"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise MalformedRecord(f"event attribute {name!r} is {fields.get(name)!r}, not text")
    data = fields.get("data", {})
    if not isinstance(data, dict):
        raise MalformedRecord(f"event data is {type(data).__name__}, not an object")
    return LifecycleEvent(
        type=_type(fields["type"]),
        source=fields["source"],
        subject=str(fields.get("subject", "")),
        at_ms=_epoch_ms(fields["time"]),
        data=data,
        id=fields["id"],
    )


def _type(text: str) -> EventType:
    try:
        return EventType(text.removeprefix(TYPE_PREFIX) if text.startswith(TYPE_PREFIX) else "")
    except ValueError:
        raise MalformedRecord(f"event type {text!r} is unknown") from None


def _epoch_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise MalformedRecord(f"event time {text!r} is not RFC 3339") from None
    if moment.tzinfo is None:
        raise MalformedRecord(f"event time {text!r} has no time zone")
    at_ms = round((moment - _EPOCH) / _MS)
    if not 0 <= at_ms < YEAR_10000_MS:
        raise MalformedRecord(f"event time {text!r} is not in the years 1970 to 9999")
    return at_ms
