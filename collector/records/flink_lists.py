"""What checkpoints of Flink on disk list, by job and by transaction. It is no history: the files are read again after a start."""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterator
from dataclasses import dataclass, field, replace

from indoubt.collector.records.facts import HandleIdentity
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCommittables,
    Listed,
)
from indoubt.collector.records.formats.pending_files import PendingFile

JOBS_KEPT = 2_000
"""Jobs of a cluster whose lists stay in memory."""
COMMITTABLES_KEPT = 20
"""Checkpoints of one job whose ``_metadata`` stays in memory: Flink itself keeps fewer on disk unless it is told to."""


@dataclass(slots=True)
class FlinkLists:
    """The lists that were read, and which job was seen last to use each transactional id prefix."""

    committables: dict[tuple[str, str], dict[str, FlinkCommittables]] = field(default_factory=dict)
    """(cluster, job) -> directory of a checkpoint -> what its ``_metadata`` lists, oldest read first."""
    _listings: dict[Listed, list[FlinkCommittables]] = field(default_factory=dict)
    _prefixes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Transactional id prefix -> (cluster, job) that was seen to use it last."""
    _pooled: dict[str, bool] = field(default_factory=dict)
    """Transactional id prefix -> whether its ids are used again, as the last list of its job says."""
    _written_ms: dict[str, int] = field(default_factory=dict)
    """Transactional id prefix -> when that list was written."""
    _by_cluster: dict[str, list[str]] | None = field(default=None, compare=False)
    """Cluster -> its jobs in ``committables``; None: to be found again."""

    def see(self, seen: FlinkCommittables) -> None:
        """Note what one lists; one that was written again in the same directory replaces the earlier one."""
        if (seen.cluster, seen.job) not in self.committables:
            self.committables[seen.cluster, seen.job] = {}
            self._by_cluster = None
        of_job = self.committables[seen.cluster, seen.job]
        gone = [before] if (before := of_job.pop(seen.path, None)) is not None else []
        of_job[seen.path] = seen
        if len(of_job) > COMMITTABLES_KEPT:
            gone.append(of_job.pop(next(iter(of_job))))
        for forgotten in gone:
            self._forget(forgotten)
        for committable in seen.committables:
            self._listings.setdefault(committable, []).append(seen)
        for prefix in seen.prefixes:
            # Lists are read by their numbers at start: of two jobs the one that wrote last has the prefix.
            if seen.written_ms >= self._written_ms.get(prefix, 0):
                self._prefixes[prefix] = (seen.cluster, seen.job)
                self._pooled[prefix] = prefix in seen.pooled
                self._written_ms[prefix] = seen.written_ms
        of_cluster = self.jobs_of(seen.cluster)
        if len(of_cluster) > JOBS_KEPT:
            keys = [(seen.cluster, job) for job in of_cluster]
            oldest = min(keys, key=lambda job: max(each.written_ms for each in self.committables[job].values()))
            self._by_cluster = None
            for forgotten in self.committables.pop(oldest).values():
                self._forget(forgotten)
            self._prefixes = {prefix: job for prefix, job in self._prefixes.items() if job != oldest}
            self._pooled = {prefix: told for prefix, told in self._pooled.items() if prefix in self._prefixes}
            self._written_ms = {prefix: at_ms for prefix, at_ms in self._written_ms.items() if prefix in self._prefixes}

    def see_gone(self, cluster: str, path: str) -> None:
        """Note that a checkpoint that was read is not there any more. What it listed is still known: that tells of losses."""
        for job in self.jobs_of(cluster):
            of_job = self.committables[cluster, job]
            known = of_job.get(path)
            if known is None:
                continue
            gone = of_job[path] = replace(known, is_gone=True)
            for prefix in known.prefixes:
                # One that wrote later has it still.
                if known.written_ms >= self._written_ms.get(prefix, 0):
                    self._find_owner(prefix)
            for committable in known.committables:
                listings = self._listings.get(committable, [])
                self._listings[committable] = [gone if each is known else each for each in listings]

    def jobs_of(self, cluster: str) -> list[str]:
        """Return the jobs of a cluster whose lists are kept."""
        if self._by_cluster is None:
            self._by_cluster = {}
            for of_cluster, job in self.committables:
                self._by_cluster.setdefault(of_cluster, []).append(job)
        return self._by_cluster.get(cluster, [])

    def of(self, facts: FlinkJobFacts) -> Collection[FlinkCommittables]:
        """Return the lists of a job, there or gone, oldest read first."""
        return self.committables.get((facts.job.cluster, facts.job.job), {}).values()

    def on_disk(self, cluster: str | None = None) -> Iterator[FlinkCommittables]:
        """Yield every list that is not gone; of one cluster, where it is given."""
        return (each for each in self._every() if not each.is_gone and cluster in (None, each.cluster))

    def _every(self) -> Iterator[FlinkCommittables]:
        return (each for of_job in self.committables.values() for each in of_job.values())

    def _find_owner(self, prefix: str) -> None:
        """Give a prefix to the job that wrote last of those whose lists are there; where none is, it stays as it was."""
        named = (each for each in self.on_disk() if prefix in each.prefixes)
        last = max(named, key=lambda each: each.written_ms, default=None)
        if last is not None:
            self._prefixes[prefix] = (last.cluster, last.job)
            self._pooled[prefix], self._written_ms[prefix] = prefix in last.pooled, last.written_ms

    def _forget(self, forgotten: FlinkCommittables) -> None:
        for committable in forgotten.committables:
            left = [listing for listing in self._listings.get(committable, ()) if listing is not forgotten]
            if left:
                self._listings[committable] = left
            else:
                self._listings.pop(committable, None)

    def listings(self, committable: Listed) -> list[FlinkCommittables]:
        """Return the checkpoints on disk that list exactly this transaction, in the order in which they were read."""
        return list(self._listings.get(committable, ()))

    def have(self, facts: FlinkJobFacts, transaction: HandleIdentity) -> bool:
        """Say whether one of a job lists exactly this transaction."""
        id_, producer_id, epoch = transaction
        if producer_id is None or epoch is None:
            return False
        job = (facts.job.cluster, facts.job.job)
        return any(
            (each.cluster, each.job) == job for each in self._listings.get(Committable(id_, producer_id, epoch), ())
        )

    def checkpoint_of(self, listed: Listed, since_ms: int) -> int | None:
        """Return the number of the first checkpoint that lists a transaction which was opened at ``since_ms``, or None."""
        found = self._listings.get(listed, ())
        return next((each.number for each in found if since_ms <= each.written_ms + CLOCK_SKEW_MS), None)

    def listed_in(self, number: int) -> set[Listed]:
        """Return what the checkpoints of that number list, of whatever job."""
        return {listed for each in self._every() if each.number == number for listed in each.committables}

    def read_on_disk(self, cluster: str, since_ms: int) -> set[str]:
        """Return the jobs of which a ``_metadata`` was read since then (epoch ms)."""
        newest = ((job, next(reversed(self.committables[cluster, job].values()))) for job in self.jobs_of(cluster))
        return {job for job, seen in newest if seen.read_ms >= since_ms}

    def job_of_prefix(self, prefix: str) -> tuple[str, str] | None:
        """Return (cluster, job) of the job whose sink was seen to use a transactional id prefix last."""
        return self._prefixes.get(prefix)

    def names_prefix(self, facts: FlinkJobFacts, prefix: str) -> bool | None:
        """Say whether a job's checkpoints name a transactional id prefix as its sink's; None: none of its lists was read whole."""
        lists = self.of(facts)
        if any(prefix in each.prefixes for each in lists):
            return True
        return None if all(each.error for each in lists) else False

    def read_whole(self, facts: FlinkJobFacts) -> frozenset[int]:
        """Return the checkpoints of a job whose lists were read whole."""
        return frozenset(each.number for each in self.of(facts) if not each.error)

    def is_pooled(self, prefix: str) -> bool | None:
        """Say whether the ids of a prefix are used again (TransactionNamingStrategy.POOLING); None: no list was read."""
        return self._pooled.get(prefix)

    def listed_counts(self) -> dict[tuple[str, int], int]:
        """Return (job, number) -> how many transactions the checkpoint of that number lists, of those read whole."""
        return {(seen.job, seen.number): len(seen.committables) for seen in self._every() if not seen.error}

    def announcing(self) -> Iterator[FlinkCommittables]:
        """Yield those of which is known how many commits each sink announces."""
        return (seen for seen in self._every() if seen.sinks)

    def clusters(self) -> set[str]:
        """Return the clusters of which a list was read."""
        return {cluster for cluster, _ in self.committables}

    def files(self, cluster: str) -> dict[str, tuple[PendingFile, int]]:
        """Return each file that a cluster's lists on disk name, by its name, and when the first of them was read (epoch ms)."""
        found: dict[str, tuple[PendingFile, int]] = {}
        for seen in self.on_disk(cluster):
            for file in seen.files:
                found.setdefault(file.target, (file, seen.read_ms))
        return found

    def of_directory(self, directory: str) -> dict[tuple[str, str], list[FlinkCommittables]]:
        """Return the lists on disk of each (cluster, job) whose file sinks are seen to write to a directory."""
        there: dict[tuple[str, str], list[FlinkCommittables]] = {}
        for each in self.on_disk():
            there.setdefault((each.cluster, each.job), []).append(each)
        return {job: lists for job, lists in there.items() if any(directory in each.buckets for each in lists)}

    def file_directories(self, cluster: str) -> set[str]:
        """Return the directories that the file sinks of a cluster's jobs write to, by its lists on disk."""
        return {directory for each in self.on_disk(cluster) for directory in each.buckets}

    def files_named(self) -> set[str]:
        """Return the temporary names and uploads of all files that any list on disk names."""
        found: set[str] = set()
        for each in self.on_disk():
            found |= {name for file in each.files for name in (file.temporary, file.upload) if name}
            found |= each.in_progress or set()
        return found

    def jobs_of_prefixes(self) -> ItemsView[str, tuple[str, str]]:
        """Return each prefix with (cluster, job) of the job whose sink was seen to use it last."""
        return self._prefixes.items()

    def copy(self) -> FlinkLists:
        """Return lists that do not change with these."""
        return FlinkLists(
            committables={job: dict(of_job) for job, of_job in self.committables.items()},
            _listings={committable: list(listings) for committable, listings in self._listings.items()},
            _prefixes=dict(self._prefixes),
            _pooled=dict(self._pooled),
            _written_ms=dict(self._written_ms),
        )
