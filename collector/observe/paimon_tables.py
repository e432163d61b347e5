"""Commits of Flink's sink to Paimon tables: finds the table, and looks whether it has one. It never writes.

No checkpoint says where a table lies. Below the directories of the settings it is the one with a snapshot of the commit's user, or
with the data file that the commit adds.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pyarrow import fs

from indoubt.collector.observe.flink_metadata_files import filesystem_of
from indoubt.collector.records.formats.pending_files import FileSeen, PaimonCommit, PendingFile
from indoubt.collector.records.paimon_snapshots import Snapshot, read_snapshot, seen_in
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError

SEARCHED_EVERY_S = 30.0
"""So often at most the tables are searched for one of a commit user that none of them had."""
_SNAPSHOT = re.compile(r"snapshot-\d+")
_DATABASE = ".db"
_SNAPSHOT_LIMIT = 2**20
"""Bytes of a snapshot's file at most; one takes about 700."""


class _SnapshotFile(NamedTuple):
    path: str
    size: int
    mtime_ns: int


class PaimonTables:
    """``directories``: warehouses, databases or tables, by path or URI."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = directories
        self._filesystems: dict[str, fs.FileSystem] = {}
        self._found: dict[str, tuple[fs.FileSystem, str]] = {}
        """Commit user -> its table, or the branch of one."""
        self._searched_s: dict[str, float] = {}
        self._snapshots: dict[str, dict[_SnapshotFile, Snapshot]] = {}
        """Table -> what its snapshots said. A table that is rolled back uses a number again: size and time tell."""

    def look(self, file: PendingFile) -> FileSeen:
        """Return how its table has a commit. Raises ResourceManagerError where that cannot be asked."""
        assert file.paimon is not None, "it is a commit to a Paimon table"
        try:
            return seen_in(self._history(*self._table(file.paimon)), file.paimon, file.listed_ms)
        except OSError as error:
            raise ResourceManagerError(f"the table of {file.target} cannot be asked: {error}") from None
        except MalformedRecord as error:
            raise ResourceManagerError(str(error)) from None

    def _table(self, commit: PaimonCommit) -> tuple[fs.FileSystem, str]:
        found = self._found.get(commit.user)
        searched_s = self._searched_s.get(commit.user)
        if found is None and (searched_s is None or time.monotonic() - searched_s >= SEARCHED_EVERY_S):
            self._searched_s[commit.user] = time.monotonic()
            found = self._search(commit)
        if found is None:
            below = ", ".join(self._directories) or "no directory"
            raise ResourceManagerError(
                f"no table below {below} has a snapshot of commit user {commit.user}, or {commit.first_file}: name its warehouse "
                "in INDOUBT_PAIMON_WAREHOUSES"
            )
        self._found[commit.user] = found
        return found

    def _search(self, commit: PaimonCommit) -> tuple[fs.FileSystem, str] | None:
        by_file = None
        for filesystem, table in self._tables():
            branches = _directories_in(filesystem, f"{table}/branch")
            for place in (table, *branches):
                if any(each.user == commit.user for each in self._history(filesystem, place)):
                    return filesystem, place
            # Branches have their data files in the directory of their table.
            if not branches and "/" in commit.first_file and _is_there(filesystem, f"{table}/{commit.first_file}"):
                by_file = filesystem, table
        return by_file

    def _tables(self) -> Iterator[tuple[fs.FileSystem, str]]:
        for directory in self._directories:
            filesystem, path = filesystem_of(directory, self._filesystems)
            if _is_there(filesystem, f"{path}/schema"):
                yield filesystem, path
                continue
            databases = [path] if path.endswith(_DATABASE) else _directories_in(filesystem, path)
            for database in databases:
                if database.endswith(_DATABASE):
                    for table in _directories_in(filesystem, database):
                        yield filesystem, table

    def _history(self, filesystem: fs.FileSystem, table: str) -> list[Snapshot]:
        """Return the snapshots that a table, or a branch, has. Raises OSError, MalformedRecord."""
        known, found = self._snapshots.get(table, {}), dict[_SnapshotFile, Snapshot]()
        for info in filesystem.get_file_info(fs.FileSelector(f"{table}/snapshot", allow_not_found=True)):
            file = _SnapshotFile(info.path, info.size, info.mtime_ns)
            if file in known:
                found[file] = known[file]
            elif _SNAPSHOT.fullmatch(info.base_name):
                # One that is not there any more expired meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    found[file] = _read(filesystem, info.path)
        self._snapshots[table] = found
        return list(found.values())


def _read(filesystem: fs.FileSystem, path: str) -> Snapshot:
    with filesystem.open_input_stream(path, compression=None) as stream:
        return read_snapshot(stream.read(_SNAPSHOT_LIMIT), path)


def _is_there(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type is not fs.FileType.NotFound)


def _directories_in(filesystem: fs.FileSystem, path: str) -> list[str]:
    infos = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [info.path for info in infos if info.type is fs.FileType.Directory]
