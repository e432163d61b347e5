"""XA xids as MySQL and MariaDB read and list them: ours are written as branch ids, foreign ones as SQL literals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from indoubt.lifecycle.branch_id import XA_FORMAT_ID, XA_PART_BYTES, BranchId
from indoubt.lifecycle.errors import MalformedRecord

_LITERAL = re.compile(r"X'(?P<gtrid>(?:[0-9a-f]{2})*)',X'(?P<bqual>(?:[0-9a-f]{2})*)',(?P<format>\d+)")
_TEXT = re.compile(r"'(?P<gtrid>[!#-&(-\[\]-~]*)','(?P<bqual>[!#-&(-\[\]-~]*)',(?P<format>\d+)")
"""Printable ASCII without quotes, spaces and backslashes: what can be shown as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XaXid:
    """One xid: format id, global part and branch part, 64 bytes each at most."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """Return the branch id when it is ours, else ``'gtrid','bqual',format`` with hex (X'..') for what is not text."""
        managed = BranchId.from_xid(self.format_id, self.gtrid, self.bqual)
        if managed is not None:
            return str(managed)
        try:
            text = f"'{self.gtrid.decode('ascii')}','{self.bqual.decode('ascii')}',{self.format_id}"
        except UnicodeDecodeError:
            return self.literal
        return text if _TEXT.fullmatch(text) else self.literal

    @property
    def literal(self) -> str:
        """Return it as XA statements take it, in hex, so that nothing needs to be quoted."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id:d}"

    @classmethod
    def of(cls, branch: BranchId) -> XaXid:
        """Return the xid of one of our branches."""
        return cls(format_id=XA_FORMAT_ID, gtrid=branch.gtrid.encode(), bqual=branch.bqual.encode())

    @classmethod
    def parse(cls, text: str) -> XaXid:
        """Return the xid that ``str`` wrote, ours or foreign. Raises MalformedRecord."""
        branch = BranchId.parse(text)
        if branch is not None:
            return cls.of(branch)
        if match := _LITERAL.fullmatch(text):
            gtrid, bqual = bytes.fromhex(match["gtrid"]), bytes.fromhex(match["bqual"])
        elif match := _TEXT.fullmatch(text):
            gtrid, bqual = match["gtrid"].encode(), match["bqual"].encode()
        else:
            raise MalformedRecord(f"{text!r} is neither a branch id nor an xid ('gtrid','bqual',format)")
        if not 1 <= len(gtrid) <= XA_PART_BYTES or len(bqual) > XA_PART_BYTES:
            raise MalformedRecord(f"{text!r}: an xid's parts have 1 to {XA_PART_BYTES} and 0 to {XA_PART_BYTES} bytes")
        return cls(format_id=int(match["format"]), gtrid=gtrid, bqual=bqual)

    @classmethod
    def from_recover(cls, row: Sequence[Any]) -> XaXid:
        """Return the xid of a row of XA RECOVER: format id, both lengths, and the bytes or (CONVERT XID) ``0x`` and hex."""
        format_id, gtrid_length, bqual_length, data = row
        length = gtrid_length + bqual_length
        if isinstance(data, str):
            converted = data[:2].lower() == "0x" and len(data) == 2 + 2 * length
            data = bytes.fromhex(data[2:]) if converted else data.encode("utf-8", "surrogateescape")
        elif len(data) == 2 + 2 * length and data[:2].lower() == b"0x":
            data = bytes.fromhex(data[2:].decode("ascii"))
        if len(data) != length:
            raise MalformedRecord(f"XA RECOVER lists {data!r} with lengths {gtrid_length} and {bqual_length}")
        return cls(format_id=format_id, gtrid=data[:gtrid_length], bqual=data[gtrid_length:])
