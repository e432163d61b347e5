"""The files of a checkpoint directory, on this machine or elsewhere: read, write whole, create once, the numbers there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from indoubt.resource_managers.checkpoint_location import CheckpointLocation

if TYPE_CHECKING:
    from pyarrow import fs

LOCK = ".indoubt.lock"
LOCK_LIMIT_S = 10.0
"""The lock is held while one small file is written."""
LOCK_PAUSE_S = 0.01


class CheckpointFiles(Protocol):
    """Files by their name in the directory. Every method raises OSError when the storage refuses."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None when there is none."""

    def replace(self, name: str, before: bytes, after: bytes) -> bool:
        """Write a file at once, whatever crashes, when it holds ``before``; return False, and write nothing, when it does not."""

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that is not there yet; return False, and write nothing, when it is."""

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers that name the files of a folder, in order."""

    def try_to_write(self) -> None:
        """Return when a file could be written here, and was removed again."""


def files_of(location: CheckpointLocation) -> CheckpointFiles:
    """Return the files of a directory. Raises SettingsError when its filesystem cannot be opened, Unreachable."""
    return LocalFiles(Path(location.path)) if location.path else RemoteFiles(*location.filesystem())


class LocalFiles:
    """On this machine's own filesystem; what is written is on the disk when a method returns."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None when there is none."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, before: bytes, after: bytes) -> bool:
        """Write a file at once when it holds ``before``; of several that try at the same time, one gets True."""
        with self._locked(), self._draft(after) as draft:
            if self.read(name) != before:
                return False
            draft.rename(self._directory / name)
            self._sync_directory()
            return True

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that is not there yet; of several that try at the same time, one gets True."""
        file = self._directory / name
        with self._draft(content) as draft:
            try:
                os.link(draft, file)
            except FileExistsError:
                return False
            except OSError:
                # No hard links here. A crash in the middle leaves a part, which the next start refuses by name.
                try:
                    with file.open("xb") as out:
                        _write(out.fileno(), content)
                except FileExistsError:
                    return False
        self._sync_directory()
        return True

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers that name the files of a folder, in order."""
        try:
            return sorted(int(name) for name in os.listdir(self._directory / folder) if name.isdigit())
        except FileNotFoundError:
            return []

    def try_to_write(self) -> None:
        """Make the directory, write a file in it and remove it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._draft(b""):
            pass

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._directory / LOCK).open("a") as file:
            deadline = time.monotonic() + LOCK_LIMIT_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(LOCK_PAUSE_S)
            yield

    @contextlib.contextmanager
    def _draft(self, content: bytes) -> Iterator[Path]:
        draft = self._directory / f".indoubt.{uuid4().hex}"
        try:
            with draft.open("xb") as out:
                _write(out.fileno(), content)
            yield draft
        finally:
            draft.unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class RemoteFiles:
    """On any of pyarrow's filesystems. None of them writes on a condition: ``create`` and ``replace`` look, then write.

    Of several who try within the milliseconds between the two, each may get True.
    """

    def __init__(self, filesystem: fs.FileSystem, directory: str) -> None:
        self._filesystem, self._directory = filesystem, directory

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None when there is none."""
        try:
            with self._filesystem.open_input_stream(f"{self._directory}/{name}", compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def replace(self, name: str, before: bytes, after: bytes) -> bool:
        """Write a file when it holds ``before``; an object store shows it when it is whole."""
        if self.read(name) != before:
            return False
        self._write(name, after)
        return True

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that is not there yet."""
        if self.read(name) is not None:
            return False
        self._write(name, content)
        return True

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers that name the files of a folder, in order."""
        # Imported here: the driver has loaded it for this filesystem, the collector's small process has not.
        from pyarrow import fs

        found = self._filesystem.get_file_info(fs.FileSelector(f"{self._directory}/{folder}", allow_not_found=True))
        names = (info.base_name for info in found if info.type is fs.FileType.File)
        return sorted(int(name) for name in names if name.isdigit())

    def try_to_write(self) -> None:
        """Write a file and remove it."""
        name = f".indoubt.{uuid4().hex}"
        self._write(name, b"")
        self._filesystem.delete_file(f"{self._directory}/{name}")

    def _write(self, name: str, content: bytes) -> None:
        with self._filesystem.open_output_stream(f"{self._directory}/{name}", compression=None) as stream:
            stream.write(content)


def _write(file: int, content: bytes) -> None:
    # os.write may take a part only.
    while content:
        content = content[os.write(file, content) :]
    os.fsync(file)
