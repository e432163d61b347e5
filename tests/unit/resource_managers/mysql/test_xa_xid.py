"""Xids are read from XA RECOVER, shown to people, and read back from what was shown."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.mysql.xa_xid import XaXid

OURS = BranchId(prefix="p", batch=1, attempt=2, slot=3, nonce="0a1b2c3d")


def test_ours_are_shown_as_branch_ids_and_sent_as_hex():
    xid = XaXid.of(OURS)
    assert str(xid) == "p:1:2:3:0a1b2c3d"
    assert xid.literal == f"X'{b'p:1:2'.hex()}',X'{b'3:0a1b2c3d'.hex()}',1"
    assert XaXid.parse(str(xid)) == xid


@pytest.mark.parametrize(
    ("format_id", "gtrid", "bqual", "shown"),
    [
        (1, b"order-7", b"", "'order-7','',1"),
        (4871251, b"tm1", b"rm#2", "'tm1','rm#2',4871251"),
        (2, b"p:1:2", b"3:0a1b2c3d", "'p:1:2','3:0a1b2c3d',2"),
        (0, b"\x00\xff", b"\n", "X'00ff',X'0a',0"),
        (1, b"it's", b"a", "X'69742773',X'61',1"),
        (1, b"back\\slash", b"", "X'6261636b5c736c617368',X'',1"),
    ],
)
def test_foreign_ones_and_back(format_id, gtrid, bqual, shown):
    xid = XaXid(format_id=format_id, gtrid=gtrid, bqual=bqual)
    assert str(xid) == shown
    assert XaXid.parse(shown) == xid


@pytest.mark.parametrize(
    "text",
    ["", "p", "'a','b'", "'a','b',x", "'a'b','c',1", "'a\\','b',1", "X'0',X'',1", "'','b',1", f"'{'a' * 65}','',1"],
)
def test_texts_that_are_no_xid(text):
    with pytest.raises(MalformedRecord):
        XaXid.parse(text)


@pytest.mark.parametrize(
    "data",
    [b"p:1:23:0a1b2c3d", "p:1:23:0a1b2c3d", "0x" + b"p:1:23:0a1b2c3d".hex(), b"0X" + b"p:1:23:0a1b2c3d".hex().encode()],
    ids=["MariaDB: bytes", "text", "MySQL 8, CONVERT XID", "… as bytes"],
)
def test_every_way_in_which_xa_recover_spells_an_xid(data):
    assert XaXid.from_recover((1, 5, 10, data)) == XaXid.of(OURS)


def test_an_xid_that_begins_with_0x_is_not_taken_for_hex():
    assert XaXid.from_recover((1, 4, 0, b"0xab")) == XaXid(format_id=1, gtrid=b"0xab", bqual=b"")


def test_a_row_whose_lengths_are_not_those_of_its_bytes():
    with pytest.raises(MalformedRecord, match="lengths 3 and 4"):
        XaXid.from_recover((1, 3, 4, b"ab"))
