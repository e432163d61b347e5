"""Finds the checkpoints in directories of a Flink cluster and reads the ``_metadata`` of each, once, and again if it changes.

A job's checkpoints lie in ``<job id>/chk-<number>`` (state.checkpoints.dir; FsCheckpointStorageAccess); savepoints lie where REST
says.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyarrow import fs

from indoubt.collector.observe.flink_metadata_files import FILE, Place, filesystem_of, read_place
from indoubt.collector.records.flink_lists import JOBS_KEPT
from indoubt.collector.records.formats.flink_records import FlinkCommittables, UnreadCheckpoint
from indoubt.lifecycle.errors import ResourceManagerError

CHECKPOINTS_OF_A_JOB = 20
"""The newest ones that are read of each job."""
JOBS_OF_A_DIRECTORY = JOBS_KEPT
"""Of more, those whose directories changed last are read: memory keeps no more lists."""
SETTLED_AFTER_S = 5.0
"""A file that was written less long ago is looked at in every poll."""
QUIET_S, COARSE_QUIET_S = 0.1, 2.0
"""A directory that changed less long ago is listed in every poll; the second where its filesystem counts whole seconds."""
LOOKED_AT_EVERY_S = 60.0
"""So often a settled file is looked at where its directory does not tell of changes, as in object stores."""
CHECKPOINT = re.compile(r"chk-(?P<number>[0-9]{1,18})")
_JOB = re.compile(r"[0-9a-f]{32}")


class Reported(NamedTuple):
    """A checkpoint or savepoint that REST reported, which leads to the directory it lies in."""

    uri: str
    job: str
    number: int


class Now(NamedTuple):
    """One time for a whole look: files that were written until ``settled_ns`` (epoch) are settled."""

    settled_ns: float
    monotonic_s: float

    @classmethod
    def read(cls) -> Now:
        """Return the present."""
        return cls(1e9 * (time.time() - SETTLED_AFTER_S), time.monotonic())


class Read(NamedTuple):
    """A ``_metadata`` as it was read: its modification time (ns), its size, its directory's change, by our clock when."""

    mtime_ns: int
    size: int
    changed_ns: int | None
    at_s: float

    def stands(self, place: Place, now: Now) -> bool:
        """Say whether it need not be looked at again yet.

        A directory changes when its file is made, not while it is written: a file is settled some time after.
        """
        if self.mtime_ns > now.settled_ns:
            return False
        if place.changed_ns is not None:
            return place.changed_ns == self.changed_ns
        return now.monotonic_s - self.at_s < LOOKED_AT_EVERY_S


class Listed(NamedTuple):
    """The checkpoints in a job's directory, the directory's change (ns) before they were listed, by our clock when."""

    places: list[Place]
    changed_ns: int
    at_s: float

    def stands(self, changed_ns: int | None) -> bool:
        """Say whether the directory need not be listed again: it has not changed, and was listed within a minute."""
        return changed_ns == self.changed_ns and time.monotonic() - self.at_s < LOOKED_AT_EVERY_S


class CheckpointStore:
    """``directory``: below which a cluster's jobs keep their checkpoints; empty: only what REST reported is looked for."""

    def __init__(self, cluster: str, directory: str = "") -> None:
        self._cluster, self._directories = cluster, (directory,) if directory else ()
        self._filesystems: dict[str, fs.FileSystem] = {}
        self._read: dict[str, Read] = {}
        """Path -> the ``_metadata`` that was read there."""
        self._places_read: dict[str, Place] = {}
        """The same paths -> where they are."""
        self.in_use: frozenset[str] = frozenset()
        """URIs of checkpoints that list what is open: their ``_metadata`` is looked at in every poll."""
        self.gone: list[str] = []
        """URIs of checkpoints that were read and that the newest poll found to be deleted."""
        self._listed: dict[str, Listed] = {}
        """Path of a job's directory -> what was in it."""
        self._damaged: dict[str, UnreadCheckpoint] = {}
        """Path -> those that were read and not understood: they are read again once they change."""
        self._unread: dict[str, UnreadCheckpoint] = {}
        """URI -> what could not be reached in the newest poll."""
        self.out_of_reach: dict[tuple[str, int | None], str] = {}
        """The same by job and number, where another than this collector may well read it (FlinkState.out_of_reach)."""
        self.left_out: dict[str, int] = {}
        """Directory of the settings -> how many directories of jobs below it are not read: there are too many."""
        self.is_remote = False
        """Whether a place of the newest look is not on this machine."""
        self.answered_s = time.monotonic()
        """When a filesystem answered last."""

    def answered(self) -> None:
        """Note that a filesystem has answered, or is asked from now on."""
        self.answered_s = time.monotonic()

    @property
    def unread(self) -> list[UnreadCheckpoint]:
        """Return each checkpoint that could not be read, or not be understood."""
        return [*self._unread.values(), *self._damaged.values()]

    def read_new(self, reported: Iterable[Reported]) -> list[FlinkCommittables]:
        """Return what every ``_metadata`` lists that is new or has changed. Raises ResourceManagerError."""
        self._unread, self.out_of_reach, self.left_out, self.is_remote = {}, {}, {}, False
        places = {place.path: place for place in self._places(reported)}
        self.gone = self._gone_of([path for path in self._read if path not in places])
        self._read = {path: seen for path, seen in self._read.items() if path in places}
        self._damaged = {path: said for path, said in self._damaged.items() if path in places}
        found, now = [], Now.read()
        for place in sorted(places.values(), key=lambda place: place.number):
            known = self._read.get(place.path)
            is_settled = known is not None and place.path not in self._damaged and known.stands(place, now)
            if is_settled and place.uri not in self.in_use:
                continue
            committables = self._new(place, known)
            self.answered()
            if committables is not None:
                found.append(committables)
        return found

    def _gone_of(self, left: Sequence[str]) -> list[str]:
        """Return the URIs of those of these that are deleted: others are only too many to be read."""
        gone = []
        for path in left:
            place = self._places_read.pop(path)
            try:
                info = place.filesystem.get_file_info(f"{path}/{FILE}")
            except OSError:
                continue
            if info.type is fs.FileType.NotFound:
                gone.append(place.uri)
        return gone

    def _new(self, place: Place, known: Read | None) -> FlinkCommittables | None:
        try:
            info = place.filesystem.get_file_info(f"{place.path}/{FILE}")
            if info.type is not fs.FileType.File:
                return None
            seen = Read(info.mtime_ns or 0, info.size or 0, place.changed_ns, time.monotonic())
            if known is not None and (known.mtime_ns, known.size) == (seen.mtime_ns, seen.size):
                self._read[place.path] = seen
                return None
            committables = read_place(self._cluster, place, info)
        except OSError as error:
            changed_ms = place.changed_ns // 1_000_000 if place.changed_ns is not None else None
            self._unread[place.uri] = UnreadCheckpoint(place.uri, place.job, place.number, str(error), changed_ms)
            if not isinstance(error, FileNotFoundError) and error.errno != errno.EIO:
                self.out_of_reach[(place.job, place.number)] = str(error)
            return None
        self._read[place.path] = seen
        self._places_read[place.path] = place
        self._damaged.pop(place.path, None)
        if committables.error:
            self._damaged[place.path] = UnreadCheckpoint(
                place.uri, place.job, place.number, committables.error, committables.written_ms
            )
        return committables

    def _places(self, reported: Iterable[Reported]) -> list[Place]:
        """Return the newest checkpoints of each job that is known. Raises ResourceManagerError."""
        found: list[Place] = []
        listed: set[str] = set()
        for directory in self._directories:
            filesystem, path = self._opened(directory)
            jobs = [entry for entry in _directories(filesystem, path) if _JOB.fullmatch(entry.base_name)]
            if len(jobs) > JOBS_OF_A_DIRECTORY:
                self.left_out[directory] = len(jobs) - JOBS_OF_A_DIRECTORY
            for entry in jobs[-JOBS_OF_A_DIRECTORY:]:
                listed.add(entry.path)
                uri = f"{directory.rstrip('/')}/{entry.base_name}"
                found += self._of_job(filesystem, uri, entry.path, entry.base_name)
        for uri, job, number in reported:
            try:
                filesystem, path = self._opened(uri)
                if not CHECKPOINT.fullmatch(path.rpartition("/")[2]):
                    found.append(Place(filesystem, uri, path, job, number))
                    continue
                parent = path.rpartition("/")[0]
                if parent not in listed:
                    listed.add(parent)
                    found += self._of_job(filesystem, uri.rstrip("/").rpartition("/")[0], parent, job)
            except ResourceManagerError as error:
                self.out_of_reach[(job, None)] = str(error)
                self._unread[uri] = UnreadCheckpoint(uri, job, number, str(error))
        self._listed = {path: before for path, before in self._listed.items() if path in listed}
        return found

    def _of_job(self, filesystem: fs.FileSystem, uri: str, path: str, job: str) -> list[Place]:
        """Return the newest checkpoints of a job. Raises ResourceManagerError.

        On this machine a directory tells that nothing was made in it or removed: it is listed again only then, and while one of
        its checkpoints is not read.
        """
        before, changed_ns = self._listed.get(path), _changed_ns(path) if _is_local(filesystem) else None
        self.answered()
        if (
            before is not None
            and before.stands(changed_ns)
            and all(place.path in self._read for place in before.places)
        ):
            return before.places
        places = _of_job(filesystem, uri, path, job)
        self.answered()
        # Two changes may bear the same time: the second may come behind the listing.
        if changed_ns is not None and time.time() - changed_ns / 1e9 > _quiet_s(changed_ns):
            self._listed[path] = Listed(places, changed_ns, time.monotonic())
        else:
            self._listed.pop(path, None)
        return places

    def _opened(self, location: str) -> tuple[fs.FileSystem, str]:
        """Return the filesystem and the path on it. Raises ResourceManagerError."""
        filesystem, path = filesystem_of(location, self._filesystems)
        self.is_remote = self.is_remote or not _is_local(filesystem)
        return filesystem, path


def _quiet_s(changed_ns: int) -> float:
    """Return for how long (s) another change of a directory may bear the same time."""
    return QUIET_S if changed_ns % 1_000_000_000 else COARSE_QUIET_S


def _is_local(filesystem: fs.FileSystem) -> bool:
    return isinstance(filesystem, fs.LocalFileSystem)


def _changed_ns(path: str) -> int | None:
    """Return when a directory on this machine changed, or None: it cannot be told."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _of_job(filesystem: fs.FileSystem, uri: str, path: str, job: str) -> list[Place]:
    """Return the newest checkpoints in a job's directory, oldest first. Raises ResourceManagerError."""
    numbered = [
        (int(match["number"]), entry)
        for entry in _directories(filesystem, path)
        if (match := CHECKPOINT.fullmatch(entry.base_name))
    ]
    newest = sorted(numbered, key=lambda each: each[0])[-CHECKPOINTS_OF_A_JOB:]
    return [
        Place(filesystem, f"{uri}/{entry.base_name}", entry.path, job, number, entry.mtime_ns)
        for number, entry in newest
    ]


def _directories(filesystem: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    """Return the directories in a directory, the one that changed last at the end. Raises ResourceManagerError."""
    try:
        entries = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except OSError as error:
        raise ResourceManagerError(f"directory {path} cannot be listed: {error}") from None
    return sorted(
        (entry for entry in entries if entry.type is fs.FileType.Directory), key=lambda entry: entry.mtime_ns or 0
    )
