"""Events of the control topic that real sinks for Kafka Connect wrote, of three releases, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.collector.records.formats.iceberg_events import ControlEvent, EventKind, decode
from indoubt.lifecycle.errors import MalformedRecord

RECORDED = Path(__file__).with_name("iceberg_control_recorded")
RELEASES = ("1.9.2", "1.10.1", "1.11.0")


def recorded(release: str, kind: EventKind) -> bytes:
    return (RECORDED / release / kind.name.lower()).read_bytes()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_is_read(release: str, kind: EventKind) -> None:
    event = decode(recorded(release, kind))
    assert (event.kind, event.group) == (kind, "connect-lake")
    # A coordinator adds what it was told of earlier too, under the commit of then.
    is_told_earlier = kind is EventKind.DATA_WRITTEN and release != "1.11.0"
    assert (event.commit == decode(recorded(release, EventKind.START_COMMIT)).commit) is not is_told_earlier
    assert 1_796_000_000_000 < event.at_ms < 1_797_000_000_000


@pytest.mark.parametrize("release", RELEASES)
def test_what_was_written_is_read_with_its_table_and_files(release: str) -> None:
    event = decode(recorded(release, EventKind.DATA_WRITTEN))
    (file,) = event.files
    assert (event.table, event.rows) == ("db.orders", 10)
    assert file.startswith("file:/")
    assert "/warehouse/db/orders/data/" in file
    assert file.endswith(".parquet")
    assert len(event.table_uuid) == (36 if release == "1.11.0" else 0)


def test_what_is_no_event_is_malformed() -> None:
    whole = recorded("1.11.0", EventKind.DATA_WRITTEN)
    for damaged in (b"", b"{}", whole[:-1], whole + b"\0", whole[:700], b"\xc2\x01\x00\x06" + b'"int"'):
        with pytest.raises(MalformedRecord):
            decode(damaged)
    other = whole.replace(b'"field-id":10501', b'"field-id":10999')
    with pytest.raises(MalformedRecord, match="control event lacks what its kind has"):
        decode(other)


def test_a_number_that_no_kind_has_is_malformed() -> None:
    event = decode(recorded("1.11.0", EventKind.START_COMMIT))
    assert isinstance(event, ControlEvent)
    raw = bytearray(recorded("1.11.0", EventKind.START_COMMIT))
    at = 4 + int.from_bytes(raw[2:4], "big") + 16
    raw[at] = 2 * 9
    with pytest.raises(MalformedRecord, match="9 is not a valid EventKind"):
        decode(bytes(raw))
