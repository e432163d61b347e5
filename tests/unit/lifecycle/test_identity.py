"""Names are parsed whole, and what was written is read back."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.errors import MalformedRecord, SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import (
    Fingerprint,
    Handle,
    Marker,
    TransactionalId,
    check_prefix,
    marker_group,
    transaction_key,
    transactional_ids,
)

HANDLE = Handle(
    resource_manager="kafka",
    transaction="word-3-1",
    producer_id=17,
    producer_epoch=4,
    slot=3,
    rows=10,
    bytes=1000,
    fingerprint="10:00000000000000ff",
    opened_at_ms=1_000,
    prepared_at_ms=2_000,
    timeout_ms=60_000,
)


@pytest.mark.parametrize(
    ("text", "prefix", "slot", "parity"),
    [
        ("word-0-1", "word", 0, 1),
        ("word_count-12-0", "word_count", 12, 0),
        ("a-b-7-1", "a-b", 7, 1),
        ("word-3-3-0", "word-3", 3, 0),
    ],
)
def test_ids_are_parsed_whole_and_written_alike(text, prefix, slot, parity):
    found = TransactionalId.parse(text)
    assert found == TransactionalId(prefix=prefix, slot=slot, parity=parity)
    assert str(found) == text


@pytest.mark.parametrize(
    "text", ["", "word", "word-1", "word-01-0", "word-1-2", "word-1-0\n", "word-1-0-x", "wörd-1-0", "-1-0x", "a b-1-0"]
)
def test_an_id_of_somebody_else_is_none_of_ours(text):
    assert TransactionalId.parse(text) is None


def test_word_is_not_word_count():
    found = TransactionalId.parse("word_count-0-0")
    assert found is not None
    assert found.prefix != "word"


def test_ids_are_pooled_two_per_slot():
    assert {str(TransactionalId.of("p", 4, batch)) for batch in range(100)} == {"p-4-0", "p-4-1"}
    assert str(TransactionalId.of("p", 4, 9)) == "p-4-1"


def test_markers_of_two_slots_never_share_a_group():
    groups = [marker_group(prefix, slot) for prefix in ("a", "a-1", "a-1-2", "a_1") for slot in range(30)]
    assert len(set(groups)) == len(groups)


@pytest.mark.parametrize("prefix", ["", "a b", "a/b", "x" * 81, "é"])
def test_a_prefix_that_no_id_can_start_with_is_refused(prefix):
    with pytest.raises(SettingsError, match="transactional_id_prefix"):
        check_prefix(prefix)


@pytest.mark.parametrize(
    ("mine", "other", "covers"),
    [
        ((5, 10, "L"), (5, 10, "L"), True),
        ((5, 10, "L"), (4, 99, "L"), True),
        ((5, 10, "L"), (5, 11, "L"), False),
        ((5, 11, "L"), (5, 10, "L"), True),
        ((6, 10, "L"), (5, 10, "M"), False),
    ],
    ids=["same", "later batch", "older attempt", "newer attempt", "another checkpoint id"],
)
def test_which_marker_proves_which(mine, other, covers):
    a, b = (
        Marker(batch=batch, attempt=attempt, checkpoint_id=checkpoint_id)
        for batch, attempt, checkpoint_id in (mine, other)
    )
    assert a.covers(b) is covers


@pytest.mark.parametrize(
    "metadata", ["", "checkpoint_id", ":3", "checkpoint id:", "checkpoint id:x", "checkpoint id:-1"]
)
def test_metadata_that_others_wrote_is_no_marker(metadata):
    assert Marker.parse(3, metadata) is None


def test_a_marker_survives_with_or_without_librdkafkas_closing_nul():
    marker = Marker(batch=3, attempt=12, checkpoint_id="4f:1")
    assert Marker.parse(3, marker.metadata()) == Marker.parse(3, marker.metadata() + "\0") == marker


def test_fingerprint_is_read_back_and_nonsense_is_named():
    fingerprint = Fingerprint(rows=3, hash=0xFEDCBA9876543210)
    assert Fingerprint.parse(str(fingerprint)) == fingerprint
    for text in ("", "3", "x:1", "3:xyz"):
        with pytest.raises(MalformedRecord, match=r"fingerprint"):
            Fingerprint.parse(text)


def test_handle_is_read_back_and_unknown_fields_are_ignored():
    assert Handle.from_json(HANDLE.to_json() | {"new": 1}) == HANDLE


@pytest.mark.parametrize("name", list(HANDLE.to_json()))
def test_a_handle_without_a_field_or_with_a_wrong_one_names_it(name):
    fields = HANDLE.to_json()
    with pytest.raises(MalformedRecord, match=name):
        Handle.from_json({key: value for key, value in fields.items() if key != name})
    with pytest.raises(MalformedRecord, match=name):
        Handle.from_json(fields | {name: [1]})
    with pytest.raises(MalformedRecord, match=name):
        Handle.from_json(fields | {name: True})


def test_the_key_of_a_handle_names_no_later_transaction_of_the_same_id():
    later = Handle.from_json(HANDLE.to_json() | {"producer_epoch": 5})
    assert later.key != HANDLE.key


@pytest.mark.parametrize("id_", ["p-sink-0-1", "a:b:7", "with spaces"])
def test_transactional_ids_are_read_back_from_keys_of_their_resource_manager(id_):
    keys = [transaction_key("kafka", id_, 4711, 3), transaction_key("mysql", "a:4711:3")]
    assert transactional_ids("kafka", keys) == {id_}


def test_delivery_guarantees_are_named_and_a_wrong_name_lists_them():
    assert DeliveryGuarantee.parse(" Exactly_Once ") is DeliveryGuarantee.EXACTLY_ONCE
    with pytest.raises(SettingsError, match="exactly_once, at_least_once, none"):
        DeliveryGuarantee.parse("once")
