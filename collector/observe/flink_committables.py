"""Reads which transactions Flink's checkpoints on disk list.

Its places: the directory of each job of which REST reported a checkpoint, and those of ``--flink-checkpoints``. Each directory of
the settings, and each other one that holds directories of jobs, is read apart: one that hangs holds up nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import lru_cache

from indoubt.collector.observe.flink_checkpoint_store import CHECKPOINT, CHECKPOINTS_OF_A_JOB, CheckpointStore, Reported
from indoubt.collector.observe.flink_metadata_files import uri_of
from indoubt.collector.observe.flink_store_reader import FlinkStoreReader
from indoubt.collector.observe.pace import Pace
from indoubt.collector.observe.source import RETRY_FIRST_S, RETRY_MAX_S, Observer
from indoubt.collector.observe.watched_sources import FlinkJobPlace
from indoubt.collector.records.formats.flink_records import FlinkCommittables, UnreadCheckpoint
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import ResourceManagerError

PATIENCE_S = 1.0
"""So long a round waits for the stores that it asked."""
MOST_READERS = 16
"""Of a cluster: so many directories that REST reported are read apart; those beyond them share one reader."""
_OTHERS = "other directories"


class FlinkCommittablesReader(Observer):
    """``directories``: of ``--flink-checkpoints`` for this cluster; ``jobs``: what Kubernetes told of."""

    kind = ObserverKind.FLINK_CHECKPOINTS

    def __init__(
        self,
        current: CurrentState,
        cluster: str,
        directories: Iterable[str],
        *,
        jobs: Iterable[FlinkJobPlace] = (),
        interval_ms: int,
        remote_interval_ms: int,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(current, cluster)
        self._cluster = cluster
        # Any name of a checkpoint leads to the directory that holds those of the job.
        self._told = [Reported(f"{directory.rstrip('/')}/{job}/chk-0", job, 0) for directory, job in jobs]
        self._interval_s, self._remote_interval_s = interval_ms / 1000, remote_interval_ms / 1000
        self._pace = pace or Pace(share=1.0, cost_s=0.0)
        self._backoff = Backoff(first_s=RETRY_FIRST_S, max_s=RETRY_MAX_S)
        self._readers = {uri_of(directory): self._reader(directory, directory) for directory in directories}
        """By the directory below which all places of a reader lie; of ``_OTHERS`` they lie anywhere."""
        self._of_settings = tuple(self._readers)
        self._counting = threading.Lock()

    def observe(self) -> None:
        """Read what is new until stopped."""
        self.stopping.wait(self._pace.begin_s())
        while not self.stopping.is_set():
            began_s = time.thread_time()
            try:
                self.read_new()
            except ResourceManagerError as error:
                self.poll_failed(error)
            else:
                # What was there at the start was seen, but for stores that the note names.
                if all(reader.has_answered or reader.silence or reader.error for reader in self._readers.values()):
                    self.polled()
            next_s = min((reader.next_s for reader in self._readers.values()), default=self._interval_s)
            looks_s = sum(reader.cost_s for reader in self._readers.values())
            self._pace.spent(time.thread_time() - began_s + looks_s)
            self.rest_s = self._pace.rest_s(next_s)
            self.stopping.wait(self.rest_s)

    def read_new(self) -> None:
        """Have every store read what is new, and wait for those that answer soon.

        Raises ResourceManagerError when a directory of the settings cannot be listed, or does not answer; the others were read.
        """
        self._assign(self._reported())
        until_s = time.monotonic() + PATIENCE_S
        for reader in self._readers.values():
            reader.begin()
        for reader in self._readers.values():
            reader.wait(until_s - time.monotonic())
        self._say()

    def _say(self) -> None:
        """Note what is out of reach. Raises ResourceManagerError, as ``read_new`` does."""
        out_of_reach: dict[tuple[str, int | None], str] = {}
        unread: list[UnreadCheckpoint] = []
        silent: list[UnreadCheckpoint] = []
        said: list[str] = []
        failed: list[str] = []
        for key, reader in self._readers.items():
            unread += reader.unread
            out_of_reach |= reader.out_of_reach
            if why := reader.silence or reader.error:
                said.append(why)
                if key in self._of_settings:
                    failed.append(why)
                    out_of_reach["", None] = why
                else:
                    silent += [UnreadCheckpoint(uri, job, number, why) for uri, job, number in reader.reported]
                out_of_reach |= {(job, None): why for _, job, _ in reader.reported}
        self.current.flink.see_out_of_reach(self._cluster, out_of_reach, [*unread, *silent])
        if unread:
            last = unread[-1]
            said.append(
                f"{counted(len(unread), 'checkpoint')} cannot be read, the last of them {last.path}: {last.why}"
            )
        said += [
            f"{counted(number, 'directory', 'directories')} of jobs below {directory} that changed longest ago "
            f"{'is' if number == 1 else 'are'} not read: delete those of jobs that are over"
            for reader in self._readers.values()
            for directory, number in reader.left_out.items()
        ]
        self.limit = "; ".join(said)
        if failed:
            raise ResourceManagerError("; ".join(failed))

    def _reader(self, name: str, directory: str) -> FlinkStoreReader:
        return FlinkStoreReader(
            name,
            CheckpointStore(self._cluster, directory),
            self._hand_over,
            interval_s=self._interval_s,
            remote_interval_s=self._remote_interval_s,
            retry=self._backoff,
        )

    def _hand_over(self, new: list[FlinkCommittables], gone: list[str]) -> None:
        if gone:
            self.current.flink.see_gone(self._cluster, gone)
        if new:
            self.current.flink.see_committables(new)
        with self._counting:
            self.count(len(new))

    def _assign(self, reported: Iterable[Reported]) -> None:
        """Give each reader what REST reported below its directory, and drop those that have nothing to read any more."""
        of_reader: dict[str, list[Reported]] = {key: [] for key in self._of_settings}
        for place in reported:
            uri = uri_of(place.uri)
            key = next((own for own in self._of_settings if f"{uri}/".startswith(f"{own}/")), _below(uri))
            if key not in of_reader and len(of_reader) - len(self._of_settings) >= MOST_READERS:
                key = _OTHERS
            of_reader.setdefault(key, []).append(place)
        for key in of_reader:
            if key not in self._readers:
                self._readers[key] = self._reader(key, "")
        # One that hangs keeps its thread: its place is taken until it ends.
        self._readers = {key: reader for key, reader in self._readers.items() if key in of_reader or not reader.is_idle}
        in_use = self.current.flink.in_use()
        for key, reader in self._readers.items():
            reader.reported, reader.store.in_use = of_reader.get(key, ()), in_use

    def _reported(self) -> list[Reported]:
        """Return each job's newest completed checkpoints and savepoints, as REST reported them."""
        reported = list(self._told)
        for job, newest in self.current.flink.newest_completed(self._cluster, CHECKPOINTS_OF_A_JOB):
            # One checkpoint leads to the directory that holds them all; savepoints lie each somewhere else.
            leads: dict[str, Reported] = {}
            for checkpoint in newest:
                if (lead := _lead(checkpoint.path)) not in leads:
                    leads[lead] = Reported(checkpoint.path, job, checkpoint.number)
            reported += leads.values()
        return reported


@lru_cache(maxsize=65_536)
def _lead(path: str) -> str:
    """Return the directory that a checkpoint leads to: the one that holds all of its job, or its own."""
    parent, _, last = path.rstrip("/").rpartition("/")
    return parent if CHECKPOINT.fullmatch(last) else path


@lru_cache(maxsize=65_536)
def _below(uri: str) -> str:
    """Return the directory that holds those of jobs, or savepoints, of a checkpoint's URI."""
    parent, _, last = uri.rpartition("/")
    return parent.rpartition("/")[0] if CHECKPOINT.fullmatch(last) else parent
