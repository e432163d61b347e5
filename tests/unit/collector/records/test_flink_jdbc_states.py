"""What Flink's JDBC sinks keep: recorded checkpoints list what the database had prepared; cases that the recordings do not have."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from indoubt.collector.records.formats.flink_metadata import checkpoint_metadata
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import read_checkpoint_metadata
from indoubt.collector.records.formats.flink_metadata.commit_requests import WRITER_STATE
from indoubt.collector.records.formats.flink_metadata.jdbc_sink_states import read_function_state
from indoubt.collector.records.formats.flink_metadata.metadata_file import (
    FlinkOperator,
    MetadataFile,
    OperatorStates,
    Subtask,
)
from indoubt.collector.records.formats.flink_metadata.operator_state import read_elements
from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind, read_branches, read_requests
from indoubt.collector.records.formats.flink_metadata.state_handles import StateBytes
from indoubt.collector.records.xids import as_listed, xid_of
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.mysql.xa_xid import XaXid
from tests.unit.collector.records.flink_metadata_recordings import RECORDED, metadata_bytes, opener, read, read_damaged

FUNCTIONS, SINK = ["1.20-jdbc-function-mariadb", "1.20-jdbc-function-postgres"], "1.20-jdbc-sink-postgres"
UNCOMMITTED = "1.20-jdbc-sink-uncommitted-postgres"
ID = bytes(range(16)) + struct.pack(">iiqi", 2, 4, 7, 0)
"""TransactionId.serialize: job, subtask 2 of 4, checkpoint 7, no attempts."""


def listed_by_the_database(name: str) -> list[XaXid]:
    rows: list[dict[str, Any]] = json.loads((RECORDED / name / "prepared.json").read_text())
    found = []
    for row in rows:
        if "transaction" in row:
            xid = xid_of("postgres", row["transaction"])
            assert xid is not None
        else:
            data = bytes.fromhex(row["data"])
            xid = XaXid.from_recover((row["format_id"], row["gtrid_length"], row["bqual_length"], data))
        found.append(as_listed(xid))
    return found


@pytest.mark.parametrize("name", [*FUNCTIONS, SINK, UNCOMMITTED])
def test_names_exactly_the_branches_that_the_database_lists(name: str) -> None:
    checkpoint = read(name)
    assert (checkpoint.checkpoint_id, checkpoint.unread) == (3, ())
    assert list(checkpoint.branches) == listed_by_the_database(name)
    assert not checkpoint.committables
    assert not checkpoint.writer_states


def test_the_newer_sink_has_committed_before_its_checkpoint_is_written() -> None:
    assert read(SINK).branches == ()
    assert len(read(UNCOMMITTED).branches) == 3, "but what its database refused to commit it lists"


@pytest.mark.parametrize("name", [*FUNCTIONS, SINK])
def test_a_damaged_file_is_an_error_or_another_list(name: str) -> None:
    data = metadata_bytes(name)
    for found in read_damaged(name):
        assert len(found.branches) <= 1
    for length in range(len(data)):
        with pytest.raises(MalformedRecord):
            read_checkpoint_metadata(data[:length], opener(name))


def writer_state(hanging: list[bytes], prepared: list[bytes], version: int = 2, behind: bytes = bytes(9)) -> bytes:
    """Return what JdbcWriterStateSerializer writes, with the zeros that getSharedBuffer leaves."""
    ids = [
        struct.pack(">i", len(part)) + b"".join(bytes([len(each)]) + each for each in part)
        for part in (hanging, prepared)
    ]
    state = b"".join(ids) + behind
    return struct.pack(">ii", version, len(state)) + state


def branches(state: bytes) -> list[XaXid] | None:
    return read_branches(BigEndianReader(state, "a state"))


def test_the_newer_sinks_writer_lists_what_it_could_not_commit() -> None:
    xid = XaXid(format_id=202, gtrid=ID[:20], bqual=ID[20:32])
    assert branches(writer_state([ID + bytes(32)], [ID + bytes(32), ID])) == [xid, xid]
    assert branches(writer_state([ID], [])) == []


@pytest.mark.parametrize(
    "state",
    [
        writer_state([], [ID], version=1),
        writer_state([], [ID], behind=b"\1"),
        writer_state([], [ID[:-1]]),
        writer_state([], [ID + b"\1"]),
        writer_state([], [ID])[:-10],
        struct.pack(">iih6sii", 2, 16, 6, b"orders", 0, 1),
    ],
    ids=["version", "bytes behind", "short id", "long id", "cut", "of the Kafka sink"],
)
def test_another_writers_state_is_none_of_the_jdbc_sink(state: bytes) -> None:
    assert branches(state) is None


def test_what_the_newer_sinks_committer_holds_is_passed_over() -> None:
    """Its committer commits nothing after a restore: only what the writer lists is committed."""

    def versioned(version: int, body: bytes) -> bytes:
        return struct.pack(">ii", version, len(body)) + body

    def members(version: int, body: bytes) -> bytes:
        return struct.pack(">iii", version, 1, len(body)) + body

    xid = struct.pack(">ib", 202, 34) + ID[:20] + bytes(14) + struct.pack(">b", 13) + ID[20:32] + b"\0"
    request = versioned(1, xid + bytes(20)) + struct.pack(">ii", 0, 0)
    writer = struct.pack(">i", 0) + members(0, request) + struct.pack(">ii", 1, 0)
    checkpoint = struct.pack(">qi", 3, 1) + members(2, writer)
    collector = struct.pack(">I", 0xB91F252C) + members(1, checkpoint)
    (found,) = read_requests(BigEndianReader(versioned(2, collector), "a state"))
    assert (found.kind, found.found, found.why) == (SinkKind.JDBC, None, None)


@pytest.mark.parametrize(
    ("prepared", "found", "unread"),
    [([[ID]], 1, 0), ([[ID], [ID]], 0, 2), ([[ID], []], 0, 2), ([[], []], 0, 0)],
    ids=["one sink", "two sinks", "two sinks, one has nothing", "two sinks, nothing prepared"],
)
def test_what_two_of_the_newer_sinks_have_prepared_cannot_be_told_apart(
    prepared: list[list[bytes]], found: int, unread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, subtasks = b"", []
    for number, ids in enumerate(prepared):
        state = writer_state([], ids)
        at, content = len(data), struct.pack(">ib", 6, 0) + struct.pack(">i", len(state)) + state
        data += content
        inline = StateBytes(path=None, is_relative=False, at=at, size=len(content))
        states = OperatorStates(offsets={WRITER_STATE: (5,)}, content=inline)
        operator = FlinkOperator(operator_id=f"{number}" * 32, name="")
        subtasks.append(Subtask(operator=operator, states=states, input_channel_states=0, output_channel_states=0))
    file = MetadataFile(checkpoint_id=3, kind=None, subtasks=tuple(subtasks))
    monkeypatch.setattr(checkpoint_metadata, "read_structure", lambda *_: file)
    checkpoint = read_checkpoint_metadata(data, opener(SINK))
    assert (len(checkpoint.branches), len(checkpoint.unread)) == (found, unread)


def function_state(*prepared: tuple[int, bytes, bytes]) -> bytes:
    """Return what XaSinkStateSerializer writes: one hanging, and these (format id, gtrid, bqual) prepared."""

    def xid(format_id: int, gtrid: bytes, bqual: bytes) -> bytes:
        return struct.pack(">ib", format_id, len(gtrid)) + gtrid + struct.pack(">b", len(bqual)) + bqual

    of_prepared = b"".join(struct.pack(">qi", 3, 0) + xid(*each) for each in prepared)
    return struct.pack(">i", 1) + xid(201, b"h", b"") + struct.pack(">i", len(prepared)) + of_prepared


def read_functions(state: bytes, *offsets: int) -> list[XaXid]:
    elements = read_elements(BigEndianReader(state, "a state"), offsets, have_lengths=False)
    return [xid for element in elements for xid in read_function_state(element)]


def test_elements_without_lengths_end_where_the_next_begins() -> None:
    first, second = function_state((201, b"one", b"1")), function_state((201, b"two", b""), (7, b"three", b"3"))
    state = struct.pack(">ib", 6, 0) + first + second + b"other states"
    found = read_functions(state, 5, 5 + len(first))
    assert [xid.gtrid for xid in found] == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("state", "offsets", "said"),
    [
        (struct.pack(">ib", 6, 1) + function_state((201, b"one", b"")), [5], "compressed"),
        (struct.pack(">ib", 6, 0) + function_state((201, b"", b"")), [5], "no xid"),
        (struct.pack(">ib", 6, 0) + function_state((201, b"g" * 65, b"")), [5], "65 bytes, more than 64"),
        (struct.pack(">ib", 6, 0) + function_state((-1, b"g", b"")), [5], "no xid"),
        (struct.pack(">ib", 6, 0) + function_state((201, b"one", b"")), [5, 500], "outside"),
        (struct.pack(">ib", 6, 0) + struct.pack(">i", 2**30), [5], "the number of hanging transactions"),
    ],
)
def test_damage_is_an_error(state: bytes, offsets: list[int], said: str) -> None:
    with pytest.raises(MalformedRecord, match=said):
        read_functions(state, *offsets)
