"""What Flink's two JDBC sinks keep of their XA transactions: those that are prepared, and those that are to be rolled back.

Source: XaSinkStateSerializer, CheckpointAndXidSerializer, XidSerializer, JdbcWriterStateSerializer, JdbcCommitableSerializer and
TransactionId of flink-connector-jdbc. After a restore both sinks commit what is prepared here and roll back the others
(JdbcXaSinkFunction.open, XaTransaction.open). JdbcSink's committer commits nothing: its committables are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.metadata_file import FlinkOperator
from indoubt.lifecycle.branch_id import XA_PART_BYTES
from indoubt.resource_managers.mysql.xa_xid import XaXid

FUNCTION_STATE = "XaSinkState"
"""The operator state of JdbcXaSinkFunction; its elements have no length before them."""
WRITER_VERSION = 2
SINK_FORMAT_ID = 202
_ID_BYTES = 36
"""Job id, subtask, number of subtasks, checkpoint, attempts (TransactionId.serialize)."""
_LEAST_XID_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkBranch:
    """One prepared XA transaction, which a restore from this checkpoint commits."""

    operator: FlinkOperator
    """The sink."""
    checkpoint_id: int
    xid: XaXid
    """One of JdbcSink without the zeros behind its parts."""


def read_function_state(element: BigEndianReader, operator: FlinkOperator) -> Iterator[FlinkBranch]:
    """Yield what is prepared in one element of JdbcXaSinkFunction's state. Raises MalformedRecord."""
    for _ in range(element.count("the number of hanging transactions", _LEAST_XID_BYTES)):
        _xid(element)
    for _ in range(element.count("the number of prepared transactions", 12 + _LEAST_XID_BYTES)):
        checkpoint_id = element.int64("a checkpoint's id")
        element.skip(4, "the number of attempts")
        yield FlinkBranch(operator=operator, checkpoint_id=checkpoint_id, xid=_xid(element))


def read_jdbc_writer_state(state: BigEndianReader, operator: FlinkOperator) -> Iterator[FlinkBranch]:
    """Yield what is prepared in the state of one writer of JdbcSink, behind its version and size. Raises MalformedRecord."""
    for _ in range(state.count("the number of hanging transactions", 1 + _ID_BYTES)):
        _transaction_id(state)
    for _ in range(state.count("the number of prepared transactions", 1 + _ID_BYTES)):
        checkpoint_id, xid = _transaction_id(state)
        yield FlinkBranch(operator=operator, checkpoint_id=checkpoint_id, xid=xid)
    _ends_with_zeros(state, "the writer's state")


def is_jdbc_committable(committable: BigEndianReader) -> bool:
    """Say whether what follows is an xid of JdbcSink."""
    raw = committable.data[committable.at : committable.end]
    return raw[:4] == SINK_FORMAT_ID.to_bytes(4, "big") and len(raw) > 4 and raw[4] <= XA_PART_BYTES


def _xid(reader: BigEndianReader) -> XaXid:
    format_id = reader.int32("the format id of an xid")
    gtrid, bqual = _xid_part(reader, "an xid's global part"), _xid_part(reader, "an xid's branch part")
    if format_id < 0 or not gtrid:
        raise reader.error("this is no xid", reader.at)
    return XaXid(format_id=format_id, gtrid=gtrid, bqual=bqual)


def _xid_part(reader: BigEndianReader, field: str) -> bytes:
    size = reader.int8(f"the size of {field}")
    if size > XA_PART_BYTES:
        raise reader.error(f"{field} has {size} bytes, more than {XA_PART_BYTES}", reader.at - 1)
    at = reader.skip(size, field)
    return reader.data[at : at + size]


def _transaction_id(reader: BigEndianReader) -> tuple[int, XaXid]:
    """Return the checkpoint and the xid of a TransactionId."""
    part = reader.part(reader.int8("the size of a transaction's id"), "a transaction's id")
    at = part.skip(_ID_BYTES, "a transaction's id")
    _ends_with_zeros(part, "a transaction's id")
    raw = reader.data[at : at + _ID_BYTES]
    return int.from_bytes(raw[24:32], "big", signed=True), XaXid(
        format_id=SINK_FORMAT_ID, gtrid=raw[:20], bqual=raw[20:32]
    )


def _ends_with_zeros(reader: BigEndianReader, field: str) -> None:
    """Raise unless only the zeros follow that DataOutputSerializer.getSharedBuffer leaves."""
    if any(reader.data[reader.at : reader.end]):
        raise reader.error(f"{field} has {reader.left} bytes too many", reader.at)
