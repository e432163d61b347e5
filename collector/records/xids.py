"""The xid of a branch, by what its database lists, and which program made it. Pure.

Sources: SemanticXidGenerator and TransactionId of flink-connector-jdbc, RecoveredXid of pgjdbc, XATxConverter and FormatConstants
of Narayana, XID and UniqueIdMgr of Atomikos, XABranchXid of Seata, BitronixXid and UidGenerator of Bitronix. Spring has no format:
it uses one of these.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from indoubt.collector.records.formats.flink_records import Listed, ListedFile
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.resource_manager_kinds import FLINK_SINKS, MYSQL, POSTGRES
from indoubt.resource_managers.mysql.xa_xid import XaXid

FLINK_FUNCTION, FLINK_SINK = 201, 202
"""Format ids of JdbcXaSinkFunction (connector up to 3.4) and of JdbcSink (from 3.2 on)."""
FLINK = "Flink's JDBC sink"
_NARAYANA = {131072: "JTS", 131073: "JTS", 131074: "JTS", 131077: "JTA", 131080: "XTS"}
ATOMIKOS, SEATA, BITRONIX = "Atomikos", "Seata", "Bitronix"
_BY_FORMAT = {0x41544F4D: ATOMIKOS, 9752: SEATA, 0x42746E78: BITRONIX}
_ATOMIKOS_DIGITS, _BITRONIX_BYTES = 13 + 5, 8 + 4
"""Time and count of a transaction stand behind the name of the node."""
_UID_BYTES = 28
"""Narayana's gtrid begins with a Uid; the name of the node follows."""
_JOB_BYTES = 16
_GID = re.compile(r"(?P<format>-?\d{1,10})_(?P<gtrid>[A-Za-z0-9+/]*={0,2})_(?P<bqual>[A-Za-z0-9+/]*={0,2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkXid:
    """What an xid of Flink's JDBC sink says. ``checkpoint``: the number that its writer gave it, which is no proof of anything."""

    job: str
    subtask: int
    checkpoint: int
    is_function: bool
    """Of JdbcXaSinkFunction: the branch part is random, so that no xid is made twice. JdbcSink makes one again after a restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidOwner:
    """The program that made an xid, and what else the xid says of it, in words.

    ``node``: which of several that run the program, the same for all of its transactions; empty where the xid does not say.
    """

    program: str
    detail: str = ""
    node: str = ""
    flink: FlinkXid | None = None


def xid_of(resource_manager: str, transaction: str) -> XaXid | None:
    """Return the xid that a database's list shows, or None for a name that is none: PostgreSQL lists any text."""
    if resource_manager == POSTGRES.name:
        return _of_gid(transaction)
    if resource_manager == MYSQL.name:
        with suppress(MalformedRecord):
            return XaXid.parse(transaction)
    return None


def _of_gid(gid: str) -> XaXid | None:
    """Return the xid in the form of PostgreSQL's JDBC driver, format_gtrid_bqual in base64; None where it is not exactly that."""
    match = _GID.fullmatch(gid)
    if match is None:
        return None
    try:
        gtrid, bqual = (base64.b64decode(match[part], validate=True) for part in ("gtrid", "bqual"))
    except binascii.Error:
        return None
    return XaXid(format_id=int(match["format"]), gtrid=gtrid, bqual=bqual) if gtrid else None


def xid_owner(format_id: int, gtrid: bytes, bqual: bytes) -> XidOwner | None:
    """Return which program made an xid, by its format id and layout; None: not known."""
    flink = _flink(format_id, gtrid, bqual)
    if flink is not None:
        detail = f"job {flink.job}, subtask {flink.subtask}, number {flink.checkpoint}"
        return XidOwner(program=FLINK, detail=detail, node=f"job {flink.job}", flink=flink)
    if format_id in _NARAYANA:
        node = _text(gtrid[_UID_BYTES:])
        words = (_NARAYANA[format_id], f"node {node}" if node else "")
        return XidOwner(program="Narayana", detail=", ".join(word for word in words if word), node=node)
    program = _BY_FORMAT.get(format_id)
    return XidOwner(program=program, detail=_text(gtrid), node=_node(program, gtrid)) if program is not None else None


def _node(program: str, gtrid: bytes) -> str:
    """Return what the transactions of one node have in common: its name, or (Seata) the address of its coordinator."""
    if program == BITRONIX:
        return _text(gtrid[:-_BITRONIX_BYTES])
    text = _text(gtrid)
    if program == SEATA:
        return text.rpartition(":")[0]
    name, digits = text[:-_ATOMIKOS_DIGITS], text[-_ATOMIKOS_DIGITS:]
    return name if digits.isdecimal() else text.rstrip("0123456789")


@lru_cache(maxsize=16_384)
def owner_of(resource_manager: str, transaction: str) -> XidOwner | None:
    """Return which program made the branch that a database lists under this name; None: not known."""
    xid = xid_of(resource_manager, transaction)
    return xid_owner(xid.format_id, xid.gtrid, xid.bqual) if xid is not None else None


def as_listed(xid: XaXid) -> XaXid:
    """Return the xid as Flink's checkpoints are compared: one of JdbcSink without the zeros that its writer leaves behind it."""
    flink = _flink(xid.format_id, xid.gtrid, xid.bqual)
    if flink is None or flink.is_function:
        return xid
    return XaXid(format_id=xid.format_id, gtrid=xid.gtrid[: _JOB_BYTES + 4], bqual=xid.bqual[:12])


def listed_of(resource_manager: str, transaction: str) -> Listed | None:
    """Return how a checkpoint of Flink lists a branch of this name, or a file; None for what no checkpoint lists."""
    if resource_manager in FLINK_SINKS:
        return ListedFile(transaction)
    xid = xid_of(resource_manager, transaction)
    return as_listed(xid) if xid is not None else None


def _flink(format_id: int, gtrid: bytes, bqual: bytes) -> FlinkXid | None:
    job = gtrid[:_JOB_BYTES].hex()
    if format_id == FLINK_FUNCTION and (len(gtrid), len(bqual)) == (_JOB_BYTES + 12, 4):
        subtask, checkpoint = int.from_bytes(gtrid[16:20], "little"), int.from_bytes(gtrid[20:], "little")
        is_function = True
    elif format_id == FLINK_SINK and len(gtrid) >= _JOB_BYTES + 4 and len(bqual) >= 12:
        if any(gtrid[20:]) or any(bqual[12:]):
            return None
        subtask, checkpoint = int.from_bytes(gtrid[16:20], "big"), int.from_bytes(bqual[4:12], "big")
        is_function = False
    else:
        return None
    if subtask >= 2**31 or checkpoint >= 2**63:
        return None
    return FlinkXid(job=job, subtask=subtask, checkpoint=checkpoint, is_function=is_function)


def _text(raw: bytes) -> str:
    """Return printable ASCII, or nothing for other bytes."""
    text = raw.decode("ascii", "replace")
    return text if text.isascii() and text.isprintable() else ""
