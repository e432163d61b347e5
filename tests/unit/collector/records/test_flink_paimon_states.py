"""What Paimon's sink keeps: recorded checkpoints list what no snapshot has; cases that the recordings do not have."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from pyarrow import fs

from indoubt.collector.observe.flink_metadata_files import FILE, Place, read_place
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import read_checkpoint_metadata
from indoubt.collector.records.formats.flink_metadata.paimon_sink_states import read_paimon_committer
from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind
from indoubt.collector.records.formats.flink_records import ListedFile, SinkCommits
from indoubt.collector.records.formats.pending_files import PaimonCommit, PendingFile, named_commit
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.collector.records.flink_metadata_recordings import RECORDED, metadata_bytes, opener, read

NAMES = ["1.20-paimon", "2.0-paimon", "2.1-paimon"]
USER, NUMBER, END_OF_INPUT = "a-user", 3, 2**63 - 1


def store(name: str) -> dict[str, Any]:
    """Return what the table had when the job had been killed: its snapshots, and every whole data file with its rows."""
    found: dict[str, Any] = json.loads((RECORDED / name / "store.json").read_text())
    return found


def commit_in(name: str) -> PaimonCommit:
    checkpoint = read(name)
    assert checkpoint.unread == ()
    (file,) = checkpoint.files
    assert isinstance(file.commit, PaimonCommit)
    return file.commit


@pytest.mark.parametrize("name", NAMES)
def test_names_the_commit_as_its_snapshot_will_with_the_files_that_no_snapshot_has(name: str) -> None:
    commit, table = commit_in(name), store(name)
    assert {each["commitUser"] for each in table["snapshots"]} == {commit.user}
    assert [each["commitIdentifier"] for each in table["snapshots"]] == [1, 2]
    rows = {each["path"]: each["rows"] for each in table["files"]}
    # The writers went on after the checkpoint.
    of_number = {path: of_file for path, of_file in rows.items() if path.endswith("-2.parquet")}
    assert (commit.identifier, commit.messages, commit.files) == (3, 2, len(of_number))
    assert (commit.rows, commit.first_file in of_number) == (sum(of_number.values()), True)


@pytest.mark.parametrize("name", NAMES)
def test_the_commits_of_the_sink_are_counted(name: str) -> None:
    (sink,) = read(name).announced
    named = "" if name.startswith("1.20") else "Global Committer : orders"
    assert (sink.kind, sink.commits, sink.operator.name) == (SinkKind.PAIMON, 1, named)


def test_a_commit_is_listed_as_the_files_of_a_file_sink_are() -> None:
    directory, local = RECORDED / "2.1-paimon", fs.LocalFileSystem()
    place = Place(local, f"file:{directory}", str(directory), "a" * 32, 3)
    info = local.get_file_info(f"{directory}/{FILE}")
    listed, commit = read_place("flink", place, info), commit_in("2.1-paimon")
    (file,) = listed.files
    assert (file.commit, file.target, file.checkpoint_id, file.sink) == (commit, commit.target, 3, "orders")
    assert (file.is_understood, file.resource_manager) == (True, "paimon")
    assert listed.committables == {ListedFile(commit.target)}
    assert (listed.sinks, listed.error) == ((SinkCommits("orders", "paimon", 1),), "")


def test_its_target_tells_a_commit_but_for_what_it_adds() -> None:
    commit = commit_in("2.1-paimon")
    named = named_commit(commit.target)
    assert named == PaimonCommit(user=commit.user, identifier=3, first_file=commit.first_file)
    assert named_commit("/lake/part-0") is None


def row(name: str, rows: int) -> bytes:
    """Return a file's description as BinaryRow: three fields, then the name."""
    fields = struct.pack("<qqq", 32 << 32 | len(name), 434, rows)
    return sized(bytes(8) + fields + name.encode())


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def message(*files: bytes, bucket: int = 0, partition: int = 0, compacted: bytes = b"") -> bytes:
    head = sized(struct.pack(">i", partition) + bytes(8)) + struct.pack(">ib", bucket, 0)
    of_compaction = struct.pack(">i", 1) + compacted if compacted else bytes(4)
    return head + struct.pack(">i", len(files)) + b"".join(files) + bytes(16) + of_compaction + bytes(16)


def committable(*messages: bytes, version: int = 5, identifier: int = NUMBER, of_messages: int = 11) -> bytes:
    offsets = struct.pack(">iiq", 1, 0, 7) if version < 5 else b""
    head = struct.pack(">qbq", identifier, 0, 55) + offsets + struct.pack(">i", 1) + utf("tag") + utf("daily")
    return struct.pack(">i", version) + sized(
        head + struct.pack(">ii", of_messages, len(messages)) + b"".join(messages)
    )


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def user(name: str = USER) -> bytes:
    return bytes([len(name) + 1]) + name.encode()


def listed(pending: bytes, *users: bytes) -> list[PendingFile]:
    states = ([BigEndianReader(each, "a state") for each in of_one] for of_one in (users or (user(),), (pending,)))
    return list(read_paimon_committer(*states, NUMBER))


ONE, OTHER = row("data-1.parquet", 30), row("data-2.parquet", 38)
SHORT = sized(bytes(8) + struct.pack("<qq", 24 << 32 | 7, 434) + b"data-1.")
FOUND = PaimonCommit(user=USER, identifier=NUMBER, first_file="bucket-0/data-1.parquet", messages=1, files=1, rows=30)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("of_messages", [10, 11, 12])
def test_every_version_that_is_known_is_read(version: int, of_messages: int) -> None:
    (found,) = listed(committable(message(ONE), version=version, of_messages=of_messages))
    assert (found.commit, found.checkpoint_id) == (FOUND, NUMBER)


def test_files_of_all_messages_count_and_those_of_compaction_do_not() -> None:
    (found,) = listed(committable(message(compacted=ONE), message(OTHER, ONE, bucket=4)))
    expected = PaimonCommit(
        user=USER, identifier=NUMBER, first_file="bucket-4/data-2.parquet", messages=2, files=2, rows=68
    )
    assert found.commit == expected


@pytest.mark.parametrize("pending", [committable(), committable(message(compacted=ONE))])
def test_a_commit_that_adds_no_file_is_none(pending: bytes) -> None:
    assert listed(pending) == []


@pytest.mark.parametrize(("bucket", "partition"), [(0, 1), (-2, 0)])
def test_where_a_file_of_a_partition_or_without_a_bucket_lies_is_not_told(bucket: int, partition: int) -> None:
    (found,) = listed(committable(message(ONE, bucket=bucket, partition=partition)))
    assert isinstance(found.commit, PaimonCommit)
    assert found.commit.first_file == "data-1.parquet"


def test_what_is_written_at_the_end_of_the_input_is_committed_with_the_checkpoint_that_lists_it() -> None:
    (found,) = listed(committable(message(ONE), identifier=END_OF_INPUT))
    assert isinstance(found.commit, PaimonCommit)
    assert (found.checkpoint_id, found.commit.identifier) == (NUMBER, END_OF_INPUT)


@pytest.mark.parametrize(
    ("pending", "says"),
    [
        (
            committable(message(ONE), version=3),
            "the version of a committable of Paimon is 3; this program knows 4 and 5",
        ),
        (committable(message(ONE), version=6), "the version of a committable of Paimon is 6"),
        (committable(message(ONE), of_messages=9), "the version of a message of Paimon is 9"),
        (committable(message(ONE), of_messages=13), "the version of a message of Paimon is 13"),
    ],
)
def test_an_unknown_version_is_not_understood(pending: bytes, says: str) -> None:
    with pytest.raises(UnknownVersion, match=says):
        listed(pending)


@pytest.mark.parametrize(
    ("pending", "users", "says"),
    [
        (committable(message(ONE)), [user(), user()], "there are 2 commit users, not one"),
        (committable(message(ONE)), [user("")], "this is no commit user"),
        (committable(message(ONE)), [b"\x03\xc3\xa4"], "this is no commit user"),
        (committable(message(ONE)), [b"\xff" + bytes(254)], "this is no commit user"),
        (committable(message(ONE), identifier=0), [user()], "a commit's identifier is 0"),
        (committable(message(row("a/b", 1))), [user()], "this is no name of a file"),
        (committable(message(row("", 1))), [user()], "this is no name of a file"),
        (committable(message(row("data-1.parquet", -1))), [user()], "field 2 of a file's description is -1"),
        (committable(message(SHORT)), [user()], "a file's description has 31 bytes"),
        (committable(message(sized(bytes(8) + struct.pack("<qqq", 31 << 32 | 9, 0, 0)))), [user()], "no name of a file"),
        (committable(message(ONE))[:-1], [user()], "byte"),
        (committable(message(ONE)) + b"\0", [user()], "1 bytes too many"),
        (committable(message(ONE) + b"\0"), [user()], "1 bytes too many"),
    ],
)  # fmt: skip
def test_what_is_none_of_paimons_is_refused(pending: bytes, users: list[bytes], says: str) -> None:
    with pytest.raises(MalformedRecord, match=says):
        listed(pending, *users)


def test_each_truncation_is_an_error_that_names_the_offset() -> None:
    whole = committable(message(ONE), message(OTHER))
    for length in range(len(whole)):
        with pytest.raises(MalformedRecord, match=r"^a state, byte \d+: "):
            listed(whole[:length])


def test_a_commit_that_is_not_understood_is_counted_and_named_as_unread() -> None:
    known = metadata_bytes("2.1-paimon")
    changed = known.replace(struct.pack(">iiq", 4, 1083, 3), struct.pack(">iiq", 9, 1083, 3))
    assert changed != known
    checkpoint = read_checkpoint_metadata(changed, opener("2.1-paimon"))
    (unread,) = checkpoint.unread
    assert "the version of a committable of Paimon is 9" in unread.reason
    assert [(each.kind, each.commits) for each in checkpoint.announced] == [(SinkKind.PAIMON, 1)]
    assert checkpoint.files == ()
