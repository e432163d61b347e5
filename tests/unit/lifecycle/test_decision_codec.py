"""What the codec of the decision log writes and reads back, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from indoubt.lifecycle.decisions import Kept, Part, RunStarted, Settled, decode, encode
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from indoubt.lifecycle.record_fields import read_fields
from tests.unit.lifecycle.decision_records import ABORT, SNAPSHOT, decision, outcome, run, taken_over

PART = Part(prefix="p", id="i", index=1, count=2, data="eA==", at_ms=5)


@pytest.mark.parametrize(
    "record",
    [
        run(),
        decision(3),
        decision(3, ruling=ABORT, handles=()),
        outcome(decision(3), Settled.LOST),
        taken_over(3),
        SNAPSHOT,
        replace(SNAPSHOT, kept=()),
        replace(SNAPSHOT, kept=(Kept(offset=8, counts=True, record=run()),)),
        PART,
    ],
    ids=[
        "run started",
        "commit",
        "abort",
        "outcome",
        "checkpoint id taken over",
        "snapshot",
        "empty snapshot",
        "snapshot of the newest",
        "part",
    ],
)
def test_codec_reads_back_what_it_wrote(record):
    assert decode(encode(record)) == record


def broken(record, **changes):
    fields = json.loads(encode(record)) | changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...}, default=str).encode()


STARTED = json.loads(encode(run()))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "JSON"),
        (b"", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[1]", "object"),
        (b"7", "object"),
        (broken(run(), run=5), "run"),
        (broken(run(), version=...), "version None"),
        (broken(run(), version="2"), "version '2'"),
        (broken(run(), version=0), "version 0"),
        (broken(run(), version=True), "version True"),
        (broken(run(), at_ms="x"), "at_ms"),
        (broken(run(), writes_to=[1]), "'writes_to' holds what is not text"),
        (broken(run(), at_ms=True), "at_ms"),
        (broken(decision(0), ruling="maybe"), "maybe"),
        (broken(decision(0), handles=[{}]), "resource_manager"),
        (broken(decision(0), handles=5), "decision record"),
        (broken(decision(0), batch=None), "batch"),
        (broken(outcome(decision(0), Settled.LOST), settled=""), "Settled"),
        (broken(outcome(decision(0), Settled.LOST), handles="k"), "handles"),
        (broken(outcome(decision(0), Settled.LOST), handles=[1]), "handles"),
        (broken(taken_over(0), new_checkpoint_id=None), "new_checkpoint_id"),
        (broken(SNAPSHOT, kept=[[1, True]]), "decision record"),
        (broken(SNAPSHOT, kept=[[1, True, 5]]), "kept"),
        (broken(SNAPSHOT, kept=[[1, 1, json.loads(encode(run()))]]), "kept"),
        (broken(SNAPSHOT, kept=[[1, True, json.loads(encode(SNAPSHOT))]]), "kept"),
        (broken(SNAPSHOT, kept=[5]), "decision record: "),
        (broken(SNAPSHOT, kept=[["1", True, STARTED]]), "kept"),
        (broken(SNAPSHOT, kept=[[1, True, json.loads(encode(PART))]]), "kept"),
        (broken(SNAPSHOT, kept=[[3, True, STARTED], [2, True, STARTED]]), "log order"),
        (broken(SNAPSHOT, kept=[[2, True, STARTED], [2, True, STARTED]]), "log order"),
        (broken(SNAPSHOT, kept=[[-1, True, STARTED]]), "outside 0 to 8"),
        (broken(SNAPSHOT, kept=[[0, True, STARTED], [9, True, STARTED]]), "outside 0 to 8"),
        (broken(outcome(decision(0), Settled.LOST), handles=["k", 1]), "handles"),
        (broken(PART, index=2), "part 2 of 2"),
        (broken(PART, index=-1), "part -1 of 2"),
        (json.dumps({"version": 1, "prefix": "p", "at_ms": 1}).encode(), "type"),
        (json.dumps({"version": 1, "type": "run_started"}).encode(), "prefix"),
    ],
)
def test_a_malformed_record_is_refused_and_says_why(value, said):
    with pytest.raises(MalformedRecord, match=said):
        decode(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (broken(run(), version=2), "version 2; this program knows 1"),
        (broken(run(), type="other"), "type 'other'"),
        (broken(run(), type=5), "type 5"),
        (broken(run(), type=["run_started"]), "type "),
        (broken(SNAPSHOT, kept=[[1, True, json.loads(encode(run())) | {"type": "other"}]]), "type 'other'"),
        (b'{"version": 9}', "version 9"),
    ],
)
def test_what_a_newer_program_wrote_is_not_called_malformed(value, said):
    with pytest.raises(UnknownVersion, match=said):
        decode(value)


def test_a_record_without_a_field_names_what_it_is():
    with pytest.raises(MalformedRecord, match="order has no 'prefix'"):
        read_fields(RunStarted, {}, "order")
