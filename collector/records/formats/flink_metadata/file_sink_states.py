"""What Flink's FileSink keeps: the files that a checkpoint makes visible, and those that its writers go on with.

Source: FileSinkCommittableSerializer, FileWriterBucketStateSerializer, OutputStreamBasedPartFileWriter of flink-connector-files and
flink-file-sink-common; LocalRecoverableSerializer of flink-core, HadoopRecoverableSerializer of flink-hadoop-fs,
S3RecoverableSerializer of flink-s3-fs-base, NativeS3RecoverableSerializer of flink-s3-fs-native. What a file system needs to make a
file visible is written in its own way: one that is not known leaves only the file's name and size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import CommitRequest, require_version, versioned
from indoubt.collector.records.formats.pending_files import PendingFile
from indoubt.lifecycle.errors import MalformedRecord

_COMMITTABLE_MAGIC, _BUCKET_MAGIC, _PENDING_MAGIC = 0x1E765C80, 0x1E764B79, 0x2C853C89
_IN_PROGRESS_MAGIC = 0xB3A4073D
_LOCAL_MAGIC, _HADOOP_MAGIC, _S3_MAGIC = 0x1E744B57, 0xD7436C5E, 0x98761432
_COMMITTABLE_VERSIONS, _PENDING_VERSIONS, _RECOVERABLE_VERSIONS = (1, 2), (1, 2), (1,)
_WRITER_VERSIONS, _NAME_VERSIONS = (1, 2, 3), (1,)
_WITHOUT_PENDING = 3
_LEAST_PART_BYTES = 8


def is_file_committable(request: CommitRequest) -> bool:
    """Say whether the FileSink wrote the committable of a request."""
    return _begins_with(request.committable, _COMMITTABLE_MAGIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkBucket:
    """What one writer of a FileSink goes on with after a restore. It commits none of it."""

    directory: str
    """A path or URI (plain_name)."""
    in_progress: str | None
    """The temporary name, or the id of the upload, of the file that it goes on with; empty: none; None: not understood."""


def read_bucket(element: BigEndianReader) -> FlinkBucket | None:
    """Return what one element of the writer's state goes on with where a writer of the FileSink wrote it, else None.

    Raises MalformedRecord.
    """
    try:
        version, state = versioned(element.again(), "the writer's state", _WRITER_VERSIONS)
    except MalformedRecord:
        return None
    if not _begins_with(state, _BUCKET_MAGIC):
        return None
    state.skip(4, "the magic number")
    _part(state, "a bucket's id", _NAME_VERSIONS)
    directory = plain_name(state.utf("a bucket's directory"))
    state.skip(8, "when a file was begun")
    in_progress: str | None = ""
    if state.int8("whether a file is in progress"):
        in_progress = _in_progress(*_part(state, "a file in progress", _PENDING_VERSIONS), directory)
    # Earlier versions list files for later checkpoints behind it.
    if version < _WITHOUT_PENDING:
        in_progress = None
    else:
        state.ends("the writer's state")
    return FlinkBucket(directory=directory.rstrip("/"), in_progress=in_progress)


def _in_progress(version: int, progress: BigEndianReader, directory: str) -> str | None:
    """Return what names a file in progress (OutputStreamBasedInProgressFileRecoverable); None: it is not understood."""
    if progress.int32("the magic number") & 0xFFFFFFFF != _IN_PROGRESS_MAGIC:
        raise progress.error("this is no file in progress", progress.at - 4)
    target = f"{directory}/"
    if version >= 2 and progress.int8("whether a file in progress has a name"):
        target = plain_name(progress.utf("a file's name"))
    written_by = progress.int32("the version of how a file goes on")
    recoverable = progress.sized("how a file goes on")
    if written_by not in _RECOVERABLE_VERSIONS:
        return None
    if _begins_with_little(recoverable, _LOCAL_MAGIC) or _begins_with_little(recoverable, _HADOOP_MAGIC):
        return _renamed(recoverable).temporary
    if not target.startswith("s3"):
        return None
    if _begins_with_little(recoverable, _S3_MAGIC):
        recoverable.skip(4, "the magic number")
        _text(recoverable, "an object's name")
        return _text(recoverable, "an upload's id")
    recoverable.utf("an object's name")
    return recoverable.utf("an upload's id")


def read_file(request: CommitRequest) -> PendingFile | None:
    """Return the file of a request; None: it only cleans up. Raises UnknownVersion, MalformedRecord."""
    committable = request.committable
    require_version(request.version, committable, "a file sink's committable", _COMMITTABLE_VERSIONS)
    committable.skip(4, "the magic number")
    if request.version >= 2:
        committable.utf("a bucket's id")
    pending = (
        _part(committable, "a pending file", _PENDING_VERSIONS)
        if committable.int8("whether a file is pending")
        else None
    )
    if committable.int8("whether a file in progress is cleaned up"):
        _part(committable, "a file in progress", _PENDING_VERSIONS)
    if request.version >= 2 and committable.int8("whether a compacted file is cleaned up"):
        committable.utf("a compacted file")
    committable.ends("a file sink's committable")
    if pending is None:
        return None
    return replace(_pending(*pending), checkpoint_id=request.checkpoint_id)


def _pending(version: int, pending: BigEndianReader) -> PendingFile:
    """Return a pending file (OutputStreamBasedPendingFileRecoverable)."""
    if pending.int32("the magic number") & 0xFFFFFFFF != _PENDING_MAGIC:
        raise pending.error("this is no pending file", pending.at - 4)
    name, size = "", None
    if version >= 2:
        name = pending.utf("a pending file's name") if pending.int8("whether a pending file has a name") else ""
        size = pending.int64("a pending file's size")
    written_by = pending.int32("the version of what makes a file visible")
    recoverable = pending.sized("what makes a file visible")
    pending.ends("a pending file")
    target = plain_name(name)
    return _recovered(written_by, recoverable, target) or _named(target, size, pending)


def _named(target: str, size: int | None, pending: BigEndianReader) -> PendingFile:
    """Return a file of which only its name and size are understood. Raises MalformedRecord where there is no name."""
    if not target:
        raise pending.error("neither the file's name nor what makes it visible is understood", pending.at)
    return PendingFile(target=target, size=size if size is not None and size >= 0 else None)


def _recovered(version: int, recoverable: BigEndianReader, target: str) -> PendingFile | None:
    """Return the file by what its file system wrote, or None: it is one that is not known here. Raises MalformedRecord."""
    if version not in _RECOVERABLE_VERSIONS:
        return None
    found: PendingFile | None
    if _begins_with_little(recoverable, _LOCAL_MAGIC) or _begins_with_little(recoverable, _HADOOP_MAGIC):
        found = _renamed(recoverable)
    elif not target.startswith("s3"):
        return None
    elif _begins_with_little(recoverable, _S3_MAGIC):
        found = _uploaded(recoverable, target)
    else:
        found = _uploaded_natively(recoverable, target)
    if found is not None and target and found.target != target:
        raise recoverable.error(
            f"a pending file is called {target}, and {found.target} is made visible", recoverable.at
        )
    return found


def _renamed(recoverable: BigEndianReader) -> PendingFile:
    """Read LocalRecoverable or HadoopFsRecoverable: the same, but for their first bytes."""
    recoverable.skip(4, "the magic number")
    size = recoverable.little_int64("a file's size")
    target_size, temporary_size = (recoverable.little_int32("the size of a file's name") for _ in range(2))
    target, temporary = recoverable.text(target_size), recoverable.text(temporary_size)
    recoverable.ends("what makes a file visible")
    if size < 0 or not target or not temporary:
        raise recoverable.error("a file without a size or a name is no pending one", recoverable.at)
    return PendingFile(target=plain_name(target), size=size, temporary=plain_name(temporary))


def _uploaded(recoverable: BigEndianReader, target: str) -> PendingFile:
    """Read S3Recoverable, whose object name has no bucket."""
    recoverable.skip(4, "the magic number")
    key, upload = _text(recoverable, "an object's name"), _text(recoverable, "an upload's id")
    number = recoverable.little_int32("the number of parts")
    if number < 0 or number * _LEAST_PART_BYTES > recoverable.left:
        raise recoverable.error(
            f"the number of parts is {number}, and {recoverable.left} bytes are left", recoverable.at - 4
        )
    parts = [(recoverable.little_int32("a part's number"), _text(recoverable, "a part's tag")) for _ in range(number)]
    size = recoverable.little_int64("the size of all parts")
    incomplete = _text(recoverable, "an incomplete object's name")
    recoverable.skip(8, "the size of an incomplete object")
    recoverable.ends("what makes a file visible")
    return _upload(recoverable, target, key, upload, parts, size, incomplete)


def _uploaded_natively(recoverable: BigEndianReader, target: str) -> PendingFile | None:
    """Read NativeS3Recoverable, which has no magic number; None where this is none."""
    try:
        key, upload = recoverable.utf("an object's name"), recoverable.utf("an upload's id")
        size = recoverable.int64("the size of all parts")
        parts = [
            (recoverable.int32("a part's number"), recoverable.utf("a part's tag"))
            for _ in range(recoverable.count("the number of parts", 6))
        ]
        incomplete = ""
        if recoverable.int8("whether an object is incomplete"):
            incomplete = recoverable.utf("an incomplete object's name")
            recoverable.skip(8, "the size of an incomplete object")
        recoverable.ends("what makes a file visible")
        return _upload(recoverable, target, key, upload, parts, size, incomplete)
    except MalformedRecord:
        return None


def _upload(
    recoverable: BigEndianReader,
    target: str,
    key: str,
    upload: str,
    parts: list[tuple[int, str]],
    size: int,
    incomplete: str,
) -> PendingFile:
    bucket = target.partition("://")[2].partition("/")[0]
    if not (key and upload and parts and bucket) or size < 0 or incomplete:
        raise recoverable.error(
            "an upload without name, parts or size, or with a part too few, is no pending one", recoverable.at
        )
    return PendingFile(target=f"s3://{bucket}/{key}", size=size, upload=upload, parts=tuple(parts))


def plain_name(name: str) -> str:
    """Return the name of a file in one spelling: a path on this machine without its scheme, one in S3 as ``s3://``."""
    scheme, colon, rest = name.partition(":")
    if colon and scheme == "file":
        return "/" + rest.lstrip("/")
    if colon and scheme in ("s3a", "s3p"):
        return f"s3:{rest}"
    return name


def _part(reader: BigEndianReader, field: str, known: tuple[int, ...]) -> tuple[int, BigEndianReader]:
    return versioned(reader, field, known, is_all=False)


def _begins_with(reader: BigEndianReader, magic: int) -> bool:
    return reader.rest[:4] == magic.to_bytes(4, "big")


def _begins_with_little(reader: BigEndianReader, magic: int) -> bool:
    return reader.rest[:4] == magic.to_bytes(4, "little")


def _text(reader: BigEndianReader, field: str) -> str:
    return reader.text(reader.little_int32(f"the size of {field}"))
