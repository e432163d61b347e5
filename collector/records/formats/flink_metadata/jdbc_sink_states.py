"""What Flink's two JDBC sinks keep of their XA transactions: those that are prepared, and those that are to be rolled back.

Source: XaSinkStateSerializer, CheckpointAndXidSerializer, XidSerializer, JdbcWriterStateSerializer, JdbcCommitableSerializer and
TransactionId of flink-connector-jdbc. After a restore both sinks commit what is prepared here and roll back the others
(JdbcXaSinkFunction.open, XaTransaction.open). JdbcSink's committer commits nothing: its committables are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.lifecycle.branch_id import XA_PART_BYTES
from indoubt.resource_managers.mysql.xa_xid import XaXid

FUNCTION_STATE = "XaSinkState"
"""The operator state of JdbcXaSinkFunction; its elements have no length before them."""
WRITER_VERSION = 2
SINK_FORMAT_ID = 202
_ID_BYTES = 36
"""Job id, subtask, number of subtasks, checkpoint, attempts (TransactionId.serialize)."""
_LEAST_XID_BYTES = 6


def read_function_state(element: BigEndianReader) -> Iterator[XaXid]:
    """Yield what is prepared in one element of JdbcXaSinkFunction's state. Raises MalformedRecord."""
    for _ in range(element.count("the number of hanging transactions", _LEAST_XID_BYTES)):
        _xid(element)
    for _ in range(element.count("the number of prepared transactions", 12 + _LEAST_XID_BYTES)):
        element.skip(12, "a checkpoint's id and the number of attempts")
        yield _xid(element)


def read_jdbc_writer_state(state: BigEndianReader) -> Iterator[XaXid]:
    """Yield what is prepared in the state of one writer of JdbcSink, behind its version and size. Raises MalformedRecord.

    The xids are without the zeros behind their parts.
    """
    for _ in range(state.count("the number of hanging transactions", 1 + _ID_BYTES)):
        _transaction_id(state)
    for _ in range(state.count("the number of prepared transactions", 1 + _ID_BYTES)):
        yield _transaction_id(state)
    _ends_with_zeros(state, "the writer's state")


def is_jdbc_committable(committable: BigEndianReader) -> bool:
    """Say whether what follows is an xid of JdbcSink."""
    raw = committable.rest
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
    return reader.raw(size, field)


def _transaction_id(reader: BigEndianReader) -> XaXid:
    """Return the xid of a TransactionId."""
    part = reader.part(reader.int8("the size of a transaction's id"), "a transaction's id")
    raw = part.raw(_ID_BYTES, "a transaction's id")
    _ends_with_zeros(part, "a transaction's id")
    return XaXid(format_id=SINK_FORMAT_ID, gtrid=raw[:20], bqual=raw[20:32])


def _ends_with_zeros(reader: BigEndianReader, field: str) -> None:
    """Raise unless only the zeros follow that DataOutputSerializer.getSharedBuffer leaves."""
    if any(reader.rest):
        raise reader.error(f"{field} has {reader.left} bytes too many", reader.at)
