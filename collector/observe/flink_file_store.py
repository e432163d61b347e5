"""What checkpoints of Flink list where it lies: looks for it, makes it visible, removes it. Files here or in S3; tables.

What makes a file visible is what Flink itself does (LocalRecoverableFsDataOutputStream, S3Committer): a rename, or the end of its
upload. Elsewhere, as in HDFS, files are looked for and left alone.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyarrow import fs

from indoubt.collector.observe.flink_metadata_files import filesystem_of
from indoubt.collector.observe.iceberg_tables import IcebergTables
from indoubt.collector.observe.paimon_tables import PaimonTables
from indoubt.collector.records.formats.pending_files import (
    FileSeen,
    IcebergCommit,
    PaimonCommit,
    PendingFile,
    Standing,
    TableCommit,
)
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable

T = TypeVar("T")
S3 = "s3://"
_NOT_FOUND = ("404", "NoSuchKey", "NoSuchUpload", "NotFound")
_HIDDEN = re.compile(r"\.(?P<name>.+)\.inprogress\.[0-9a-f-]+", re.DOTALL)
HIDDEN_LIMIT = 10_000
"""Hidden files of one directory that are looked through at most."""
_CONNECT_LIMIT_S, _READ_LIMIT_S = 3, 10


class FileStore:
    """Keeps what it opened; of several threads each may use one. ``paimon_warehouses``: where Paimon tables are searched for."""

    def __init__(self, paimon_warehouses: Sequence[str] = ()) -> None:
        self._filesystems: dict[str, fs.FileSystem] = {}
        self._s3: Any = None
        self._tables: Mapping[type[TableCommit], IcebergTables | PaimonTables] = {
            IcebergCommit: IcebergTables(),
            PaimonCommit: PaimonTables(paimon_warehouses),
        }

    def look(self, file: PendingFile) -> FileSeen:
        """Return how the store has a file. Raises ResourceManagerError where it cannot be asked."""
        if file.commit is not None:
            return self._tables[type(file.commit)].look(file)
        if file.upload:
            return _seen(file, *self._ask(lambda: (self._object_size(file), self._upload_size(file))))
        if not file.target.startswith("/"):
            return _seen(file, self._size(file.target), self._size(file.temporary))
        if file.temporary and not _is_temporary_of(file):
            return FileSeen(Standing.UNCLEAR, f"{file.temporary} is none of Flink's names for {file.target}")
        visible, hidden = _stat(file.target), _stat(file.temporary)
        if visible is not None and hidden is not None and os.path.samestat(visible, hidden):
            hidden = None
        return _seen(file, *(None if found is None else found.st_size for found in (visible, hidden)))

    def make_visible(self, file: PendingFile) -> None:
        """Make a file visible that is hidden now. Raises ResourceManagerError: nothing was done, or what went wrong."""
        if file.commit is not None:
            return self._tables[type(file.commit)].add(file)
        if file.size is None:
            raise ResourceManagerError(f"no checkpoint says how many bytes {file.target} has: it is not made visible")
        self._require_hidden(file)
        if file.upload:
            parts = [{"PartNumber": number, "ETag": tag} for number, tag in file.parts]
            self._ask(
                lambda: self._client().complete_multipart_upload(**_named(file), MultipartUpload={"Parts": parts})
            )
        else:
            _rename(file)
        seen = self.look(file)
        if seen.standing is not Standing.VISIBLE:
            raise ResourceManagerError(f"{file.target} is not visible after that: {seen.why or seen.standing.value}")

    def hidden_in(self, directory: str) -> list[PendingFile]:
        """Return the hidden files in a directory, at most about HIDDEN_LIMIT: none in other stores.

        Raises ResourceManagerError.
        """
        if directory.startswith("/"):
            return _hidden_in(directory)
        return self._ask(lambda: self._uploads_in(directory)) if directory.startswith(S3) else []

    def _uploads_in(self, directory: str) -> list[PendingFile]:
        bucket, _, prefix = directory.removeprefix(S3).partition("/")
        found: list[PendingFile] = []
        marker: dict[str, str] = {}
        while len(found) < HIDDEN_LIMIT:
            answer = self._client().list_multipart_uploads(Bucket=bucket, Prefix=f"{prefix}/", Delimiter="/", **marker)
            for upload in answer.get("Uploads", ()):
                # Not every S3-compatible store heeds the delimiter.
                if "/" in upload["Key"].removeprefix(f"{prefix}/"):
                    continue
                found.append(PendingFile(target=f"{S3}{bucket}/{upload['Key']}", size=None, upload=upload["UploadId"]))
            if not answer.get("IsTruncated"):
                break
            marker = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}
        return found

    def remove(self, file: PendingFile) -> None:
        """Remove a file that is hidden now, so that nobody makes it visible. Raises ResourceManagerError, as ``make_visible``."""
        if file.commit is not None:
            raise ResourceManagerError("a commit to a table is not taken back: a restored job would miss its files")
        self._require_hidden(file)
        if file.upload:
            self._ask(lambda: self._client().abort_multipart_upload(**_named(file)))
        else:
            _local(os.unlink, file.temporary)

    def _require_hidden(self, file: PendingFile) -> None:
        if not file.upload and not file.target.startswith("/"):
            raise ResourceManagerError(
                f"{file.target} is neither on this machine nor in S3: it is not touched from here"
            )
        seen = self.look(file)
        if seen.standing is not Standing.HIDDEN:
            raise ResourceManagerError(
                f"{file.target} is {seen.standing.value} now{f': {seen.why}' if seen.why else ''}"
            )

    def _size(self, name: str) -> int | None:
        """Return how many bytes a file has on whatever file system, None where it is not there."""
        if not name:
            return None
        filesystem, path = filesystem_of(name, self._filesystems)
        try:
            info = filesystem.get_file_info(path)
        except OSError as error:
            raise ResourceManagerError(f"{name} cannot be looked for: {error}") from None
        return int(info.size) if info.type is fs.FileType.File else None

    def _object_size(self, file: PendingFile) -> int | None:
        bucket, key = _place(file)
        found = _or_none(lambda: self._client().head_object(Bucket=bucket, Key=key))
        return None if found is None else int(found["ContentLength"])

    def _upload_size(self, file: PendingFile) -> int | None:
        """Return how many bytes the listed parts of its upload have, None where there is no such upload."""
        held: dict[int, tuple[str, int]] = {}
        marker = 0
        while True:
            answer = _or_none(functools.partial(self._client().list_parts, **_named(file), PartNumberMarker=marker))
            if answer is None:
                return None
            held |= {part["PartNumber"]: (part["ETag"].strip('"'), part["Size"]) for part in answer.get("Parts", ())}
            if not answer.get("IsTruncated"):
                break
            marker = answer["NextPartNumberMarker"]
        listed = [held.get(number, ("", 0)) for number, _ in file.parts]
        is_whole = [tag for tag, _ in listed] == [tag.strip('"') for _, tag in file.parts]
        return sum(size for _, size in listed) if is_whole else 0

    def _client(self) -> Any:
        if self._s3 is None:
            try:
                boto3, config = importlib.import_module("boto3"), importlib.import_module("botocore.config")
            except ImportError:
                raise SettingsError(
                    "uploads to S3 are asked for with the package boto3: install indoubt with the extra 's3'"
                ) from None
            limits = config.Config(
                connect_timeout=_CONNECT_LIMIT_S, read_timeout=_READ_LIMIT_S, retries={"max_attempts": 2}
            )
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            self._s3 = boto3.client("s3", region_name=region, config=limits)
        return self._s3

    def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except SettingsError as error:
            raise ResourceManagerError(str(error)) from None
        except Exception as error:
            # botocore has no common base of its errors, and what they say may hold parts of a credential.
            code = _code_of(error)
            if code is None and not type(error).__module__.startswith("botocore"):
                raise
            raise Unreachable(f"S3 does not answer: {code or type(error).__name__}") from None


def _hidden_in(directory: str) -> list[PendingFile]:
    found: list[PendingFile] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                name = _HIDDEN.fullmatch(entry.name)
                if name is None or not entry.is_file(follow_symlinks=False):
                    continue
                found.append(PendingFile(target=f"{directory}/{name['name']}", size=None, temporary=entry.path))
                if len(found) == HIDDEN_LIMIT:
                    break
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ResourceManagerError(f"directory {directory} cannot be listed: {error.strerror}") from None
    return found


def _seen(file: PendingFile, visible: int | None, hidden: int | None) -> FileSeen:
    """Return the standing of a file by how many bytes it has under each of its names; None: it is not there."""
    if visible is not None and hidden is not None:
        return FileSeen(Standing.UNCLEAR, "it is there visible and hidden, and they are not the same")
    if visible is not None:
        if file.size in (None, visible):
            return FileSeen(Standing.VISIBLE)
        return FileSeen(Standing.UNCLEAR, f"it is visible with {visible} bytes, and {file.size} were written")
    if not file.is_understood:
        return FileSeen(Standing.UNCLEAR, "it is not visible, and what makes it so is not known here")
    if hidden is None:
        return FileSeen(Standing.MISSING)
    if file.size is None:
        return FileSeen(Standing.HIDDEN)
    # A task that went on before it failed leaves more bytes: they are cut off.
    is_whole = hidden == file.size if file.upload else hidden >= file.size
    if is_whole:
        return FileSeen(Standing.HIDDEN)
    return FileSeen(Standing.UNCLEAR, f"it is hidden with {hidden} bytes, and {file.size} were written")


def _is_temporary_of(file: PendingFile) -> bool:
    """Say whether a temporary name is one that LocalRecoverableWriter gives: the list may come from anybody who writes there."""
    directory, _, name = file.target.rpartition("/")
    return (
        file.temporary.startswith(f"{directory}/.{name}.inprogress.")
        and "/" not in file.temporary[len(directory) + 1 :]
    )


def _stat(path: str) -> os.stat_result | None:
    """Return what is known of a file on this machine, None where its directory has none of that name."""
    if not path:
        return None
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            raise ResourceManagerError(f"directory {directory} is not there: is it mounted here?") from None
        return None
    except OSError as error:
        raise ResourceManagerError(f"{path} cannot be looked for: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise ResourceManagerError(f"{path} is no regular file")
    return found


def _rename(file: PendingFile) -> None:
    """Give a file its own name, never in place of another one: the link fails where there is one."""
    _local(os.truncate, file.temporary, file.size)
    try:
        os.link(file.temporary, file.target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise ResourceManagerError(f"{file.temporary} cannot be renamed: {error.strerror}") from None
        _local(os.rename, file.temporary, file.target)
    else:
        _local(os.unlink, file.temporary)
    descriptor = os.open(os.path.dirname(file.target), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _local(act: Callable[..., None], path: str, *more: Any) -> None:
    try:
        act(path, *more)
    except OSError as error:
        raise ResourceManagerError(f"{path}: {error.strerror}") from None


def _place(file: PendingFile) -> tuple[str, str]:
    bucket, _, key = file.target.removeprefix(S3).partition("/")
    return bucket, key


def _named(file: PendingFile) -> dict[str, str]:
    bucket, key = _place(file)
    return {"Bucket": bucket, "Key": key, "UploadId": file.upload}


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        if _code_of(error) in _NOT_FOUND:
            return None
        raise


def _code_of(error: Exception) -> str | None:
    """Return the code of S3's answer, None for another error."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else None
