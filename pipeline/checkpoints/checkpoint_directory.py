"""What indoubt keeps in a Spark checkpoint directory, its checkpoint id, and what Spark's own files there say.

``offsets/N`` is there from when batch N is planned, before its first task; ``commits/N`` from when the sink has committed it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.errors import CheckpointUnwritable, MalformedRecord, ResourceManagerError, SettingsError
from indoubt.lifecycle.json_record import read_object
from indoubt.lifecycle.resource_manager_kinds import FILES, KAFKA
from indoubt.pipeline.config.sink_settings import SinkSettings, pairs
from indoubt.resource_managers import spark_log_file
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.spark_log_file import COMMITS, OFFSETS, SparkLogFile
from indoubt.resource_managers.storage import Storage, open_storage

FILE = "indoubt.json"
LOCK, PROBE = ".indoubt.lock", "_indoubt.probe"
LOCK_LIMIT_S = 10.0
"""The lock is held while one small file is written."""
LOCK_PAUSE_S = 0.01
TAKE_OVER = {"take_over": True}
"""What a person writes into the file to have a directory taken over as it stands; the first start replaces it by an identity."""
T = TypeVar("T")
TopicIds = Mapping[str, Collection[str]]
"""The ids of topics by their names: several where topics of one name are read in several clusters.

One that was deleted and made again under its name is another one, and no offset of the old counts in it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdentity:
    """Identity of a checkpoint directory: made with it and kept in it, so a new directory is a new checkpoint id.

    It also is a new one when prefix, sink or decision log become other ones: what the log says of a checkpoint id is then said
    of the batches that went to this sink, and of no others. A copy of the directory has the same one. ``location`` is for
    people: it tells no copy from its original.
    """

    checkpoint_id: str
    prefix: str
    sink: str
    decisions: str
    location: str
    becomes: str = ""
    """The checkpoint id that a takeover under way gives this directory, and no copy of it that was made before."""
    sinks: Mapping[str, str] = field(default_factory=dict)
    """What the sink's topic and tables are, whatever their names, by resource manager; what is missing is not known."""
    left: Mapping[str, str] = field(default_factory=dict)
    """The sinks of checkpoint ids that this one was forked from and that may go on: who writes there, by what the sink is."""
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What Spark's offsets count in: the topic ids of each source topic by its name."""

    @property
    def is_taken_over(self) -> bool:
        """Say whether a person gave the directory to us: nothing of ours was ever written from it."""
        return not self.checkpoint_id

    def to_json(self) -> str:
        """Return the content of the identity file."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkProgress:
    """How far Spark got by its own files: the last batch that it planned, the last one that it finished."""

    planned: int | None
    finished: int | None

    @property
    def has_files(self) -> bool:
        """Say whether a query ever ran on this directory."""
        return self.planned is not None or self.finished is not None

    @property
    def unfinished(self) -> int | None:
        """Return the batch that Spark will replay, or None when it finished the last one that it planned."""
        return self.planned if self.planned != self.finished else None


class CheckpointDirectory:
    """One directory. Every method raises CheckpointUnwritable when its storage refuses; elsewhere SettingsError, Unreachable."""

    def __init__(self, location: CheckpointLocation, storage: Storage) -> None:
        self.location, self._storage = location, storage

    @classmethod
    def open(cls, settings: SinkSettings) -> CheckpointDirectory:
        """Return the directory of the settings, made when it is missing, once a file could be written there.

        Raises SettingsError, also for a location that Spark would read in another way, CheckpointUnwritable, Unreachable.
        """
        directory = cls.at(settings)
        directory._ask(lambda: directory._storage.write(PROBE, b""))
        directory._ask(lambda: directory._storage.delete(PROBE))
        return directory

    @classmethod
    def at(cls, settings: SinkSettings) -> CheckpointDirectory:
        """Return the directory of the settings as it is. Raises SettingsError, Unreachable."""
        location = CheckpointLocation.read(settings.checkpoint, pairs(settings.spark_properties))
        return cls(location, open_storage(location))

    def read(self) -> CheckpointIdentity | None:
        """Return the identity, None when nothing is kept here. Raises MalformedRecord for a file that is none."""
        return self._parsed(self._ask(lambda: self._storage.read(FILE)))

    def _parsed(self, content: bytes | None) -> CheckpointIdentity | None:
        if content is None:
            return None
        value = read_object(content, f"{self.location.for_spark}/{FILE}")
        if value == TAKE_OVER:
            return CheckpointIdentity(checkpoint_id="", prefix="", sink="", decisions="", location="")
        wrong = [name for name in _TEXTS if not isinstance(value.get(name), str)]
        wrong += [name for name, holds in _MAPPINGS.items() if not _maps_to(holds, value.get(name))]
        if wrong:
            raise MalformedRecord(f"{self.location.for_spark}/{FILE} has no {wrong[0]!r}, or not as it is written")
        return CheckpointIdentity(**{name: value[name] for name in (*_TEXTS, *_MAPPINGS)})

    def create(self, identity: CheckpointIdentity) -> bool:
        """Write the identity of a new directory; return False, and write nothing, when there is one."""
        return self._ask(lambda: self._change(None, identity))

    def replace(self, before: CheckpointIdentity, after: CheckpointIdentity) -> bool:
        """Replace the identity; return False, and write nothing, when it is not ``before`` any more. Raises MalformedRecord."""
        return self._ask(lambda: self._change(before, after))

    def _change(self, before: CheckpointIdentity | None, after: CheckpointIdentity) -> bool:
        with self._locked():
            if self._parsed(self._storage.read(FILE)) != before:
                return False
            self._storage.write(FILE, after.to_json().encode())
            return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep others from changing the identity meanwhile, on this machine; elsewhere nothing does.

        No other storage writes on a condition: of several who try within milliseconds, each may write.
        """
        if not self.location.path:
            yield
            return
        with (Path(self.location.path) / LOCK).open("a") as file:
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

    def progress(self) -> SparkProgress:
        """Return how far Spark got."""
        # The commit log first: a batch that is planned and finished meanwhile then counts as unfinished, never the opposite.
        finished = self.numbers(COMMITS)[-1:]
        planned = self.numbers(OFFSETS)[-1:]
        return SparkProgress(planned=planned[0] if planned else None, finished=finished[0] if finished else None)

    def numbers(self, folder: str) -> list[int]:
        """Return the batches that have a file in one of Spark's two logs, in order."""
        files = self._ask(lambda: self._storage.files(folder))
        return sorted(int(file.name) for file in files if file.name.isdigit())

    def log_file(self, folder: str, batch: int) -> SparkLogFile | None:
        """Return what Spark's file of a batch says, None where there is none. Raises MalformedRecord."""
        content = self._ask(lambda: self._storage.read(f"{folder}/{batch}"))
        if content is None:
            return None
        file = spark_log_file.parse(folder, batch, content.decode(errors="replace"))
        if folder == OFFSETS:
            spark_log_file.check_offsets(batch, file)
        return file

    def _ask(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except (OSError, ResourceManagerError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            if not self.location.path:
                raise self.location.refusal(cause) from error
            raise CheckpointUnwritable(
                f"checkpoint directory {self.location.path} cannot be written ({getattr(cause, 'strerror', cause)}): nothing was "
                "started; make it writable for this user, or name the right one with --checkpoint"
            ) from error


def check_history(
    location: CheckpointLocation, identity: CheckpointIdentity, progress: SparkProgress, ledger: DecisionLedger
) -> None:
    """Return when a directory and the log of its checkpoint id tell of the same past. Raises SettingsError.

    Spark plans a batch before the batch is decided, and a run's start stands in the log before Spark plans its first batch.
    """
    where = location.for_spark
    if progress.has_files and identity.checkpoint_id not in ledger.checkpoint_ids(identity.prefix):
        raise SettingsError(
            f"decision log {identity.decisions!r} does not know checkpoint directory {where} (checkpoint id "
            f"{identity.checkpoint_id}): it is another cluster's, or it was recreated. Name the cluster that the directory was "
            f"used with (--bootstrap-servers). {_if_the_log_is_lost(where, identity.prefix, progress)}"
        )
    last = ledger.last_decided_batch(identity.checkpoint_id)
    if last is not None and (progress.planned is None or progress.planned < last):
        planned = "none" if progress.planned is None else progress.planned
        raise SettingsError(
            f"checkpoint directory {where} is older than its decision log: batch {last} was decided, and the last batch "
            f"planned in it is {planned}, as after a backup was restored. Spark would write the batches up to {last} again. "
            f"Restore a later state of the directory, with offsets/{last} in it. (A new directory would write every row of "
            "the source again.)"
        )


def _if_the_log_is_lost(where: str, prefix: str, progress: SparkProgress) -> str:
    # Another prefix: runs are counted by the log, and what they left is compared with the counts of the one that is lost.
    take_over = f"write {json.dumps(TAKE_OVER)} into {where}/{FILE} and start with another --prefix to go on from there"
    if progress.unfinished is None:
        return f"If the log is lost: batch {progress.finished}, the last one, is finished; {take_over}."
    return (
        f"If the log is lost: it is unknown how much of batch {progress.unfinished} was committed. Roll back what prefix "
        f"{prefix!r} has open or prepared, take the batch's rows out of the sink if they are there, then {take_over}: the batch "
        "is written in whole"
    )


_TEXTS: tuple[Any, ...] = ("checkpoint_id", "prefix", "sink", "decisions", "location", "becomes")
_MAPPINGS: dict[str, type] = {"sinks": str, "left": str, "sources": list}


def _maps_to(holds: type, value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(held, holds) for held in value.values())


def refuse_other_topics(
    directory: CheckpointDirectory, kept: CheckpointIdentity, sinks: Mapping[str, str], sources: TopicIds
) -> None:
    """Return unless a topic or a directory of files is another one than when the directory was last used. Raises SettingsError.

    ``sinks`` are what each sink is, by resource manager.
    """
    file = f"{directory.location.for_spark}/{FILE}"
    for topic, ids in sources.items():
        before = kept.sources.get(topic, ids)
        if not set(ids) <= set(before):
            raise SettingsError(
                f"{_another(f'source topic {topic!r}', before, ids)} The offsets in the checkpoint directory count in the old "
                "one: records of the new one would be left out. To read the new one from its start, start with a new "
                "--checkpoint and --starting-offsets earliest: what the job keeps (counts, windows) begins anew, and a record "
                "that was written before and is in the new topic too is written again. That goes for records of the new topic "
                "as well, if the pipeline was running when the topic was made. Only if the new topic holds the same records at "
                f'the same offsets (it was restored): remove {json.dumps(topic)} from "sources" in {file}, and start'
            )
    for kind in (KAFKA, FILES):
        before_, now = kept.sinks.get(kind.name, ""), sinks.get(kind.name, "")
        if before_ and now and before_ != now:
            what = f"the {kind.target.lower()} of sink {kept.sink!r}"
            raise SettingsError(
                f"{_another(what, [before_], [now])} What was written to the old one is gone with it. "
                f'To write to the new one what comes next, remove {json.dumps(kind.name)} from "sinks" in {file}, and start. (A '
                "new checkpoint directory would write every row of the source again, to every sink.)"
            )


def keep_sources(directory: CheckpointDirectory, sources: TopicIds) -> None:
    """Keep the ids of topics that are read for the first time. Raises SettingsError for one that is another one now."""
    kept = directory.read()
    if kept is None:
        return
    refuse_other_topics(directory, kept, {}, sources)
    wanted = with_sources(kept, sources)
    if wanted != kept:
        directory.replace(kept, wanted)


def with_sources(kept: CheckpointIdentity, sources: TopicIds) -> CheckpointIdentity:
    """Return the identity with the ids of topics that it does not know yet."""
    new = {topic: sorted(ids) for topic, ids in sources.items() if ids and topic not in kept.sources}
    return replace(kept, sources={**kept.sources, **new}) if new else kept


def _another(what: str, before: Collection[str], now: Collection[str]) -> str:
    return (
        f"{what} is another one than before (its id is {', '.join(sorted(now))}; it was {', '.join(sorted(before))}): it was "
        "deleted and made again, or this is another cluster."
    )
