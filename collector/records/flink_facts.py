"""What is known of Flink's jobs and their checkpoints: kept for good, where Flink itself forgets all but the last ten.

Flink triggers checkpoints under numbers that only grow within a job; a job that is restored goes on behind the number it was
restored from. Each observation replaces what was known, so that the order in which they arrive does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_clusters import JobClusters
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, CheckpointRows, FlinkJobFacts, Restore
from indoubt.collector.records.flink_lists import FlinkLists
from indoubt.collector.records.flink_stores import FlinkStores
from indoubt.collector.records.formats.flink_records import (
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkStatus,
    UnreadCheckpoint,
)
from indoubt.collector.records.formats.pending_files import FileSeen, UnnamedFile

JOBS_KEPT = 2_000
"""Jobs that REST tells of stay in memory, up to twice as many."""
JOBS_WITH_ALL_CHECKPOINTS = 10
"""Up to so many jobs each keep ``checkpoints_kept`` checkpoints; more jobs share as many in all."""
LEAST_CHECKPOINTS = 200
"""So many each job keeps: half an hour of one each 10 s."""
CHECKPOINTS_IN_ALL, FEWEST_CHECKPOINTS = 100_000, 50
"""Of more jobs than can keep as many, each keeps its share of all, or the fewest."""
_PATH = re.compile(r"/(?P<job>[0-9a-f]{32})/chk-(?P<number>\d+)/?$")
"""A retained checkpoint's directory (CheckpointStorage): its job and its number."""


@dataclass(slots=True)
class FlinkState:
    """All jobs by their id, and what checkpoints on disk list."""

    checkpoints_kept: int = 2_000
    jobs: dict[str, FlinkJobFacts] = field(default_factory=dict)
    lists: FlinkLists = field(default_factory=FlinkLists)
    stores: FlinkStores = field(default_factory=FlinkStores)
    polled_ms: dict[str, int] = field(default_factory=dict)
    """When each cluster's REST API answered last, by our clock; without those that do not answer now."""
    away_since_ms: dict[str, int] = field(default_factory=dict)
    """Since when each cluster's REST API does not answer: its first poll that failed, by our clock."""
    answered: set[str] = field(default_factory=set)
    """The clusters whose REST API answered since the collector's start."""
    out_of_reach: dict[str, dict[tuple[str, int | None], str]] = field(default_factory=dict)
    """Cluster -> (job, number) -> why its ``_metadata`` cannot be reached; job empty: any job's, number None: any of the job's."""
    unread: dict[str, tuple[UnreadCheckpoint, ...]] = field(default_factory=dict)
    """Cluster -> the checkpoints whose ``_metadata`` could not be read, or not be understood, at the last look."""
    files_seen: dict[str, dict[str, FileSeen]] = field(default_factory=dict)
    """Cluster -> file that checkpoints list, by its name once it is visible -> how its store had it at the last look."""
    unnamed_files: dict[str, dict[str, UnnamedFile]] = field(default_factory=dict)
    """Cluster -> hidden file that no checkpoint that was read names, by its name once it would be visible."""
    clusters: JobClusters = field(default_factory=JobClusters)
    writes_here: Mapping[str, bool] = field(default_factory=dict)
    """Cluster -> whether the settings say that its jobs write to this Kafka cluster only; none: they say nothing of it."""
    _without_list: list[str] | None = None
    """The jobs of which no checkpoint was read whole; None: to be found again."""
    _by_cluster: dict[str, list[str]] | None = field(default=None, compare=False)
    """Cluster -> its jobs; None: to be found again."""
    _restored: dict[str, str] = field(default_factory=dict)
    """Job -> the job that was seen last to be restored from one of its checkpoints."""
    _rows: CheckpointRows = field(default_factory=CheckpointRows, compare=False)

    def see_job(self, seen: FlinkJob) -> None:
        """Fold a job."""
        self.clusters.see(seen.cluster, seen.job, by_rest=True)
        known = self.jobs.get(seen.job) or FlinkJobFacts(job=seen)
        restores = known.restores
        if seen.restored_ms is not None and seen.restored_number is not None:
            path = seen.restored_path
            new = Restore(at_ms=seen.restored_ms, number=seen.restored_number, of_job=_job_of(path), path=path)
            restores = tuple(sorted({*restores, new}, key=lambda r: (r.at_ms, r.number)))
            if new.of_job not in ("", seen.job):
                self._restored[new.of_job] = seen.job
                # It may prove a checkpoint of that job.
                self._rows.job_changed(new.of_job)
        if seen.job not in self.jobs:
            self._without_list = None
        after = _newer(known.job, seen)
        if seen.job not in self.jobs or after.cluster != known.job.cluster:
            self._by_cluster = None
        self.jobs[seen.job] = replace(known, job=after, restores=restores)
        self._rows.job_changed(seen.job)
        if len(self.jobs) > 2 * JOBS_KEPT:
            # One that runs for long changed long ago, and is the last that may be missed.
            oldest = sorted(self.jobs.values(), key=lambda facts: (not facts.job.is_over, facts.job.changed_ms))
            for facts in oldest[: len(self.jobs) - JOBS_KEPT]:
                del self.jobs[facts.job.job]
            self._by_cluster = None
            self._rows.all_changed()
            self._restored = {of_job: job for of_job, job in self._restored.items() if job in self.jobs}
            self.clusters.keep({*self.jobs, *(job for _, job in self.lists.committables)})

    def see_checkpoint(self, seen: FlinkCheckpoint) -> None:
        """Fold a checkpoint: an end is never taken back by an older look; one that takes a number again replaces the earlier."""
        self._rows.checkpoint_changed(seen.job, seen.number)
        is_of_job = _job_of(seen.path) == seen.job
        self.clusters.see(seen.cluster, seen.job, seen.path if is_of_job else "", by_rest=True)
        facts = self.jobs.get(seen.job)
        if facts is None:
            started = FlinkJob(
                cluster=seen.cluster,
                job=seen.job,
                name=seen.job_name,
                state="",
                started_ms=seen.triggered_ms,
                changed_ms=0,
            )
            facts = self.jobs[seen.job] = FlinkJobFacts(job=started)
            self._without_list = self._by_cluster = None
        known = facts.checkpoints.get(seen.number)
        if known is not None and known.triggered_ms != seen.triggered_ms:
            before, seen = sorted((known, seen), key=lambda each: each.triggered_ms)
            if seen is not known:
                # The newest stand at the end: what looks for them begins there.
                del facts.checkpoints[seen.number]
            facts.earlier[seen.number] = before
            facts.checkpoints[seen.number] = seen
        elif known is None or known.status is FlinkStatus.IN_PROGRESS:
            facts.checkpoints[seen.number] = seen
        self._trim(facts)

    def _trim(self, facts: FlinkJobFacts) -> None:
        """Let go of a job's oldest checkpoints once it has twice as many as it may keep."""
        jobs = len(self.jobs)
        least = min(LEAST_CHECKPOINTS, max(FEWEST_CHECKPOINTS, CHECKPOINTS_IN_ALL // jobs))
        most = min(self.checkpoints_kept, max(least, JOBS_WITH_ALL_CHECKPOINTS * self.checkpoints_kept // jobs))
        if len(facts.checkpoints) <= 2 * most:
            return
        oldest = sorted(facts.checkpoints, key=lambda number: facts.checkpoints[number].triggered_ms)
        for number in oldest[: len(oldest) - most]:
            del facts.checkpoints[number]
            facts.earlier.pop(number, None)

    def see_committables(self, seen: FlinkCommittables) -> None:
        """Fold what ``_metadata`` lists; one that was written again in the same directory replaces the earlier one."""
        self._without_list = None
        self.clusters.see(seen.cluster, seen.job, seen.path if _job_of(seen.path) == seen.job else "", by_rest=False)
        self.lists.see(seen)

    def see_polled(self, cluster: str, at_ms: int, *, answered: bool, is_whole: bool = True) -> bool:
        """Note whether a cluster's REST API answered; return whether it did otherwise before.

        ``is_whole``: each of its jobs was asked about, now or before.
        """
        was, now = (self.away_since_ms, self.polled_ms) if answered else (self.polled_ms, self.away_since_ms)
        is_new = cluster not in now
        was.pop(cluster, None)
        if answered and is_whole:
            self.answered.add(cluster)
        # How long it is away counts from the first poll that failed.
        now[cluster] = at_ms if answered else now.get(cluster, at_ms)
        return is_new

    def forget_polls(self, cluster: str) -> None:
        """Forget whether a cluster's REST API answers, as a restart does."""
        self.polled_ms.pop(cluster, None)
        self.away_since_ms.pop(cluster, None)
        self.answered.discard(cluster)

    def why_out_of_reach(self, cluster: str, job: str, number: int) -> str:
        """Return why a checkpoint's ``_metadata`` could not be reached at the last look, or nothing."""
        found = self.out_of_reach.get(cluster, {})
        keys: tuple[tuple[str, int | None], ...] = ((job, number), (job, None), ("", None))
        return next((found[key] for key in keys if key in found), "")

    def unread_that_matter(self, cluster: str) -> list[UnreadCheckpoint]:
        """Return the checkpoints of a cluster that cannot be read, without those that a later one of their job has replaced.

        Later: it was read whole, is no savepoint, and was written after theirs: a job that was set back takes numbers again.
        """
        return [each for each in self.unread.get(cluster, ()) if not self._is_replaced(cluster, each)]

    def _is_replaced(self, cluster: str, unread: UnreadCheckpoint) -> bool:
        changed_ms = unread.changed_ms
        return changed_ms is not None and any(
            each.number > unread.number and each.written_ms >= changed_ms
            for each in self.lists.committables.get((cluster, unread.job), {}).values()
            if not (each.error or each.is_gone) and _job_of(each.path)
        )

    def jobs_without_list(self) -> list[FlinkJobFacts]:
        """Return the jobs of which no checkpoint was read whole."""
        if self._without_list is None:
            self._without_list = [
                id_ for id_, facts in self.jobs.items() if all(each.error for each in self.lists.of(facts))
            ]
        return [self.jobs[id_] for id_ in self._without_list if id_ in self.jobs]

    def newest_completed(self, cluster: str, most: int) -> list[tuple[str, list[FlinkCheckpoint]]]:
        """Return each job of a cluster with its last ``most`` completed checkpoints that have a path, the newest first."""
        found = []
        for facts in self.jobs_of(cluster):
            # Of thousands that are kept only the last are looked at.
            seen = reversed(facts.checkpoints.values())
            completed = (c for c in seen if c.status is FlinkStatus.COMPLETED and "/" in c.path)
            newest = sorted(islice(completed, most), key=lambda checkpoint: -checkpoint.number)
            found.append((facts.job.job, newest))
        return found

    def jobs_of(self, cluster: str) -> list[FlinkJobFacts]:
        """Return the jobs that a cluster told of last."""
        if self._by_cluster is None:
            self._by_cluster = {}
            for job, facts in self.jobs.items():
                self._by_cluster.setdefault(facts.job.cluster, []).append(job)
        return [self.jobs[job] for job in self._by_cluster.get(cluster, ()) if job in self.jobs]

    def awaiting_end(self, cluster: str, since_ms: int) -> list[FlinkJob]:
        """Return the running jobs whose newest ``_metadata``, read since then, is of a checkpoint whose end is not known yet."""
        found = []
        for id_ in self.lists.jobs_of(cluster):
            newest, facts = next(reversed(self.lists.committables[cluster, id_].values())), self.jobs.get(id_)
            if facts is None or facts.job.is_over or newest.read_ms < since_ms:
                continue
            seen = facts.checkpoints.get(newest.number)
            is_earlier = seen is not None and (seen.ended_ms or newest.written_ms) < newest.written_ms - CLOCK_SKEW_MS
            if seen is None or seen.status is FlinkStatus.IN_PROGRESS or is_earlier:
                found.append(facts.job)
        return found

    def prefixes_of(self, pipeline: str) -> list[str]:
        """Return the transactional id prefixes that the sinks of the jobs of this name were seen to use last."""
        return [prefix for prefix, (_, job) in self.lists.jobs_of_prefixes() if pipeline == self.pipeline_of(job)]

    def pipeline_of(self, job: str) -> str | None:
        """Return the name that the rows of a job go by, by its id; None: it is not known.

        REST's name of it, else of a job that was restored from it; else its id in the cluster whose checkpoints are read.
        """
        known = self.jobs.get(job) or self.jobs.get(self._restored.get(job, ""))
        if known is not None:
            return known.pipeline
        return next((f"{cluster}/{job}" for cluster, of_lists in self.lists.committables if of_lists == job), None)

    def knows(self, seen: FlinkCheckpoint | FlinkJob) -> bool:
        """Say whether folding it would tell nothing new."""
        facts = self.jobs.get(seen.job)
        if facts is None:
            return False
        if isinstance(seen, FlinkJob):
            return replace(_newer(facts.job, seen), seen_ms=0) == replace(facts.job, seen_ms=0)
        known = facts.checkpoints.get(seen.number)
        if known is None or known.triggered_ms != seen.triggered_ms:
            before = facts.earlier.get(seen.number)
            return known is not None and before is not None and seen.triggered_ms <= before.triggered_ms
        return known.status is seen.status or known.status is not FlinkStatus.IN_PROGRESS

    def copy(self) -> FlinkState:
        """Return a state that does not change with this one, to be read."""
        jobs = {
            id_: replace(facts, checkpoints=dict(facts.checkpoints), earlier=dict(facts.earlier))
            for id_, facts in self.jobs.items()
        }
        return FlinkState(
            checkpoints_kept=self.checkpoints_kept,
            jobs=jobs,
            lists=self.lists.copy(),
            stores=self.stores.copy(),
            answered=set(self.answered),
            polled_ms=dict(self.polled_ms),
            away_since_ms=dict(self.away_since_ms),
            out_of_reach={cluster: dict(why) for cluster, why in self.out_of_reach.items()},
            unread=dict(self.unread),
            files_seen=dict(self.files_seen),
            unnamed_files=dict(self.unnamed_files),
            _restored=dict(self._restored),
            clusters=self.clusters.copy(),
            writes_here=self.writes_here,
        )

    def restored_from(self, job: str) -> dict[int, Restore]:
        """Return the first restore from each checkpoint of a job, by whichever job: proof that it was completed."""
        found: dict[int, Restore] = {}
        for restore in self.restores_from(job):
            found.setdefault(restore.number, restore)
        return found

    def restores_from(self, job: str) -> Iterator[Restore]:
        """Yield every restore from a checkpoint of a job, by whichever job."""
        for facts in self.jobs.values():
            for restore in facts.restores:
                if (restore.of_job or facts.job.job) == job:
                    yield restore

    def checkpoint_facts(self) -> Iterator[CheckpointFacts]:
        """Yield every checkpoint as a row of the same kind as Spark's: the very same one until it changed."""
        for job, facts in self.jobs.items():
            yield from self._rows.of(facts, partial(self.restored_from, job))


def _newer(known: FlinkJob, seen: FlinkJob) -> FlinkJob:
    """Return the later of two polls; what only one of them tells is kept."""
    newer, older = (seen, known) if seen.seen_ms >= known.seen_ms else (known, seen)
    if newer.restored_number is None:
        newer = replace(
            newer,
            restored_number=older.restored_number,
            restored_ms=older.restored_ms,
            restored_path=older.restored_path,
        )
    return newer if newer.restarts is not None else replace(newer, restarts=older.restarts)


def _job_of(path: str) -> str:
    found = _PATH.search(path)
    return found["job"] if found else ""
