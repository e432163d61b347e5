"""The reader of Flink's ``_metadata``, on recorded checkpoints: it names the transactions that the coordinator holds open."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import pytest
from pyarrow import fs

from indoubt.collector.records.formats.flink_metadata import checkpoint_metadata, metadata_file
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import (
    INPUT_CHANNELS,
    OUTPUT_CHANNELS,
    FlinkCheckpointMetadata,
    read_checkpoint_metadata,
)
from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind
from indoubt.collector.records.formats.flink_metadata.state_handles import HandleKind
from indoubt.collector.records.formats.flink_records import FlinkKind
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.collector.records.flink_metadata_recordings import (
    EVERY_HANDLE,
    NAMES,
    ON_THE_WAY,
    RECORDED,
    coordinator,
    metadata_bytes,
    opener,
    read,
)

FLIPS = 500
TRUNCATED = ["1.20-incrementing", "2.3-incrementing", EVERY_HANDLE[7]]
CHANGED = [*TRUNCATED, "2.1-paimon", "2.3-compressed", "2.3-state-files", "2.3-unaligned"]
KINDS = {
    "savepoint": FlinkKind.SAVEPOINT,
    "savepoint-native": FlinkKind.SAVEPOINT,
    "stop-with-savepoint": FlinkKind.SYNC_SAVEPOINT,
}
"""Of the format, by Flink's version."""


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
    assert open_there
    assert sorted(checkpoint.committables) == sorted(open_there)


@pytest.mark.parametrize("name", NAMES)
def test_its_kind(name: str) -> None:
    assert read(name).kind == KINDS.get(name.partition("-")[2], FlinkKind.CHECKPOINT)


@pytest.mark.parametrize("name", NAMES)
def test_writers_tell_the_prefixes_of_committables_and_whether_ids_are_used_again(name: str) -> None:
    checkpoint = read(name)
    prefixes = {state.transactional_id_prefix for state in checkpoint.writer_states}
    assert f"orders-{name}" in prefixes
    assert {one.transaction.rsplit("-", 2)[0] for one in checkpoint.committables} <= prefixes
    assert {state.is_pooled for state in checkpoint.writer_states} == {"pooling" in name}


def test_a_checkpoint_after_a_savepoint_commits_its_transactions_too() -> None:
    checkpoint = read("2.3-after-savepoint")
    assert (checkpoint.checkpoint_id, len(checkpoint.committables)) == (3, 4)


@pytest.mark.parametrize("version", EVERY_HANDLE)
def test_handles_of_every_kind_are_passed_over(version: int) -> None:
    checkpoint, plain = read(EVERY_HANDLE[version]), read("2.3-incrementing")
    assert checkpoint.kind is (FlinkKind.CHECKPOINT if version >= 4 else None)
    assert checkpoint.unread == ()
    assert checkpoint.committables == plain.committables
    assert [one.operator.name for one in checkpoint.announced] == ["sink0: Committer" if version >= 5 else ""]


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


FILE = bytes([HandleKind.FILE_STREAM]) + struct.pack(">q", 9) + utf("file:/c/f")
GROUPS = bytes([HandleKind.KEY_GROUPS]) + struct.pack(">iiqq", 0, 2, 5, 9) + FILE
FILES = struct.pack(">i", 1) + utf("a.sst") + FILE
INCREMENTAL = struct.pack(">q", 3) + utf("uuid") + struct.pack(">ii", 0, 2) + FILE + FILES + FILES
CHANGELOG = struct.pack(">iiqi", 0, 2, 9, 1) + GROUPS + struct.pack(">iq", 0, 2) + utf("id")
CHANGELOG_FILES = struct.pack(">iiiq", 0, 2, 1, 7) + FILE + struct.pack(">qq", 9, 9) + utf("id")
EARLIER_HANDLES = {
    "KEY_GROUPS": GROUPS,
    "INCREMENTAL_KEY_GROUPS": bytes([HandleKind.INCREMENTAL_KEY_GROUPS]) + INCREMENTAL,
    "CHANGELOG": bytes([HandleKind.CHANGELOG]) + CHANGELOG,
    "CHANGELOG_FILE_INCREMENT": bytes([HandleKind.CHANGELOG_FILE_INCREMENT]) + CHANGELOG_FILES,
}
"""Keyed state handles that Flink 2.3 reads and does not write any more."""


@pytest.mark.parametrize("kind", EARLIER_HANDLES)
def test_handles_that_only_earlier_versions_write_are_passed_over(kind: str) -> None:
    data = with_keyed_state(metadata_bytes("1.20-incrementing"), EARLIER_HANDLES[kind])
    assert read_checkpoint_metadata(data, nothing) == read("1.20-incrementing")


def with_keyed_state(data: bytes, handle: bytes) -> bytes:
    """Return ``_metadata`` without master states, version 3 or 4, with one more operator at its front."""
    magic, version, checkpoint_id, masters, operators = struct.unpack_from(">iiqii", data)
    head = struct.pack(">iiqii", magic, version, checkpoint_id, masters, operators + 1)
    operator = struct.pack(">qqiib", 1, 2, 1, 4, 0) + struct.pack(">i", 1)
    subtask = struct.pack(">iii", 0, 0, 0) + handle + b"\0" + struct.pack(">ii", 0, 0)
    assert masters == 0
    return head + operator + subtask + data[24:]


def test_handles_nested_without_end_are_refused() -> None:
    nested = (bytes([HandleKind.KEY_GROUPS]) + struct.pack(">ii", 0, 0)) * 5000
    with pytest.raises(MalformedRecord, match="nested more than 8 deep"):
        read_checkpoint_metadata(with_keyed_state(metadata_bytes("1.20-incrementing"), nested), nothing)


def test_committables_on_the_way_to_the_committer_are_named_as_unread() -> None:
    checkpoint = read(ON_THE_WAY)
    assert len(checkpoint.committables) == 2
    channels = [OUTPUT_CHANNELS, OUTPUT_CHANNELS, INPUT_CHANNELS, INPUT_CHANNELS]
    assert [unread.state for unread in checkpoint.unread] == channels


@pytest.mark.parametrize("name", NAMES)
def test_the_states_of_known_sinks_are_all_read(name: str) -> None:
    assert read(name).unread == ()


@pytest.mark.parametrize(
    ("name", "sinks"),
    [
        ("2.3-unknown-sink", [("ledger: Committer", SinkKind.UNKNOWN, 6)]),
        ("2.3-file-sink", [("files: Committer", SinkKind.FILES, 1), ("sink0: Committer", SinkKind.KAFKA, 1)]),
        ("2.3-two-sinks", [("sink0: Committer", SinkKind.KAFKA, 2), ("sink1: Committer", SinkKind.KAFKA, 2)]),
        ("1.20-file-sink-pending", [("", SinkKind.FILES, 2)]),
        ("2.1-iceberg", [("orders_iceberg: Committer", SinkKind.ICEBERG, 1)]),
        ("2.1-iceberg-empty", []),
        ("2.1-iceberg-flink-sink", [("orders_iceberg-IcebergFilesCommitter", SinkKind.ICEBERG, 1)]),
        ("1.20-iceberg-dynamic", [("", SinkKind.ICEBERG, 3)]),
        ("2.1-paimon", [("Global Committer : orders", SinkKind.PAIMON, 1)]),
        ("1.20-jdbc-function-postgres", [("", SinkKind.JDBC, 1)]),
        ("1.20-jdbc-sink-postgres", []),
        ("2.3-after-savepoint", [("sink0: Committer", SinkKind.KAFKA, 4)]),
    ],
)
def test_the_commits_of_every_sink_are_counted(name: str, sinks: list[tuple[str, SinkKind, int]]) -> None:
    found = [(each.operator.name, each.kind, each.commits) for each in read(name).announced]
    assert sorted(found, key=lambda sink: sink[0]) == sinks


def test_what_no_decoder_knows_is_named_as_unread() -> None:
    unread = read("2.3-unknown-sink").unread
    assert len(unread) == 2
    assert unread[0].reason == "_metadata, byte 789: the version of a committable is 7; this program knows 1"


@pytest.mark.parametrize("name", ["2.3-state-files", "2.3-file-merging"])
def test_a_file_system_of_pyarrow_opens_state_files(name: str) -> None:
    local = fs.LocalFileSystem()

    def open_state(path: str) -> BinaryIO:
        opened: BinaryIO = local.open_input_file(str(RECORDED / name / Path(path).name))
        return opened

    assert read_checkpoint_metadata(metadata_bytes(name), open_state) == read(name)


def test_a_state_file_that_is_missing_is_named_and_the_others_are_read() -> None:
    name = "2.3-state-files"
    missing: list[str] = []

    def open_state(path: str) -> BinaryIO:
        if not missing:
            missing.append(path)
        return nothing(path) if path in missing else opener(name)(path)

    checkpoint = read_checkpoint_metadata(metadata_bytes(name), open_state)
    (unread,) = checkpoint.unread
    assert missing[0] in unread.reason
    assert len(checkpoint.committables) + len(checkpoint.writer_states) == 3


def test_a_state_file_with_too_few_bytes_is_named(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", TRUNCATED)
def test_each_truncation_is_an_error_that_names_the_offset(name: str) -> None:
    data = metadata_bytes(name)
    for length in range(len(data)):
        with pytest.raises(MalformedRecord, match=r"^_metadata, byte \d+: "):
            read_checkpoint_metadata(data[:length], nothing)
    with pytest.raises(MalformedRecord, match="1 bytes too many"):
        read_checkpoint_metadata(data + b"\0", nothing)


@pytest.mark.parametrize("name", CHANGED)
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
