"""Branch ids are parsed whole, written back as they were, and fit into an xid."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.branch_id import XA_PART_BYTES, XA_PREFIX_BYTES, BranchId, check_xa_prefix
from indoubt.lifecycle.errors import SettingsError

ID = BranchId(prefix="word_count", batch=7, attempt=41, slot=3, nonce="0a1b2c3d")


def test_text_and_back():
    assert str(ID) == "word_count:7:41:3:0a1b2c3d"
    assert BranchId.parse(str(ID)) == ID


def test_xid_and_back():
    assert (ID.gtrid, ID.bqual) == ("word_count:7:41", "3:0a1b2c3d")
    assert BranchId.from_xid(1, ID.gtrid.encode(), ID.bqual.encode()) == ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "word_count",
        "word_count:7:41:3",
        "word_count:7:41:3:0a1b2c3",
        "word_count:7:41:3:0a1b2c3d4",
        "word_count:7:41:3:0A1B2C3D",
        "word_count:7:41:3:0a1b2c3d:1",
        " word_count:7:41:3:0a1b2c3d",
        "word_count:7:41:3:0a1b2c3d\n",
        "word_count:07:41:3:0a1b2c3d",
        "word_count:-7:41:3:0a1b2c3d",
        "word_count:٧:41:3:0a1b2c3d",
        ":7:41:3:0a1b2c3d",
        "a:b:7:41:3:0a1b2c3d",
        "wörter:7:41:3:0a1b2c3d",
        "x" * 81 + ":7:41:3:0a1b2c3d",
    ],
)
def test_other_texts_are_not_ours(text):
    assert BranchId.parse(text) is None


@pytest.mark.parametrize(
    ("format_id", "gtrid", "bqual"),
    [
        (2, b"word_count:7:41", b"3:0a1b2c3d"),
        (1, b"word_count:7", b"41:3:0a1b2c3d"),
        (1, b"word_count:7:41:3:0a1b2c3d", b""),
        (1, b"word_count:7:41", b"3:0a1b2c\xff"),
        (1, b"\xff", b""),
    ],
)
def test_other_xids_are_not_ours(format_id, gtrid, bqual):
    assert BranchId.from_xid(format_id, gtrid, bqual) is None


def test_a_prefix_never_matches_a_longer_one():
    found = BranchId.parse("word_count:7:41:3:0a1b2c3d")
    assert found is not None
    assert found.prefix != "word"


def test_each_task_attempt_has_an_id_of_its_own():
    ids = [BranchId.new(prefix="p", batch=1, attempt=2, slot=3) for _ in range(100)]
    assert len(set(map(str, ids))) == 100
    assert all(BranchId.parse(str(id_)) == id_ for id_ in ids)
    assert all(id_.same_task(ids[0]) for id_ in ids)


@pytest.mark.parametrize("other", [{"batch": 8}, {"attempt": 42}, {"slot": 4}, {"prefix": "word"}])
def test_another_task_is_not_the_same(other):
    fields = {"prefix": ID.prefix, "batch": ID.batch, "attempt": ID.attempt, "slot": ID.slot}
    assert not ID.same_task(BranchId.new(**{**fields, **other}))


def test_the_longest_prefix_fits_with_twelve_digits_each():
    longest = BranchId(prefix="p" * XA_PREFIX_BYTES, batch=10**12 - 1, attempt=10**12 - 1, slot=0, nonce="0" * 8)
    assert check_xa_prefix(longest.prefix) == longest.prefix
    assert len(longest.gtrid.encode()) == XA_PART_BYTES


def test_a_longer_prefix_is_refused_with_the_longest_allowed():
    with pytest.raises(SettingsError, match=r"39 bytes.*at most 38.*choose a shorter one"):
        check_xa_prefix("p" * (XA_PREFIX_BYTES + 1))


@pytest.mark.parametrize(
    ("other", "superseded"),
    [
        ({"attempt": 40}, True),
        ({"attempt": 40, "slot": 9}, True),
        ({"attempt": 40, "batch": 99}, True),
        ({"batch": 6}, True),
        ({}, True),
        ({"batch": 6, "slot": 4}, False),
        ({"slot": 4}, False),
        ({"batch": 8}, False),
        ({"attempt": 42}, False),
        ({"attempt": 42, "batch": 0}, False),
        ({"prefix": "word", "attempt": 0}, False),
    ],
    ids=str,
)
def test_what_no_decision_can_list_any_more(other, superseded):
    fields = {"prefix": ID.prefix, "batch": ID.batch, "attempt": ID.attempt, "slot": ID.slot}
    assert BranchId.new(**{**fields, **other}).is_superseded_by(ID) is superseded


def test_nothing_supersedes_itself():
    assert not ID.is_superseded_by(ID)
