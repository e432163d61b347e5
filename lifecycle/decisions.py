"""The decision log's records and their codec: one JSON object each. What they mean together: decision_ledger.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import Enum
from itertools import pairwise
from typing import Any

from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.json_record import read_object
from indoubt.lifecycle.record_fields import read_fields

RECORD_VERSION = 1
WHAT = "decision record"


class Ruling(Enum):
    """What a decision says about its batch."""

    COMMIT = "commit"
    ABORT = "abort"


class Settled(Enum):
    """How a decided handle ended."""

    COMMITTED = "committed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAttempt:
    """One try at one batch of one checkpoint directory: what a decision is about.

    ``attempt`` is the log offset of the run's *run started* record.
    """

    checkpoint_id: str
    batch: int
    attempt: int

    @property
    def marker(self) -> Marker:
        """Return the proof of it inside its transactions."""
        return Marker(batch=self.batch, attempt=self.attempt, checkpoint_id=self.checkpoint_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run of a prefix began; its offset in the log is the run's attempt number.

    ``writes_to`` are the resource managers of its sink; in all of ``recovers_in`` it rolls back what earlier runs left.
    """

    prefix: str
    checkpoint_id: str
    run: str
    at_ms: int
    writes_to: tuple[str, ...] = ()
    recovers_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Commit exactly these handles, or abort the batch; ``who`` is a run or an operator."""

    prefix: str
    batch_attempt: BatchAttempt
    ruling: Ruling
    handles: tuple[Handle, ...]
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How decided handles of one batch ended, by their keys: all of them the same way."""

    prefix: str
    batch_attempt: BatchAttempt
    handle_keys: tuple[str, ...]
    settled: Settled
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTakenOver:
    """A checkpoint directory goes on as ``new_checkpoint_id``; from here on nothing counts that a run of ``checkpoint_id`` decides.

    ``attempt`` is the run that was started under the old checkpoint id for this. All others tell of the new one, for people:
    its prefix, sink and decision log, and where the directory was.
    """

    prefix: str
    checkpoint_id: str
    attempt: int
    new_checkpoint_id: str
    sink: str
    decisions: str
    location: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A record that a snapshot repeats: where it stands in the log, and whether it counts."""

    offset: int
    counts: bool
    record: RunStarted | Decision | Outcome | CheckpointTakenOver


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What still matters of the log before the offset ``covers``, in log order: the log may be cut before ``begin``.

    Whoever starts here applies records from ``covers`` on. It reads from ``begin`` on, for parts of records that are whole only
    behind ``covers``.
    """

    prefix: str
    begin: int
    covers: int
    kept: tuple[Kept, ...]
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a record that is too large for one: base64 of its JSON. It counts when all ``count`` of them stand in the log."""

    prefix: str
    id: str
    index: int
    count: int
    data: str
    at_ms: int


_TYPES: dict[type, str] = {
    RunStarted: "run_started",
    Decision: "decision",
    Outcome: "outcome",
    CheckpointTakenOver: "checkpoint_taken_over",
    Snapshot: "snapshot",
    Part: "part",
}
DecisionRecord = RunStarted | Decision | Outcome | CheckpointTakenOver | Snapshot
"""What a ledger is fed."""
LogRecord = DecisionRecord | Part
"""What stands in the log."""


def encode(record: LogRecord) -> bytes:
    """Return the record as it stands in the log: one JSON object, ASCII."""
    return json.dumps(_to_fields(record), separators=(",", ":")).encode()


def decode(value: bytes | None) -> LogRecord:
    """Return the record.

    Raises UnknownVersion for what a newer program wrote: whoever cannot understand it may decide nothing. Raises MalformedRecord
    that says which field is wrong for what no program of this protocol wrote.
    """
    return _from_fields(read_object(value, WHAT))


def _to_fields(record: LogRecord) -> dict[str, Any]:
    value: dict[str, Any] = {"version": RECORD_VERSION, "type": _TYPES[type(record)]}
    value |= {field.name: getattr(record, field.name) for field in fields(record)}
    match record:
        case Decision():
            handles = [handle.to_json() for handle in record.handles]
            value |= {"ruling": record.ruling.value, "handles": handles, **asdict(value.pop("batch_attempt"))}
        case Outcome():
            value |= {"settled": record.settled.value, "handles": value.pop("handle_keys")}
            value |= asdict(value.pop("batch_attempt"))
        case Snapshot():
            value |= {"kept": [[kept.offset, kept.counts, _to_fields(kept.record)] for kept in record.kept]}
    return value


def _from_fields(fields: dict[str, Any]) -> LogRecord:
    version = fields.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise MalformedRecord(f"decision record has version {version!r}: it is none of this protocol")
    if version > RECORD_VERSION:
        raise UnknownVersion(f"decision record has version {version}; this program knows {RECORD_VERSION}")
    try:
        kind = _KINDS.get(fields["type"]) if isinstance(fields["type"], str) else None
        if kind is None:
            raise UnknownVersion(f"decision record has type {fields['type']!r}, which this program does not know")
        return _READERS[kind](fields) if kind in _READERS else read_fields(kind, fields, WHAT)
    except KeyError as error:
        raise MalformedRecord(f"decision record has no {error}") from None
    except (TypeError, ValueError) as error:
        raise MalformedRecord(f"decision record: {error}") from None


def _decision(fields: dict[str, Any]) -> Decision:
    handles = tuple(Handle.from_json(handle) for handle in _list(fields, "handles"))
    batch_attempt, ruling = read_fields(BatchAttempt, fields, WHAT), Ruling(fields["ruling"])
    return read_fields(Decision, fields, WHAT, batch_attempt=batch_attempt, ruling=ruling, handles=handles)


def _outcome(fields: dict[str, Any]) -> Outcome:
    batch_attempt, settled = read_fields(BatchAttempt, fields, WHAT), Settled(fields["settled"])
    keys = tuple(_list(fields, "handles"))
    if not all(isinstance(key, str) for key in keys):
        raise MalformedRecord("decision record field 'handles' holds what is not text")
    return read_fields(Outcome, fields, WHAT, batch_attempt=batch_attempt, handle_keys=keys, settled=settled)


def _snapshot(fields: dict[str, Any]) -> Snapshot:
    kept = []
    for offset, counts, inner in _list(fields, "kept"):
        record = _from_fields(inner) if isinstance(inner, dict) else None
        if (
            record is None
            or not isinstance(offset, int)
            or not isinstance(counts, bool)
            or isinstance(record, Snapshot | Part)
        ):
            raise MalformedRecord("decision record field 'kept' holds what is not [offset, counts, record]")
        kept.append(Kept(offset=offset, counts=counts, record=record))
    snapshot = read_fields(Snapshot, fields, WHAT, kept=tuple(kept))
    if any(after.offset <= before.offset for before, after in pairwise(kept)):
        raise MalformedRecord(
            "decision record field 'kept' is not in log order: each offset must be above the one before"
        )
    if kept and not 0 <= kept[0].offset <= kept[-1].offset < snapshot.covers:
        raise MalformedRecord(f"decision record field 'kept' holds offsets outside 0 to {snapshot.covers - 1}")
    return snapshot


def _part(fields: dict[str, Any]) -> Part:
    part = read_fields(Part, fields, WHAT)
    if not 0 <= part.index < part.count:
        raise MalformedRecord(f"decision record is part {part.index} of {part.count}")
    return part


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    if not isinstance(fields[name], list):
        raise MalformedRecord(f"decision record field {name!r} is not a list")
    return list(fields[name])


_READERS: dict[type, Callable[[dict[str, Any]], LogRecord]] = {
    Decision: _decision,
    Outcome: _outcome,
    Snapshot: _snapshot,
    Part: _part,
}
"""What reads a type of records; of the others, all stands under its own name."""
_KINDS = {name: kind for kind, name in _TYPES.items()}
