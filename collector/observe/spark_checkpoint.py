"""Observes the checkpoint directory of a Spark query, any query's, on any filesystem: the files of offsets/ and commits/.

``offsets/N`` is there from when batch N is planned, ``commits/N`` from when it is completed. Source: Spark's OffsetSeqLog and
CommitLog (resource_managers/spark_log_file.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyarrow import fs

from indoubt.collector.history.store import Store
from indoubt.collector.observe.checkpoint_directory import CheckpointFolder, NumberedFile
from indoubt.collector.observe.flink_metadata_files import filesystem_of
from indoubt.collector.observe.source import Observer
from indoubt.collector.records.observations import CheckpointFile, CheckpointFileKind, Observed, Position, Quarantined
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import MalformedRecord, ResourceManagerError
from indoubt.resource_managers import spark_log_file

SHOWN_CHARACTERS = 200
MAX_READ = 100
"""Files of a folder that are read in one poll."""
MAX_READ_AGAIN = 20
"""Quarantined files that are read again in one poll."""
BYTES_READ = 1 << 20
"""The version and the metadata stand first; what follows, a line per source, is not used."""
_KINDS = tuple(CheckpointFileKind)


@dataclass(slots=True)
class _Quarantined:
    """A file that could not be understood: half-written perhaps, so it is reported only when it is the same at the next poll."""

    file: NumberedFile
    observed: Observed
    reported: bool = False
    refused: int = 0
    """How often in a row the filesystem refused to read it: such a file is read again whatever it looks like."""


class CheckpointLog:
    """One of a checkpoint directory's two logs. ``quarantined_before``: numbers that an earlier run quarantined."""

    def __init__(
        self,
        pipeline: str,
        source: str,
        kind: CheckpointFileKind,
        folder: CheckpointFolder,
        quarantined_before: set[int],
    ) -> None:
        self._pipeline, self._source, self._kind, self._folder = pipeline, source, kind, folder
        self._quarantined_before = quarantined_before
        self._quarantined: dict[int, _Quarantined] = {}
        self._missing: set[int] = set()

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the newest files, in order."""
        return self._folder.numbers

    @property
    def has_files(self) -> bool:
        """Say whether there was a file at the last poll."""
        return self._folder.has_files

    def poll(self) -> list[Observed]:
        """Return what is new: checkpoint files, and files that still cannot be understood. Raises ResourceManagerError."""
        changed = self._changed()
        files = changed | {file.number: file for file in self._folder.new_files(MAX_READ)}
        found = [self._observed(file) for file in files.values()]
        return [file for file in found if file is not None] + self._untold(set(files))

    def missing(self, committed: Sequence[int]) -> list[Observed]:
        """Return the files of this log, that of offsets, that are missing for the second time in a row, each once.

        Once is nothing: the two logs are not seen at the same moment.
        """
        planned = self._folder.numbers
        now = set(missing_offsets(planned, committed))
        again = sorted((now & self._missing) - self._quarantined_before)
        self._missing = now
        self._quarantined_before.update(again)
        return [
            Observed(
                position=Position(source=self._source, partition=_KINDS.index(self._kind), offset=number),
                observation=Quarantined(error=_missing(self._folder.path, number, planned), value="", at_ms=now_ms()),
            )
            for number in again
        ]

    def _changed(self) -> dict[int, NumberedFile]:
        """Return the quarantined files that have changed; forget those that are gone."""
        waiting = list(self._quarantined)[:MAX_READ_AGAIN]
        now = self._folder.again(waiting)
        changed = {}
        for number in waiting:
            quarantined = self._quarantined.pop(number)
            if number not in now:
                continue
            self._quarantined[number] = quarantined  # behind the others: all of them have their turn
            if quarantined.refused or now[number] != quarantined.file:
                changed[number] = now[number]
        return changed

    def _observed(self, file: NumberedFile) -> Observed | None:
        """Return the checkpoint file, or None for one that was quarantined or is gone."""
        position = Position(source=self._source, partition=_KINDS.index(self._kind), offset=file.number)
        text, unread = "", True
        try:
            text = self._folder.read(file.number, BYTES_READ).decode(errors="replace")
            unread = False
            observation = parse(self._pipeline, self._kind, file.number, file.modified_ns, text)
        except FileNotFoundError:
            self._quarantined.pop(file.number, None)
            return None
        except (OSError, MalformedRecord) as error:
            what = f"{self._folder.path}/{file.number} cannot be read: {error}" if unread else str(error)
            malformed = Quarantined(error=what, value=text[:SHOWN_CHARACTERS], at_ms=now_ms())
            before = self._quarantined.get(file.number)
            self._quarantined[file.number] = _Quarantined(
                file=file,
                observed=Observed(position=position, observation=malformed),
                reported=before is not None and before.reported,
                refused=(before.refused if before is not None else 0) + 1 if unread else 0,
            )
            return None
        self._quarantined.pop(file.number, None)
        return Observed(position=position, observation=observation)

    def _untold(self, read_now: set[int]) -> list[Observed]:
        found = []
        for number, quarantined in self._quarantined.items():
            if quarantined.reported or (number in read_now and quarantined.refused < 2):
                continue
            quarantined.reported = True
            if number not in self._quarantined_before:
                self._quarantined_before.add(number)
                found.append(quarantined.observed)
        return found


class SparkCheckpoint(Observer):
    """Polls one checkpoint directory; ``pipeline`` is the name it was given at start, ``location`` a path or a URI."""

    kind = ObserverKind.CHECKPOINT_DIRECTORY

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        pipeline: str,
        location: str,
        *,
        interval_ms: int,
    ) -> None:
        super().__init__(current, pipeline)
        self._pipeline, self._location, self._interval_s = pipeline, location, interval_ms / 1000
        self._source = f"spark checkpoint {pipeline}"
        self._store = store
        self._logs: list[CheckpointLog] = []
        """Kept through failures: what they were about to report is reported by the next poll."""

    def observe(self) -> None:
        """Poll until stopped. Raises ResourceManagerError while the directory cannot be read."""
        filesystem, path = filesystem_of(self._location)
        if not self._logs:
            self._logs = self._followed(filesystem, path)
        offsets, commits = self._logs
        while not self.stopping.is_set():
            for log in self._logs:
                found = log.poll()
                if found:
                    self.arrived(found)
            if missing := offsets.missing(commits.numbers):
                self.arrived(missing)
            if not any(log.has_files for log in self._logs):
                self._check_directory(filesystem, path)
            self.polled()
            self.stopping.wait(self._interval_s)

    def _followed(self, filesystem: fs.FileSystem, path: str) -> list[CheckpointLog]:
        reported, quarantined = self._store.checkpoint_files_of(self._source), self._store.quarantined_of(self._source)
        logs = []
        for at, kind in enumerate(_KINDS):
            known = [(number, modified_ns) for file, number, modified_ns in reported if file is kind]
            folder = CheckpointFolder(filesystem, f"{path}/{kind.value}", known)
            quarantined_before = {number for partition, number in quarantined if partition == at}
            logs.append(CheckpointLog(self._pipeline, self._source, kind, folder, quarantined_before))
        return logs

    def _check_directory(self, filesystem: fs.FileSystem, path: str) -> None:
        """Tell a directory that is not there from one without news. Raises ResourceManagerError."""
        try:
            there = filesystem.get_file_info(path).type
        except OSError as error:
            raise ResourceManagerError(f"checkpoint directory {self._location} cannot be read: {error}") from None
        if there is not fs.FileType.Directory:
            raise ResourceManagerError(f"checkpoint directory {self._location} does not exist")


def missing_offsets(planned: Sequence[int], committed: Sequence[int]) -> list[int]:
    """Return the batches whose file in offsets/ is missing; both in order, from the first one that is known on.

    A finished batch has had one. So has the one before the newest, in a log that leaves out no other number: with asynchronous
    progress tracking Spark leaves numbers out, in commits/ the same ones.
    """
    if not planned:
        return list(committed[-1:])
    there, done, newest = set(planned), set(committed), planned[-1]
    missing = [batch for batch in committed if batch > planned[0] and batch not in there]
    gaps = [
        above
        for below, above in pairwise(planned)
        if above - below > 1 and not done.intersection(range(below + 1, above))
    ]
    if gaps == [newest] and newest not in done and len(planned) > 2:
        missing.append(newest - 1)
    return missing


def _missing(folder: str, number: int, planned: Sequence[int]) -> str:
    if planned and number < planned[-1] - 1:
        return f"{folder}/{number} is missing, though its batch was finished"
    return (
        f"{folder}/{number} is missing: Spark cannot start the query from this directory, unless it tracks progress "
        "asynchronously (asyncProgressTrackingEnabled)"
    )


def parse(pipeline: str, kind: CheckpointFileKind, number: int, modified_ns: int, text: str) -> CheckpointFile:
    """Return what one file says. Raises UnknownVersion, MalformedRecord."""
    metadata = spark_log_file.parse(kind.value, number, text).metadata
    at_ms = metadata.get("batchTimestampMs") if kind is CheckpointFileKind.OFFSETS else None
    if at_ms is not None and (not isinstance(at_ms, int) or isinstance(at_ms, bool)):
        raise MalformedRecord(f"{kind.value}/{number}: batchTimestampMs is {at_ms!r}, not a whole number")
    return CheckpointFile(
        pipeline=pipeline,
        number=number,
        kind=kind,
        at_ms=at_ms if at_ms else modified_ns // 1_000_000,
        modified_ns=modified_ns,
    )
