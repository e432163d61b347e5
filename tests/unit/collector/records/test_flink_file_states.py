"""What Flink's FileSink keeps: recorded checkpoints list what the store held unfinished; cases that the recordings do not have."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import CommitRequest, CommitState
from indoubt.collector.records.formats.flink_metadata.file_sink_states import (
    FlinkBucket,
    is_file_committable,
    read_bucket,
    read_file,
)
from indoubt.collector.records.formats.pending_files import PendingFile
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.collector.records.flink_metadata_recordings import RECORDED, read, read_damaged

LOCAL = ["1.20-file-sink-pending", "2.3-file-sink-pending"]
S3 = ["1.20-file-sink-s3", "2.3-file-sink-s3"]
IN_PROGRESS = ["2.3-file-sink-in-progress", "2.3-file-sink-in-progress-s3"]
TARGET = "file:/files/part-1"
RENAMED = PendingFile(target="/files/part-1", size=9, temporary="/files/.part-1.inprogress.1")
UPLOADED = PendingFile(target="s3://bucket/a/part-1", size=9, upload="up", parts=((1, "tag"),))
KEY, UPLOAD, TAG = b"a/part-1", b"up", b"tag"


def store(name: str) -> Any:
    """Return what the store held when the job had been killed."""
    return json.loads((RECORDED / name / "store.json").read_text())


@pytest.mark.parametrize("name", LOCAL)
def test_names_exactly_the_files_that_are_written_and_not_visible(name: str) -> None:
    held = store(name)
    files = list(read(name).files)
    sizes = {f"{held['directory']}/{row['name']}": row["size"] for row in held["files"]}
    assert {file.temporary: file.size for file in files}.items() <= sizes.items()
    assert not any(file.target in sizes for file in files)
    hidden = [path for path in sizes if ".inprogress." in path]
    later = len(hidden) - len(files)
    assert later in (0, 1), "what was begun after the checkpoint is in none"
    assert [(each.checkpoint_id, each.sink != "") for each in files] == [(3, True), (3, True)]


@pytest.mark.parametrize("name", S3)
def test_names_exactly_the_uploads_that_the_store_holds_unfinished(name: str) -> None:
    held = store(name)
    files = list(read(name).files)
    uploads = {row["upload"]: row for row in held["uploads"]}
    assert {file.upload for file in files} == uploads.keys()
    for file in files:
        upload = uploads[file.upload]
        assert file.target == f"s3://{held['bucket']}/{upload['key']}"
        assert file.parts == tuple((part["number"], part["tag"]) for part in upload["parts"])
        assert file.size == sum(part["size"] for part in upload["parts"])


@pytest.mark.parametrize("name", [LOCAL[1], S3[1]])
def test_a_damaged_file_is_an_error_or_another_list(name: str) -> None:
    for found in read_damaged(name):
        assert len(found.files) <= 2


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def versioned(version: int, data: bytes) -> bytes:
    return struct.pack(">ii", version, len(data)) + data


def local(
    target: str = RENAMED.target, temporary: str = RENAMED.temporary, size: int = 9, magic: int = 0x1E744B57
) -> bytes:
    names = target.encode(), temporary.encode()
    return struct.pack("<Iqii", magic, size, *map(len, names)) + b"".join(names)


def s3(incomplete: bytes = b"", parts: int = 1) -> bytes:
    found = struct.pack("<I", 0x98761432) + b"".join(struct.pack("<i", len(text)) + text for text in (KEY, UPLOAD))
    found += struct.pack("<i", parts) + struct.pack("<ii", 1, len(TAG)) + TAG + struct.pack("<q", 9)
    return found + struct.pack("<i", len(incomplete)) + incomplete + struct.pack("<q", -1)


def native(key: str = KEY.decode()) -> bytes:
    return utf(key) + utf("up") + struct.pack(">qii", 9, 1, 1) + utf("tag") + b"\0"


def pending(recoverable: bytes, target: str = TARGET, *, version: int = 2, written_by: int = 1, size: int = 9) -> bytes:
    named = b"\1" + utf(target) + struct.pack(">q", size) if version >= 2 else b""
    return versioned(version, struct.pack(">I", 0x2C853C89) + named + versioned(written_by, recoverable))


def committable(file: bytes | None, version: int = 2, behind: bytes = b"\0\0") -> CommitRequest:
    found = struct.pack(">I", 0x1E765C80) + (utf("bucket") if version >= 2 else b"")
    found += (b"\1" + file if file is not None else b"\0") + behind[: 2 if version >= 2 else 1]
    data = bytes(8) + found
    return CommitRequest(
        checkpoint_id=3, state=CommitState.RECEIVED, version=version,
        committable=BigEndianReader(data, "a state", 8),
    )  # fmt: skip


def file_of(file: bytes | None, version: int = 2) -> PendingFile | None:
    request = committable(file, version)
    assert is_file_committable(request)
    found = read_file(request)
    assert found is None or found.checkpoint_id == 3
    return found and replace(found, checkpoint_id=0)


@pytest.mark.parametrize(
    ("stored", "file"),
    [
        (pending(local()), RENAMED),
        (pending(local(), version=1), RENAMED),
        (pending(local("hdfs://n/part-1", "hdfs://n/.part-1", magic=0xD7436C5E), "hdfs://n/part-1"),
         PendingFile(target="hdfs://n/part-1", size=9, temporary="hdfs://n/.part-1")),
        (pending(s3(), "s3a://bucket/a/part-1"), UPLOADED),
        (pending(native(), "s3://bucket/a/part-1"), UPLOADED),
        (pending(b"of another store", "gs://bucket/part-1"), PendingFile(target="gs://bucket/part-1", size=9)),
        (pending(local(), written_by=2), PendingFile(target="/files/part-1", size=9)),
        (pending(b"another client's", "s3://bucket/a/part-1", size=-1), PendingFile(target="s3://bucket/a/part-1", size=None)),
        (None, None),
    ],
    ids=["local", "before 1.15", "Hadoop", "S3", "S3, native", "unknown store", "unknown version", "unknown client", "clean-up"],
)  # fmt: skip
def test_what_makes_a_file_visible(stored: bytes | None, file: PendingFile | None) -> None:
    assert file_of(stored) == file
    assert file_of(stored, version=1) == file
    if file is not None:
        assert file.is_understood == bool(file.temporary or file.upload)


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        (pending(local("/files/part-2")), "is called /files/part-1, and /files/part-2 is made visible"),
        (pending(local(size=-1)), "a file without a size or a name"),
        (pending(local(temporary="")), "a file without a size or a name"),
        (pending(local() + b"\0"), "1 bytes too many"),
        (pending(local()[:-1]), "a text has"),
        (pending(s3(incomplete=b"tail"), "s3://bucket/a/part-1"), "with a part too few"),
        (pending(s3(parts=0), "s3://bucket/a/part-1"), "bytes too many|a text"),
        (pending(s3(parts=2**30), "s3://bucket/a/part-1"), "the number of parts is"),
        (pending(b"", version=1), "neither the file's name nor what makes it visible"),
        (pending(b"", version=3), "the version of a pending file is 3; this program knows 1 and 2"),
        (versioned(2, bytes(30)), "this is no pending file"),
    ],
)
def test_what_is_no_pending_file_is_refused(stored: bytes, error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        file_of(stored)


def test_another_version_of_the_committable_is_refused() -> None:
    request = committable(pending(local()), version=3)
    with pytest.raises(
        UnknownVersion, match="the version of a file sink's committable is 3; this program knows 1 and 2"
    ):
        read_file(request)


def bucket(in_progress: bytes | None = None, *, version: int = 3, directory: str = "file:/files") -> FlinkBucket | None:
    """Return what is read of a writer's state (FileWriterBucketState)."""
    state = struct.pack(">I", 0x1E764B79) + versioned(1, struct.pack(">i", 6) + b"bucket") + utf(directory)
    state += struct.pack(">q", 7) + (b"\1" + in_progress if in_progress is not None else b"\0")
    return read_bucket(BigEndianReader(versioned(version, state), "a state"))


def progress(recoverable: bytes, target: str = TARGET, *, version: int = 2, written_by: int = 1) -> bytes:
    named = b"\1" + utf(target) if version >= 2 else b""
    return versioned(version, struct.pack(">I", 0xB3A4073D) + named + versioned(written_by, recoverable))


@pytest.mark.parametrize(
    ("stored", "in_progress"),
    [
        (None, ""),
        (progress(local()), RENAMED.temporary),
        (progress(local(), version=1), RENAMED.temporary),
        (progress(s3(incomplete=b"tail"), "s3://bucket/a/part-1"), "up"),
        (progress(native(), "s3://bucket/a/part-1"), "up"),
        (progress(b"of another store", "gs://bucket/part-1"), None),
        (progress(local(), written_by=2), None),
    ],
    ids=["none", "local", "before 1.15", "S3", "S3, native", "unknown store", "unknown version"],
)
def test_what_a_writer_goes_on_with(stored: bytes | None, in_progress: str | None) -> None:
    found = bucket(stored)
    assert found is not None
    assert (found.directory, found.in_progress) == ("/files", in_progress)
    earlier = bucket(stored, version=2)
    assert earlier is not None
    assert earlier.in_progress is None, "it lists files for later checkpoints, which are not read"


def test_a_writer_whose_file_in_progress_is_none_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="this is no file in progress"):
        bucket(versioned(2, bytes(30)))
    assert bucket(version=4) is None, "another sink's, or of a version that is not known"


@pytest.mark.parametrize("name", IN_PROGRESS)
def test_names_exactly_what_the_writers_have_open(name: str) -> None:
    held = store(name)
    hidden = {f"{held['directory']}/{row['name']}" for row in held["files"]} if "files" in held else set()
    hidden |= {row["upload"] for row in held.get("uploads", ())}
    checkpoint = read(name)
    assert (checkpoint.unread, checkpoint.files) == ((), ())
    assert {bucket.in_progress for bucket in checkpoint.buckets} == hidden


@pytest.mark.parametrize(("name", "directory"), [(name, store(name)["directory"]) for name in LOCAL])
def test_the_directories_of_writers(name: str, directory: str) -> None:
    assert {(each.directory, each.in_progress) for each in read(name).buckets} == {(directory, "")}
