"""Xids of well-known transaction managers: which program made them, as databases show them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indoubt.collector.records.xids import FLINK, as_listed, owner_of, xid_of, xid_owner
from indoubt.resource_managers.mysql.xa_xid import XaXid

JOB = "a58ab25cc2ee355e54164a5c2decf3a4"
RECORDED = f"X'{JOB}000000000300000000000000',X'1579bf59',201"
GID = "201_pYqyXMLuNV5UFkpcLezzpAAAAAADAAAAAAAAAA==_FXm/WQ=="
"""One xid, as MariaDB and as PostgreSQL's JDBC driver show it; Flink's log has it as 201:a58a…:1579bf59."""
OF_SINK = (bytes.fromhex(JOB) + b"\0\0\0\2", b"\0\0\0\4" + b"\0\0\0\0\0\0\0\7")
UID = bytes(range(28))

CASES: list[tuple[str, int, bytes, bytes, str | None, str]] = [
    # name, format id, gtrid, bqual, program, what else it says
    ("Flink, function", 201, bytes.fromhex(JOB) + b"\1\0\0\0\5\0\0\0\0\0\0\0", b"rand", FLINK, f"job {JOB}, subtask 1, number 5"),
    ("Flink, sink", 202, *OF_SINK, FLINK, f"job {JOB}, subtask 2, number 7"),
    ("Flink, sink, with zeros", 202, OF_SINK[0] + bytes(14), OF_SINK[1] + b"\0", FLINK, f"job {JOB}, subtask 2, number 7"),
    ("Flink's number, other bytes behind", 202, OF_SINK[0] + b"\1", OF_SINK[1], None, ""),
    ("Flink's number, other bytes behind the branch", 202, OF_SINK[0], OF_SINK[1] + b"\1", None, ""),
    ("Flink's number, too short", 201, b"order-7", b"", None, ""),
    ("Flink's newer number, too short", 202, OF_SINK[0][:-1], OF_SINK[1], None, ""),
    ("Flink's newer number, its branch too short", 202, OF_SINK[0], OF_SINK[1][:-1], None, ""),
    ("Flink's function, its number alone another", 1, bytes.fromhex(JOB) + bytes(12), b"rand", None, ""),
    ("Flink's sink, its number alone another", 1, *OF_SINK, None, ""),
    ("Flink, sink, large numbers", 202, bytes.fromhex(JOB) + b"\x7f\0\0\2", b"\0\0\0\4\x7f\0\0\0\0\0\0\7", FLINK,
     f"job {JOB}, subtask {0x7f000002}, number {0x7f00000000000007}"),
    ("Flink's newer number, negative subtask", 202, bytes.fromhex(JOB) + b"\x80\0\0\0", OF_SINK[1], None, ""),
    ("Flink's newer number, negative checkpoint", 202, OF_SINK[0], b"\0\0\0\4\x80" + bytes(7), None, ""),
    ("Flink's number, negative subtask", 201, bytes.fromhex(JOB) + b"\0\0\0\xff" + bytes(8), b"rand", None, ""),
    ("Narayana", 131077, UID + b"node-1", UID + bytes(8), "Narayana", "JTA, node node-1"),
    ("Narayana without a name", 131077, UID, b"", "Narayana", "JTA"),
    ("Narayana, JTS", 131072, UID + b"1", b"", "Narayana", "JTS, node 1"),
    ("Narayana, JTS, another of its numbers", 131073, UID + b"1", b"", "Narayana", "JTS, node 1"),
    ("Narayana, JTS, its third", 131074, UID + b"1", b"", "Narayana", "JTS, node 1"),
    ("Narayana, XTS", 131080, UID + b"1", b"", "Narayana", "XTS, node 1"),
    ("Atomikos", 0x41544F4D, b"10.0.0.1.tm0000100001", b"10.0.0.1.tm1", "Atomikos", "10.0.0.1.tm0000100001"),
    ("Seata", 9752, b"10.0.0.1:8091:2612345678", b"-2612345679", "Seata", "10.0.0.1:8091:2612345678"),
    ("Bitronix", 0x42746E78, b"server\0\xff", b"", "Bitronix", ""),
    ("Bitronix, a control character", 0x42746E78, b"server\0", b"", "Bitronix", ""),
    ("Bitronix, no ASCII", 0x42746E78, b"server\xff", b"", "Bitronix", ""),
    ("not known", 1, b"order-7", b"", None, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("format_id", "gtrid", "bqual", "program", "detail"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_owner(format_id: int, gtrid: bytes, bqual: bytes, program: str | None, detail: str) -> None:
    found = xid_owner(format_id, gtrid, bqual)
    assert (found.program, found.detail) == (program, detail) if found is not None else program is None


@pytest.mark.parametrize(("kind", "name"), [("mysql", RECORDED), ("postgres", GID)])
def test_a_recorded_xid_as_each_database_lists_it(kind: str, name: str) -> None:
    assert str(xid_of(kind, name)) == RECORDED
    found = owner_of(kind, name)
    assert found is not None
    assert found.flink is not None
    assert (found.flink.job, found.flink.subtask, found.flink.checkpoint) == (JOB, 0, 3)


@pytest.mark.parametrize(
    "gid",
    [
        "",
        "bank-7",
        "201_",
        "201__",
        "201_a_b",
        "201_YQ==",
        "x_YQ==_YQ==",
        "201_YQ==_YQ==_",
        "201_Y Q=_YQ==",
        "201_YWJ==_YQ==",
        "201_YQ==_=",
        "p:1:2:3:0a1b2c3d",
    ],
)
def test_a_gid_of_another_form_is_no_xid(gid: str) -> None:
    assert xid_of("postgres", gid) is None


def test_a_database_that_lists_no_xids_has_none() -> None:
    assert xid_of("kafka", RECORDED) is None
    assert xid_of("kafka", GID) is None
    assert xid_of("mysql", "bank-7") is None
    assert owner_of("postgres", "bank-7") is None


def test_zeros_that_the_newer_sink_leaves_behind_its_parts_are_left_out() -> None:
    with_zeros = XaXid(format_id=202, gtrid=OF_SINK[0] + bytes(14), bqual=OF_SINK[1] + b"\0")
    plain = XaXid(format_id=202, gtrid=OF_SINK[0], bqual=OF_SINK[1])
    assert as_listed(with_zeros) == as_listed(plain) == plain
    other = XaXid(format_id=1, gtrid=b"order\0", bqual=b"\0")
    assert as_listed(other) == other


@given(st.integers(0, 2**31 - 1), st.binary(max_size=64), st.binary(max_size=64))
def test_no_xid_is_too_odd(format_id: int, gtrid: bytes, bqual: bytes) -> None:
    found = xid_owner(format_id, gtrid, bqual)
    assert found is None or (found.program and found.detail.isprintable())


@pytest.mark.parametrize(
    ("format_id", "gtrid", "node"),
    [
        (201, bytes.fromhex(JOB) + bytes(12), f"job {JOB}"),
        (131077, UID + b"node-1", "node-1"),
        (131077, UID, ""),
        # The time and a count of five digits stand behind the name of the node, which may end in digits itself.
        (0x41544F4D, b"10.27.69.168.tm150959391749109556", "10.27.69.168.tm"),
        (0x41544F4D, b"node1150959391749109556", "node1"),
        (0x41544F4D, b"10.0.0.1.tm0000100001", "10.0.0.1.tm"),
        (0x41544F4D, b"150959391749109556", ""),
        (9752, b"10.0.0.1:8091:2612345678", "10.0.0.1:8091"),
        (9752, b"2612345678", ""),
        (0x42746E78, b"server-1" + bytes(range(12)), "server-1"),
        (0x42746E78, b"short", ""),
    ],
)
def test_the_transactions_of_a_node_have_its_name_in_common(format_id: int, gtrid: bytes, node: str) -> None:
    found = xid_owner(format_id, gtrid, b"rand")
    assert found is not None
    assert found.node == node
