"""Lifecycle events are CloudEvents 1.0, and what is none says why."""

from __future__ import annotations

import json

import pytest

from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.events import EventType, LifecycleEvent, decode, encode

EVENT = LifecycleEvent(
    type=EventType.TRANSACTION_PREPARED,
    source="/pipeline/ip_count",
    subject="kafka:ip_count-0-1:7:3",
    at_ms=1_795_257_152_107,
    data={"batch": 3, "slot": 0},
)


@pytest.mark.parametrize("kind", list(EventType), ids=lambda kind: kind.value)
def test_every_type_is_read_back(kind):
    event = LifecycleEvent(type=kind, source="/pipeline/p", subject="s", at_ms=1_795_257_152_999)
    assert decode(encode(event)) == event


def test_it_is_a_cloud_event():
    fields = json.loads(encode(EVENT))
    assert fields["specversion"] == "1.0"
    assert fields["type"] == "io.indoubt.transaction.prepared"
    assert fields["time"] == "2026-11-21T10:32:32.107+00:00"
    assert fields["datacontenttype"] == "application/json"


def test_ids_of_two_events_differ():
    assert LifecycleEvent(type=EventType.PIPELINE_STARTED, source="/p", subject="", at_ms=0).id != EVENT.id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"source": None}, "source"),
        ({"type": "io.indoubt.unheard.of"}, "unheard"),
        ({"type": "transaction.prepared"}, "transaction.prepared"),
        ({"time": "yesterday"}, "yesterday"),
        ({"time": "2026-11-21T10:00:00"}, "time zone"),
        ({"data": [1]}, "list"),
    ],
)
def test_a_malformed_event_names_what_is_wrong(change, said):
    with pytest.raises(MalformedRecord, match=said):
        decode(json.dumps(json.loads(encode(EVENT)) | change).encode())


@pytest.mark.parametrize("value", [None, b"", b"{", b"\xff", b"[]", b"null"])
def test_what_is_no_json_object_is_refused(value):
    with pytest.raises(MalformedRecord, match="JSON"):
        decode(value)


def test_another_specversion_is_not_called_malformed():
    with pytest.raises(UnknownVersion, match=r"2\.0"):
        decode(json.dumps(json.loads(encode(EVENT)) | {"specversion": "2.0"}).encode())


def test_times_of_other_zones_are_the_same_moment():
    moved = json.loads(encode(EVENT)) | {"time": "2026-11-21T12:00:00.250+02:00"}
    utc = json.loads(encode(EVENT)) | {"time": "2026-11-21T10:00:00.250Z"}
    assert decode(json.dumps(moved).encode()).at_ms == decode(json.dumps(utc).encode()).at_ms
