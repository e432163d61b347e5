"""The few things that are done with files below one directory, on this machine or by pyarrow.fs: whose rows, checkpoints, history.

Names are relative, parts joined by ``/``. Every method raises Unreachable for what may be over at the next try, and
ResourceManagerError for the rest. All can be repeated: a file is written whole or not at all, gone is gone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from indoubt.resource_managers.checkpoint_location import CheckpointLocation, is_passing

if TYPE_CHECKING:
    from pyarrow import fs

OBJECT_STORES = ("s3", "gcs", "abfs")
"""pyarrow's names of those without directories: what is written has none to be made first."""
RETRY = Backoff(first_s=0.1, max_s=2.0)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of one folder; ``at_ms``: when it was written, by the storage's clock (epoch ms)."""

    name: str
    size: int
    at_ms: int


class Storage(Protocol):
    """Files below ``where``."""

    where: str

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None when there is none."""

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""

    def write(self, name: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file whole, in the place of one that is there; ``content`` may come in pieces. It is on the disk then."""

    def move(self, name: str, target: str) -> bool:
        """Give a file another name, at once for whoever reads; False: there is none (any more)."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder, not of those in it; none of one that is not there."""


def open_storage(location: CheckpointLocation) -> Storage:
    """Return the storage of a directory. Raises SettingsError when its filesystem cannot be opened, Unreachable."""
    if location.path:
        return LocalStorage(Path(location.path))
    return RemoteStorage(*location.filesystem(), where=location.uri)


class LocalStorage:
    """On this machine's own filesystem: what is written and renamed is synced, its directory too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.where = str(directory)

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None when there is none."""
        with self._told("read", name), contextlib.suppress(FileNotFoundError):
            return (self._directory / name).read_bytes()
        return None

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        with self._told("look for", name):
            return (self._directory / name).exists()

    def write(self, name: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file under another name, sync it, rename it."""
        file = self._directory / name
        draft = file.with_name(_draft(file.name, is_hidden=name.startswith("_")))
        with self._told("write", name):
            _make_directory(file.parent)
            with draft.open("wb") as out:
                out.writelines([content] if isinstance(content, bytes) else content)
                out.flush()
                os.fsync(out.fileno())
            draft.rename(file)
            _sync(file.parent)

    def move(self, name: str, target: str) -> bool:
        """Rename."""
        source, to = self._directory / name, self._directory / target
        with self._told("rename", name):
            _make_directory(to.parent)
            try:
                source.rename(to)
            except FileNotFoundError:
                return False
            _sync(to.parent)
            _sync(source.parent)
            return True

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        file = self._directory / name
        with self._told("remove", name), contextlib.suppress(FileNotFoundError):
            file.unlink()
            _sync(file.parent)

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder."""
        found = []
        with (
            self._told("list", folder),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._directory / folder) as all_,
        ):
            for entry in all_:
                # One may go while the others are listed.
                with contextlib.suppress(FileNotFoundError):
                    if not entry.is_file():
                        continue
                    about = entry.stat()
                    found.append(StoredFile(name=entry.name, size=about.st_size, at_ms=about.st_mtime_ns // 1_000_000))
        return found

    @contextlib.contextmanager
    def _told(self, deed: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResourceManagerError(f"{self.where}: cannot {deed} {name}: {error.strerror or error}") from error


class RemoteStorage:
    """On any of pyarrow's filesystems; on an object store a file appears when it is whole, and a move is a copy and a removal."""

    def __init__(self, filesystem: fs.FileSystem, directory: str, *, where: str) -> None:
        self._filesystem, self._directory = filesystem, directory
        self._has_directories = filesystem.type_name not in OBJECT_STORES
        self.where = where

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None when there is none."""
        with self._told("read", name):
            try:
                stream = self._filesystem.open_input_stream(self._path(name), compression=None)
            except FileNotFoundError:
                return None
            with stream:
                return bytes(stream.read())

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        from pyarrow import fs

        with self._told("look for", name):
            return bool(self._filesystem.get_file_info(self._path(name)).type is fs.FileType.File)

    def write(self, name: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file; where there are directories under another name first, which is then changed."""
        path = self._path(name)
        with self._told("write", name):
            if not self._has_directories:
                self._write(path, content)
                return
            self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            folder, _, base = path.rpartition("/")
            draft = f"{folder}/{_draft(base, is_hidden=name.startswith('_'))}"
            self._write(draft, content)
            if self.exists(name):
                # A rename takes no name that is there.
                self.delete(name)
            self._filesystem.move(draft, path)

    def _write(self, path: str, content: bytes | Iterable[bytes]) -> None:
        with self._filesystem.open_output_stream(path, compression=None) as stream:
            for piece in [content] if isinstance(content, bytes) else content:
                stream.write(piece)

    def move(self, name: str, target: str) -> bool:
        """Rename; on an object store copy and remove, which a repetition finishes."""
        with self._told("rename", name):
            if self._has_directories:
                self._filesystem.create_dir(self._path(target).rpartition("/")[0], recursive=True)
            try:
                self._filesystem.move(self._path(name), self._path(target))
            except OSError:
                if self.exists(name):
                    raise
                return False
            return True

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._told("remove", name), contextlib.suppress(FileNotFoundError):
            self._filesystem.delete_file(self._path(name))

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder."""
        from pyarrow import fs

        with self._told("list", folder):
            found = self._filesystem.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True))
        return [
            StoredFile(name=info.base_name, size=info.size, at_ms=(info.mtime_ns or 0) // 1_000_000)
            for info in found
            if info.type is fs.FileType.File
        ]

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    @contextlib.contextmanager
    def _told(self, deed: str, name: str) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException) as error:
            cause = (str(error).splitlines() or [type(error).__name__])[0]
            kind = Unreachable if is_passing(cause) else ResourceManagerError
            raise kind(f"{self.where}: cannot {deed} {name}: {cause}") from error


def patiently(deed: Callable[[], T], limit_s: float) -> T:
    """Return what ``deed`` returns, which can be repeated; Unreachable is tried again until ``limit_s`` has passed."""
    deadline = time.monotonic() + limit_s
    for pause_s in RETRY.pauses():
        try:
            return deed()
        except Unreachable:
            if time.monotonic() + pause_s > deadline:
                raise
        time.sleep(pause_s)
    raise AssertionError("a backoff has no end")


def _draft(name: str, *, is_hidden: bool) -> str:
    # Behind the name of a branch, so that it goes with it; where readers look, one that they skip.
    # Of several who write the same file at once, each has its own.
    draft = f"{name}.{secrets.token_hex(4)}.draft"
    return draft if is_hidden else f"_{draft}"


def _make_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    _sync(directory.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
