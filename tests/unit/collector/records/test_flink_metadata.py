"""The reader of Flink's ``_metadata``, on recorded checkpoints: it names the transactions that the coordinator holds open."""

from __future__ import annotations

import random
import tracemalloc
from typing import BinaryIO

import pytest

from collector.records.formats.flink_metadata import checkpoint_metadata, metadata_file
from collector.records.formats.flink_metadata.checkpoint_metadata import (
    FlinkCheckpointMetadata,
    read_checkpoint_metadata,
)
from collector.records.formats.flink_metadata.sink_states import CommitState, TransactionOwnership
from collector.records.formats.flink_records import FlinkKind
from lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.collector.records.flink_metadata_recordings import NAMES, coordinator, metadata_bytes, opener, read

FLIPS = 1500


def nothing(path: str) -> BinaryIO:
    raise FileNotFoundError(f"no such file: {path}")


@pytest.mark.parametrize("name", NAMES)
def test_names_exactly_the_transactions_that_the_coordinator_holds_open(name: str) -> None:
    checkpoint = read(name)
    open_there = {
        (told["transactional_id"], told["producer_id"], told["producer_epoch"])
        for told in coordinator(name)
        if told["state"] == "ONGOING"
    }
    found = [(one.transactional_id, one.producer_id, one.producer_epoch) for one in checkpoint.to_commit]
    assert open_there
    assert sorted(found) == sorted(open_there)
    assert {one.checkpoint_id for one in checkpoint.committables} == {checkpoint.checkpoint_id}
    assert {one.state for one in checkpoint.committables} == {CommitState.RECEIVED}
    assert checkpoint.unread == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_committable_names_its_writer_and_operator(name: str) -> None:
    checkpoint = read(name)
    for committable in checkpoint.committables:
        prefix, subtask, _ = committable.transactional_id.rsplit("-", 2)
        assert (prefix, subtask) == (f"orders-{name}", str(committable.subtask))
        assert committable.operator.name == ("sink0: Committer" if checkpoint.version >= 5 else "")
    assert {state.transactional_id_prefix for state in checkpoint.writer_states} == {f"orders-{name}"}


@pytest.mark.parametrize(
    ("name", "version", "kind", "ownership"),
    [
        ("2.3-incrementing", 6, FlinkKind.CHECKPOINT, TransactionOwnership.IMPLICIT_BY_SUBTASK_ID),
        ("2.3-pooling", 6, FlinkKind.CHECKPOINT, TransactionOwnership.EXPLICIT_BY_WRITER_STATE),
        ("1.20-incrementing", 4, FlinkKind.CHECKPOINT, None),
    ],
)
def test_version_kind_and_naming(
    name: str, version: int, kind: FlinkKind, ownership: TransactionOwnership | None
) -> None:
    checkpoint = read(name)
    assert (checkpoint.version, checkpoint.checkpoint_id, checkpoint.kind) == (version, 3, kind)
    assert {state.ownership for state in checkpoint.writer_states} == {ownership}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("2.")])
def test_a_writer_lists_the_transactions_that_its_committables_name(name: str) -> None:
    checkpoint = read(name)
    prepared = {
        (one.transactional_id, one.checkpoint_id) for state in checkpoint.writer_states for one in state.precommitted
    }
    assert prepared == {(one.transactional_id, one.checkpoint_id) for one in checkpoint.committables}
    assert sorted(state.owned_subtask for state in checkpoint.writer_states) == [0, 1]


def test_a_state_file_that_is_missing_is_named_and_the_others_are_read() -> None:
    name, missing = "2.3-state-files", []

    def open_state(path: str) -> BinaryIO:
        if not missing:
            missing.append(path)
        return nothing(path) if path in missing else opener(name)(path)

    checkpoint = read_checkpoint_metadata(metadata_bytes(name), open_state)
    (unread,) = checkpoint.unread
    assert missing[0] in unread.reason
    assert len(checkpoint.committables) + len(checkpoint.writer_states) == 3


def test_a_state_file_with_too_few_bytes_is_named(tmp_path) -> None:
    name = "2.3-state-files"

    def open_state(path: str) -> BinaryIO:
        with opener(name)(path) as whole:
            (tmp_path / path).write_bytes(whole.read()[:-1])
        return (tmp_path / path).open("rb")

    checkpoint = read_checkpoint_metadata(metadata_bytes(name), open_state)
    assert checkpoint.committables == ()
    assert len(checkpoint.unread) == 4
    assert all("bytes from byte 0 on, not" in unread.reason for unread in checkpoint.unread)


@pytest.mark.parametrize("path", ["../../../etc/passwd00000000000000000", "/etc/passwd", "file:///etc/passwd", ""])
def test_a_relative_path_that_leads_elsewhere_is_not_opened(path: str) -> None:
    name, data, opened = "2.3-state-files", metadata_bytes("2.3-state-files"), []

    def open_state(path: str) -> BinaryIO:
        opened.append(path)
        return opener(name)(path)

    read_checkpoint_metadata(data, open_state)
    first = opened[0].encode()
    changed = data.replace(len(first).to_bytes(2, "big") + first, len(path).to_bytes(2, "big") + path.encode())
    opened.clear()
    checkpoint = read_checkpoint_metadata(changed, open_state)
    assert path not in opened
    assert [unread.reason for unread in checkpoint.unread] == [
        f"the relative path {path!r} is none of a file in the checkpoint's directory"
    ]


def test_another_version_is_refused() -> None:
    data = metadata_bytes("2.3-incrementing")
    for version in (1, 2, 8, 2**31 - 1):
        with pytest.raises(UnknownVersion, match=f"the version is {version}; this program knows 3 to 7"):
            read_checkpoint_metadata(data[:4] + version.to_bytes(4, "big") + data[8:], nothing)


def test_what_is_no_metadata_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="byte 0: this is no checkpoint metadata of Flink"):
        read_checkpoint_metadata(b"PK\3\4 something else", nothing)


def test_a_file_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_metadata, "METADATA_LIMIT", 3000)
    with pytest.raises(MalformedRecord, match="more than 3000 bytes"):
        read("2.3-incrementing")


def test_more_elements_transactions_or_bytes_than_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_metadata, "TRANSACTION_LIMIT", 1)
    assert "more than 1 transactions" in read("2.3-incrementing").unread[0].reason
    monkeypatch.setattr(checkpoint_metadata, "STATE_FILE_LIMIT", 300)
    assert any("of 300 are left" in unread.reason for unread in read("2.3-state-files").unread)
    monkeypatch.setattr(metadata_file, "ELEMENT_LIMIT", 3)
    with pytest.raises(MalformedRecord, match="more than 3 elements"):
        read("2.3-incrementing")


@pytest.mark.parametrize("name", NAMES)
def test_each_truncation_is_an_error_that_names_the_offset(name: str) -> None:
    data = metadata_bytes(name)
    for length in range(len(data)):
        with pytest.raises(MalformedRecord, match=r"^_metadata, byte \d+: "):
            read_checkpoint_metadata(data[:length], nothing)
    with pytest.raises(MalformedRecord, match="1 bytes too many"):
        read_checkpoint_metadata(data + b"\0", nothing)


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_give_the_error_or_an_answer_within_little_memory(name: str) -> None:
    data, chance = metadata_bytes(name), random.Random(name)
    outcomes = set()
    tracemalloc.start()
    for _ in range(FLIPS):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(8, len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        outcomes.add(type(outcome(bytes(changed), name)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcomes == {FlinkCheckpointMetadata, MalformedRecord}
    assert peak < checkpoint_metadata.STATE_FILE_LIMIT + 4_000_000


def outcome(data: bytes, name: str) -> FlinkCheckpointMetadata | MalformedRecord:
    """Return what the reader says, or its error; any other exception is a finding."""
    try:
        return read_checkpoint_metadata(data, opener(name))
    except MalformedRecord as error:
        return error
