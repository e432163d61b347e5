"""A folder whose files are named 0, 1, 2, …, followed on any pyarrow filesystem with bounded work per poll.

Spark's offsets/ and commits/ may hold hundreds of thousands of files, and an object store pages through all of them for one
listing. So a folder is listed no more often than a small share of the time allows: each time for the hundred files that Spark
keeps by default. Between two listings only the newest known file and the next few names are asked for; the folder is listed at
once when the newest file has gone or changed (the directory was recreated). A log may have gaps: with asynchronous progress
tracking Spark leaves numbers out, and only a listing shows what comes behind them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from pyarrow import fs

from indoubt.lifecycle.errors import ResourceManagerError

MAX_BACKLOG = 1_000
"""Files of the past that are read when a folder is first seen, newest first: older checkpoints are no news."""
NEXT_NAMES = 2
"""Names asked for beyond the newest file; doubled while all of them are there."""
MAX_NEXT_NAMES = 64
_NAME = re.compile(r"[0-9]{1,18}")
LISTING_SHARE = 0.02
"""Listing takes at most this part of the time, however large the folder is."""


class NumberedFile(NamedTuple):
    """A file as it was seen; written again it is another one."""

    number: int
    modified_ns: int
    size: int


class CheckpointFolder:
    """``known`` are the files that need not be reported again: (number, modification time in ns)."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        path: str,
        known: Collection[tuple[int, int]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._filesystem, self._clock = filesystem, clock
        self._known = dict(sorted(known))
        self._newest: NumberedFile | None = None
        self._backlog: dict[int, NumberedFile] = {}
        self._there: set[int] = set()
        self._list_at_s = 0.0

    def new_files(self, most: int) -> list[NumberedFile]:
        """Return at most ``most`` files that were not reported yet, newest first. Raises ResourceManagerError."""
        try:
            self._poll()
        except OSError as error:
            raise ResourceManagerError(f"checkpoint folder {self.path} cannot be read: {error}") from None
        taken = sorted(self._backlog.values(), reverse=True)[:most]
        for file in taken:
            del self._backlog[file.number]
            self._known[file.number] = file.modified_ns
        return taken

    @property
    def has_files(self) -> bool:
        """Say whether there was a file at the last poll."""
        return self._newest is not None

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the newest files, in order: all from the first of them on, as of the last listing and since."""
        return sorted(self._there)

    def again(self, numbers: Collection[int]) -> dict[int, NumberedFile]:
        """Return how files that were reported are now; those that are gone are left out. Raises ResourceManagerError."""
        try:
            found = self._asked(sorted(numbers))
        except OSError as error:
            raise ResourceManagerError(f"checkpoint folder {self.path} cannot be read: {error}") from None
        self._known.update((file.number, file.modified_ns) for file in found)
        return {file.number: file for file in found}

    def read(self, number: int, limit: int) -> bytes:
        """Return the first ``limit`` bytes of a file. Raises OSError."""
        with self._filesystem.open_input_stream(f"{self.path}/{number}", compression=None) as stream:
            return bytes(stream.read(limit))

    def _poll(self) -> None:
        if self._newest is None or self._clock() >= self._list_at_s:
            self._list()
            return
        names = NEXT_NAMES
        while names <= MAX_NEXT_NAMES:
            asked = self._asked(range(self._newest.number, self._newest.number + names + 1))
            if self._newest not in asked:
                self._list()
                return
            found = [file for file in asked if file != self._newest]
            self._add(found)
            if len(found) < names:
                return
            names *= 2

    def _asked(self, numbers: Collection[int]) -> list[NumberedFile]:
        infos = self._filesystem.get_file_info([f"{self.path}/{number}" for number in numbers]) if numbers else []
        return [_file(info) for info in infos if info.type is fs.FileType.File]

    def _list(self) -> None:
        began_s = self._clock()
        infos = self._filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        files = sorted(
            _file(info) for info in infos if info.type is fs.FileType.File and _NAME.fullmatch(info.base_name)
        )
        ended_s = self._clock()
        self._list_at_s = ended_s + (ended_s - began_s) / LISTING_SHARE
        # What has been deleted need not be remembered; what has the same name in a new directory is another file.
        listed = {file.number for file in files}
        self._known = {number: at for number, at in self._known.items() if number in listed}
        self._backlog, self._there = {}, set()
        self._newest = None
        self._add(files[-MAX_BACKLOG:])

    def _add(self, files: list[NumberedFile]) -> None:
        for file in files:
            self._there.add(file.number)
            if self._known.get(file.number) != file.modified_ns:
                self._backlog[file.number] = file
        if files:
            self._newest = files[-1]
        if len(self._there) > 2 * MAX_BACKLOG:
            self._there = set(sorted(self._there)[-MAX_BACKLOG:])
        if len(self._known) > 4 * MAX_BACKLOG:
            self._known = dict(sorted(self._known.items())[-2 * MAX_BACKLOG :])


def _file(info: fs.FileInfo) -> NumberedFile:
    # Not every filesystem knows the time: size alone then tells a file that was written again.
    return NumberedFile(int(info.base_name), info.mtime_ns or 0, info.size or 0)
