"""Events of Iceberg's sink for Kafka Connect in its control topic (AvroUtil of iceberg-kafka-connect-events 1.9 to 1.11)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.formats.avro import AvroRecord, read_avro_record
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.lifecycle.errors import MalformedRecord

_TYPE, _TIMESTAMP, _GROUP, _PAYLOAD = 10_501, 10_502, 10_503, 10_504
_WRITTEN_TABLE, _DATA_FILES, _DELETE_FILES = 10_301, 10_302, 10_304
_NAMESPACE, _NAME, _TABLE_UUID = 10_601, 10_603, 10_604
_PATH, _ROWS = 100, 103


class EventKind(Enum):
    """What an event tells; the value is its number in the record."""

    START_COMMIT = 0
    """A coordinator asks for what was written since."""
    DATA_WRITTEN = 1
    """A task has written files and closed them."""
    DATA_COMPLETE = 2
    """A task has told of all of its files."""
    COMMIT_TO_TABLE = 3
    """A coordinator has added files to one table."""
    COMMIT_COMPLETE = 4


_COMMIT_ID = {
    EventKind.START_COMMIT: 10_200,
    EventKind.DATA_WRITTEN: 10_300,
    EventKind.DATA_COMPLETE: 10_100,
    EventKind.COMMIT_TO_TABLE: 10_400,
    EventKind.COMMIT_COMPLETE: 10_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlEvent:
    """``group``: the consumer group of the connector; ``commit``: the commit's id; ``at_ms``: epoch ms, the clock of who wrote it.

    Of DATA_WRITTEN: ``table``: namespace and name with dots; ``table_uuid``: empty before Iceberg 1.11; ``files``: paths of the
    data and delete files that have rows, which are all that a coordinator adds; ``rows``: of the data files.
    """

    kind: EventKind
    group: str
    commit: str
    at_ms: int
    table: str = ""
    table_uuid: str = ""
    files: frozenset[str] = frozenset()
    rows: int = 0


def decode(value: bytes) -> ControlEvent:
    """Return the event that a record's value holds. Raises MalformedRecord."""
    reader = BigEndianReader(value, "control event")
    event = read_avro_record(reader)
    try:
        return _event(event)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedRecord(f"control event lacks what its kind has: {type(error).__name__} {error}") from None


def _event(event: AvroRecord) -> ControlEvent:
    kind, payload = EventKind(event[_TYPE]), event[_PAYLOAD]
    group, at_us, commit = event[_GROUP], event[_TIMESTAMP], str(uuid.UUID(bytes=payload[_COMMIT_ID[kind]]))
    if not isinstance(group, str) or not isinstance(at_us, int):
        raise ValueError("group or time")
    if kind is not EventKind.DATA_WRITTEN:
        return ControlEvent(kind=kind, group=group, commit=commit, at_ms=at_us // 1000)
    table = payload[_WRITTEN_TABLE]
    identity = table.get(_TABLE_UUID)
    data, deletes = ([each for each in payload[of] or () if each[_ROWS] > 0] for of in (_DATA_FILES, _DELETE_FILES))
    return ControlEvent(
        kind=kind,
        group=group,
        commit=commit,
        at_ms=at_us // 1000,
        table=".".join((*table[_NAMESPACE], table[_NAME])),
        table_uuid=str(uuid.UUID(bytes=identity)) if identity is not None else "",
        files=frozenset(str(each[_PATH]) for each in (*data, *deletes)),
        rows=sum(each[_ROWS] for each in data),
    )
