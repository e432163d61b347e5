"""Reads which transactions Flink's checkpoints on disk list: the file ``_metadata`` of each, once, and again if it changes.

Its places: the directory of each job of which REST reported a checkpoint, and those of ``--flink-checkpoints``. A job's checkpoints
lie in ``<job id>/chk-<number>`` (state.checkpoints.dir; FsCheckpointStorageAccess); savepoints lie where REST says.
A thread of its own per cluster: a slow store holds up nothing else.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import BinaryIO, NamedTuple

from pyarrow import fs

from collector.records.flink_facts import JOBS_KEPT
from collector.records.formats.flink_metadata.checkpoint_metadata import METADATA_LIMIT, read_checkpoint_metadata
from collector.records.formats.flink_metadata.sink_states import TransactionOwnership
from collector.records.formats.flink_records import Committable, FlinkCommittables
from collector.records.observer_kind import ObserverKind
from collector.runtime.clock import now_ms
from collector.sources.source import Observer
from collector.views.current_state import CurrentState
from lifecycle.counted_nouns import counted
from lifecycle.errors import MalformedRecord, ResourceManagerError, SettingsError
from resource_managers.checkpoint_location import CheckpointLocation

FILE = "_metadata"
CHECKPOINTS_OF_A_JOB = 20
"""The newest ones that are read of each job."""
JOBS_OF_A_DIRECTORY = JOBS_KEPT
"""Of more, those whose directories changed last are read: memory keeps no more lists."""
SETTLED_AFTER_S = 5.0
"""A file that was written less long ago is looked at in every poll."""
LOOKED_AT_EVERY_S = 60.0
"""So often a settled file is looked at where its directory does not tell of changes, as in object stores."""
_JOB = re.compile(r"[0-9a-f]{32}")
_CHECKPOINT = re.compile(r"chk-(?P<number>[0-9]{1,18})")
_PRESTO = "s3p://"
"""Flink's name for S3 by another client of its own."""


class Place(NamedTuple):
    """A checkpoint's directory: its URI as a person knows it, its path on the filesystem."""

    filesystem: fs.FileSystem
    uri: str
    path: str
    job: str
    number: int
    changed_ns: int | None = None
    """When the directory changed, where its filesystem tells."""


class Read(NamedTuple):
    """A ``_metadata`` as it was read: its modification time (ns), its size, its directory's change, by our clock when."""

    mtime_ns: int
    size: int
    changed_ns: int | None
    at_s: float

    def stands(self, place: Place) -> bool:
        """Say whether it need not be looked at again yet.

        A directory changes when its file is made, not while it is written: a file is settled some time after.
        """
        if time.time() - self.mtime_ns / 1e9 < SETTLED_AFTER_S:
            return False
        if place.changed_ns is not None:
            return place.changed_ns == self.changed_ns
        return time.monotonic() - self.at_s < LOOKED_AT_EVERY_S


class FlinkCommittablesReader(Observer):
    """``directories``: of ``--flink-checkpoints`` for this cluster; ``follows_rest``: REST tells of this cluster's checkpoints."""

    kind = ObserverKind.FLINK_CHECKPOINTS

    def __init__(
        self,
        current: CurrentState,
        cluster: str,
        directories: Iterable[str],
        *,
        interval_ms: int,
        remote_interval_ms: int,
        retry_max_ms: int,
    ) -> None:
        super().__init__(current, retry_max_ms, cluster)
        self._cluster, self._directories = cluster, tuple(directories)
        self._interval_s, self._remote_interval_s = interval_ms / 1000, remote_interval_ms / 1000
        self._filesystems: dict[str, fs.FileSystem] = {}
        self._read: dict[str, Read] = {}
        """Path -> the ``_metadata`` that was read there."""
        self._places_read: dict[str, Place] = {}
        """The same paths -> where they are."""
        self._damaged: dict[str, tuple[str, str]] = {}
        """Path -> (URI, why) of those that were read and not understood: they are read again once they change."""
        self._unread: dict[str, str] = {}
        """URI -> why of what could not be reached in the newest poll."""
        self._out_of_reach: dict[tuple[str, int | None], str] = {}
        """The same by job and number, where another than this collector may well read it (FlinkState.out_of_reach)."""
        self._left_out: dict[str, int] = {}
        """Directory of the settings -> how many directories of jobs below it are not read: there are too many."""
        self._is_remote = False
        self._note = ""

    @property
    def note(self) -> str:
        """Return what could not be read."""
        return self._note

    def observe(self) -> None:
        """Read what is new until stopped. Raises ResourceManagerError when a directory of the settings cannot be listed."""
        while not self.stopping.is_set():
            self.read_new()
            self.polled()
            self.stopping.wait(self._remote_interval_s if self._is_remote else self._interval_s)

    def read_new(self) -> None:
        """Read every ``_metadata`` that is new or has changed. Raises ResourceManagerError."""
        self._unread, self._out_of_reach, self._left_out = {}, {}, {}
        try:
            places = {place.path: place for place in self._places()}
        except ResourceManagerError as error:
            self.current.see_flink_out_of_reach(self._cluster, {("", None): str(error)})
            raise
        self._note_gone([path for path in self._read if path not in places])
        self._read = {path: seen for path, seen in self._read.items() if path in places}
        self._damaged = {path: said for path, said in self._damaged.items() if path in places}
        found = [self._new(place) for place in sorted(places.values(), key=lambda place: place.number)]
        new = [committables for committables in found if committables is not None]
        if new:
            self.current.see_flink_committables(new)
            self.count(len(new))
        self.current.see_flink_out_of_reach(self._cluster, self._out_of_reach)
        unread = [*self._unread.items(), *self._damaged.values()]
        said = [
            f"{counted(number, 'directory', 'directories')} of jobs below {directory} that changed longest ago "
            f"{'is' if number == 1 else 'are'} not read: delete those of jobs that are over"
            for directory, number in self._left_out.items()
        ]
        if unread:
            uri, why = unread[-1]
            number = counted(len(unread), "checkpoint")
            said.insert(0, f"{number} cannot be read, the last of them {uri}: {why}")
        self._note = "; ".join(said)

    def _note_gone(self, left: Sequence[str]) -> None:
        """Tell of those of these that are deleted: others are only too many to be read."""
        gone = []
        for path in left:
            place = self._places_read.pop(path)
            try:
                info = place.filesystem.get_file_info(f"{path}/{FILE}")
            except OSError:
                continue
            if info.type is fs.FileType.NotFound:
                gone.append(place.uri)
        if gone:
            self.current.see_flink_gone(self._cluster, gone)

    def _new(self, place: Place) -> FlinkCommittables | None:
        known = self._read.get(place.path)
        if known is not None and place.path not in self._damaged and known.stands(place):
            return None
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
            self._unread[place.uri] = str(error)
            if not isinstance(error, FileNotFoundError) and error.errno != errno.EIO:
                self._out_of_reach[(place.job, place.number)] = str(error)
            return None
        self._read[place.path] = seen
        self._places_read[place.path] = place
        self._damaged.pop(place.path, None)
        if committables.error:
            self._damaged[place.path] = (place.uri, committables.error)
        return committables

    def _places(self) -> list[Place]:
        """Return the newest checkpoints of each job that is known. Raises ResourceManagerError."""
        found: list[Place] = []
        listed: set[str] = set()
        for directory in self._directories:
            filesystem, path = self._opened(directory)
            jobs = [entry for entry in _directories(filesystem, path) if _JOB.fullmatch(entry.base_name)]
            if len(jobs) > JOBS_OF_A_DIRECTORY:
                self._left_out[directory] = len(jobs) - JOBS_OF_A_DIRECTORY
            for entry in jobs[-JOBS_OF_A_DIRECTORY:]:
                listed.add(entry.path)
                uri = f"{directory.rstrip('/')}/{entry.base_name}"
                found += _of_job(filesystem, uri, entry.path, entry.base_name)
        for uri, job, number in self._reported():
            try:
                filesystem, path = self._opened(uri)
                if not _CHECKPOINT.fullmatch(path.rpartition("/")[2]):
                    found.append(Place(filesystem, uri, path, job, number))
                    continue
                parent = path.rpartition("/")[0]
                if parent not in listed:
                    listed.add(parent)
                    found += _of_job(filesystem, uri.rstrip("/").rpartition("/")[0], parent, job)
            except ResourceManagerError as error:
                self._unread[uri] = self._out_of_reach[(job, None)] = str(error)
        return found

    def _reported(self) -> list[tuple[str, str, int]]:
        """Return (URI, job, number) of each job's newest completed checkpoints and savepoints, as REST reported them."""
        reported: list[tuple[str, str, int]] = []
        for job, newest in self.current.flink_newest_completed(self._cluster, CHECKPOINTS_OF_A_JOB):
            # One checkpoint leads to the directory that holds them all; savepoints lie each somewhere else.
            leads: dict[str, tuple[str, str, int]] = {}
            for checkpoint in newest:
                parent, _, last = checkpoint.path.rstrip("/").rpartition("/")
                place = parent if _CHECKPOINT.fullmatch(last) else checkpoint.path
                leads.setdefault(place, (checkpoint.path, job, checkpoint.number))
            reported += leads.values()
        return reported

    def _opened(self, location: str) -> tuple[fs.FileSystem, str]:
        """Return the filesystem and the path on it. Raises ResourceManagerError."""
        filesystem, path = filesystem_of(location, self._filesystems)
        self._is_remote = self._is_remote or not isinstance(filesystem, fs.LocalFileSystem)
        return filesystem, path


def filesystem_of(location: str, known: dict[str, fs.FileSystem] | None = None) -> tuple[fs.FileSystem, str]:
    """Return the filesystem of a path or URI, and the path on it; ``known`` keeps opened ones. Raises ResourceManagerError."""
    text = f"s3://{location.removeprefix(_PRESTO)}" if location.startswith(_PRESTO) else location
    try:
        place = CheckpointLocation.read(text)
        if place.path:
            return fs.LocalFileSystem(), place.path
        root = "/".join(place.uri.split("/")[:3])
        if known is not None and root in known:
            return known[root], place.uri.partition("://")[2]
        filesystem, path = place.filesystem()
    except (SettingsError, OSError) as error:
        raise ResourceManagerError(str(error)) from None
    if known is not None and path == place.uri.partition("://")[2]:
        known[root] = filesystem
    return filesystem, path


def read_again(committables: FlinkCommittables) -> FlinkCommittables | None:
    """Return what the same checkpoint lists now, or None when its ``_metadata`` is not there any more.

    Raises ResourceManagerError when its directory cannot be reached.
    """
    filesystem, path = filesystem_of(committables.path)
    place = Place(filesystem, committables.path, path, committables.job, committables.number)
    try:
        info = filesystem.get_file_info(f"{path}/{FILE}")
        return read_place(committables.cluster, place, info) if info.type is fs.FileType.File else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResourceManagerError(f"{committables.path}/{FILE} cannot be read: {error}") from None


def read_place(cluster: str, place: Place, info: fs.FileInfo) -> FlinkCommittables:
    """Return what a checkpoint's ``_metadata`` lists; what is wrong with it is in ``error``. Raises OSError."""
    with place.filesystem.open_input_stream(info.path, compression=None) as stream:
        data = stream.read(METADATA_LIMIT + 1)
    read_ms = now_ms()
    written_ms = info.mtime_ns // 1_000_000 if info.mtime_ns else read_ms

    nothing = FlinkCommittables(
        cluster=cluster,
        job=place.job,
        number=place.number,
        path=place.uri,
        kind=None,
        written_ms=written_ms,
        read_ms=read_ms,
    )
    try:
        metadata = read_checkpoint_metadata(data, lambda path: _open_state(place, path))
    except MalformedRecord as error:
        return replace(nothing, error=str(error))
    unread = metadata.unread
    first = f"{unread[0].state}: {unread[0].reason}" if unread else ""
    return replace(
        nothing,
        number=metadata.checkpoint_id,
        kind=metadata.kind,
        committables=frozenset(
            [
                *(
                    Committable(each.transactional_id, each.producer_id, each.producer_epoch)
                    for each in metadata.to_commit
                ),
                *(branch.xid for branch in metadata.branches),
            ]
        ),
        prefixes=frozenset(state.transactional_id_prefix for state in metadata.writer_states),
        pooled=frozenset(
            state.transactional_id_prefix
            for state in metadata.writer_states
            if state.ownership is TransactionOwnership.EXPLICIT_BY_WRITER_STATE
        ),
        error=f"{len(unread)} states of sinks were not read, the first: {first}" if unread else "",
    )


def _open_state(place: Place, path: str) -> BinaryIO:
    """Open a state file: beside ``_metadata``, or under the job's own directory where the path is absolute. Raises OSError."""
    if "/" not in path:
        found: BinaryIO = place.filesystem.open_input_file(f"{place.path}/{path}")
        return found
    try:
        _, absolute = filesystem_of(path)
    except ResourceManagerError as error:
        raise OSError(str(error)) from None
    if not absolute.startswith(f"{place.path.rpartition('/')[0]}/"):
        raise OSError(f"{path} is outside the directory of the job's checkpoints: it is not opened")
    found = place.filesystem.open_input_file(absolute)
    return found


def _of_job(filesystem: fs.FileSystem, uri: str, path: str, job: str) -> list[Place]:
    """Return the newest checkpoints in a job's directory, oldest first. Raises ResourceManagerError."""
    numbered = [
        (int(match["number"]), entry)
        for entry in _directories(filesystem, path)
        if (match := _CHECKPOINT.fullmatch(entry.base_name))
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
