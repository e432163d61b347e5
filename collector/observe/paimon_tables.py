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
from indoubt.collector.records.formats.avro import read_blocks
from indoubt.collector.records.formats.pending_files import LACKED, FileSeen, PaimonCommit, PendingFile, Standing
from indoubt.collector.records.paimon_snapshots import Snapshot, numbered, read_snapshot, seen_in
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError

SEARCHED_EVERY_S = 30.0
"""So often at most the tables are searched for one of a commit user that none of them had."""
_SNAPSHOT, _MANIFEST = re.compile(r"snapshot-\d+"), re.compile(rb"manifest-[0-9a-f-]{36}-\d+")
_DATABASE = ".db"
_LIMIT = 2**26
"""Bytes of a snapshot or manifest at most; by default Paimon ends a manifest at 8 MB."""


class _SnapshotFile(NamedTuple):
    path: str
    size: int
    mtime_ns: int


class _Table(NamedTuple):
    """``branch``: the directory with the snapshots of a branch, the table's own of its main one; all else is in ``directory``."""

    filesystem: fs.FileSystem
    directory: str
    branch: str


class PaimonTables:
    """``directories``: warehouses, databases or tables, by path or URI."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = directories
        self._filesystems: dict[str, fs.FileSystem] = {}
        self._found: dict[str, _Table] = {}
        """By commit user."""
        self._searched_s: dict[str, float] = {}
        self._snapshots: dict[str, dict[_SnapshotFile, Snapshot]] = {}
        """Table -> what its snapshots said. A table that is rolled back uses a number again: size and time tell."""

    def look(self, file: PendingFile) -> FileSeen:
        """Return how its table has a commit. Raises ResourceManagerError where that cannot be asked."""
        commit = file.commit
        assert isinstance(commit, PaimonCommit)
        try:
            table = self._table(commit)
            snapshots = self._history(table.filesystem, table.branch)
            is_added = any(_adds(table, each, commit) for each in numbered(snapshots, commit))
            seen = seen_in(snapshots, commit, is_added=is_added)
            return FileSeen(Standing.MISSING) if seen == LACKED and _is_gone(table, commit) else seen
        except OSError as error:
            raise ResourceManagerError(f"the table of {file.target} cannot be asked: {error}") from None
        except MalformedRecord as error:
            raise ResourceManagerError(str(error)) from None

    def add(self, file: PendingFile) -> None:
        """Raises ResourceManagerError: nothing is done."""
        raise ResourceManagerError("no order adds to a Paimon table: a job that is restored from the checkpoint does")

    def _table(self, commit: PaimonCommit) -> _Table:
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

    def _search(self, commit: PaimonCommit) -> _Table | None:
        by_file = None
        for filesystem, table in self._tables():
            branches = _directories_in(filesystem, f"{table}/branch")
            for place in (table, *branches):
                if any(each.user == commit.user for each in self._history(filesystem, place)):
                    return _Table(filesystem, table, place)
            # Branches have their data files in the directory of their table.
            if not branches and "/" in commit.first_file and _is_there(filesystem, f"{table}/{commit.first_file}"):
                by_file = _Table(filesystem, table, table)
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
                    found[file] = read_snapshot(_read(filesystem, info.path), info.path)
        self._snapshots[table] = found
        return list(found.values())


def _adds(table: _Table, snapshot: Snapshot, commit: PaimonCommit) -> bool:
    """Say whether a manifest of what a snapshot adds names the first file of a commit. Raises OSError, MalformedRecord."""
    manifests = {name.decode() for name in _MANIFEST.findall(_blocks(table, snapshot.manifests))}
    name = commit.first_file.rpartition("/")[2].encode()
    return any(name in _blocks(table, manifest) for manifest in sorted(manifests))


def _is_gone(table: _Table, commit: PaimonCommit) -> bool:
    """Say whether the first file of a commit was removed, as one that no snapshot names; of partitions its place is not known."""
    return "/" in commit.first_file and not _is_there(table.filesystem, f"{table.directory}/{commit.first_file}")


def _blocks(table: _Table, manifest: str) -> bytes:
    path = f"{table.directory}/manifest/{manifest}"
    if "/" in manifest:
        raise MalformedRecord(f"{manifest} is no manifest's name")
    return read_blocks(_read(table.filesystem, path), path)


def _read(filesystem: fs.FileSystem, path: str) -> bytes:
    with filesystem.open_input_stream(path, compression=None) as stream:
        found: bytes = stream.read(_LIMIT)
    return found


def _is_there(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type is not fs.FileType.NotFound)


def _directories_in(filesystem: fs.FileSystem, path: str) -> list[str]:
    infos = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [info.path for info in infos if info.type is fs.FileType.Directory]
