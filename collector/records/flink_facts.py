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

from indoubt.collector.records.facts import CheckpointFacts, HandleIdentity
from indoubt.collector.records.flink_checkpoint_rows import CheckpointRows
from indoubt.collector.records.flink_clusters import JobClusters
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkStatus,
    Listed,
    UnreadCheckpoint,
)

JOBS_KEPT = 200
"""Jobs of a cluster whose lists stay in memory; of jobs that REST tells of, up to twice as many in all."""
JOBS_WITH_ALL_CHECKPOINTS = 10
"""Up to so many jobs each keep ``checkpoints_kept`` checkpoints; more jobs share as many in all."""
LEAST_CHECKPOINTS = 200
"""So many each job keeps, however many jobs there are: half an hour of one each 10 s."""
COMMITTABLES_KEPT = 20
"""Checkpoints of one job whose ``_metadata`` stays in memory: Flink itself keeps fewer on disk unless it is told to."""
_PATH = re.compile(r"/(?P<job>[0-9a-f]{32})/chk-(?P<number>\d+)/?$")
"""A retained checkpoint's directory (CheckpointStorage): its job and its number."""


@dataclass(slots=True)
class FlinkState:
    """All jobs by their id, and what checkpoints on disk list. The latter is no history: the files are read again."""

    checkpoints_kept: int = 2_000
    jobs: dict[str, FlinkJobFacts] = field(default_factory=dict)
    committables: dict[tuple[str, str], dict[str, FlinkCommittables]] = field(default_factory=dict)
    """(cluster, job) -> directory of a checkpoint -> what its ``_metadata`` lists, oldest read first."""
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
    clusters: JobClusters = field(default_factory=JobClusters)
    writes_here: Mapping[str, bool] = field(default_factory=dict)
    """Cluster -> whether the settings say that its jobs write to this Kafka cluster only; none: they say nothing of it."""
    _without_list: list[str] | None = None
    """The jobs of which no checkpoint was read whole; None: to be found again."""
    _listings: dict[Listed, list[FlinkCommittables]] = field(default_factory=dict)
    _prefixes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Transactional id prefix -> (cluster, job) that was seen to use it last."""
    _pooled: dict[str, bool] = field(default_factory=dict)
    """Transactional id prefix -> whether its ids are used again, as the last list of its job says."""
    _written_ms: dict[str, int] = field(default_factory=dict)
    """Transactional id prefix -> when that list was written."""
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
        self.jobs[seen.job] = replace(known, job=_newer(known.job, seen), restores=restores)
        self._rows.job_changed(seen.job)
        if len(self.jobs) > 2 * JOBS_KEPT:
            # One that runs for long changed long ago, and is the last that may be missed.
            oldest = sorted(self.jobs.values(), key=lambda facts: (not facts.job.is_over, facts.job.changed_ms))
            for facts in oldest[: len(self.jobs) - JOBS_KEPT]:
                del self.jobs[facts.job.job]
            self._rows.all_changed()
            self._restored = {of_job: job for of_job, job in self._restored.items() if job in self.jobs}
            self.clusters.keep({*self.jobs, *(job for _, job in self.committables)})

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
            self._without_list = None
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
        most = min(
            self.checkpoints_kept,
            max(LEAST_CHECKPOINTS, JOBS_WITH_ALL_CHECKPOINTS * self.checkpoints_kept // len(self.jobs)),
        )
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
        of_job = self.committables.setdefault((seen.cluster, seen.job), {})
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
        of_cluster = [job for job in self.committables if job[0] == seen.cluster]
        if len(of_cluster) > JOBS_KEPT:
            oldest = min(of_cluster, key=lambda job: max(each.written_ms for each in self.committables[job].values()))
            for forgotten in self.committables.pop(oldest).values():
                self._forget(forgotten)
            self._prefixes = {prefix: job for prefix, job in self._prefixes.items() if job != oldest}
            self._pooled = {prefix: told for prefix, told in self._pooled.items() if prefix in self._prefixes}
            self._written_ms = {prefix: at_ms for prefix, at_ms in self._written_ms.items() if prefix in self._prefixes}

    def see_gone(self, cluster: str, path: str) -> None:
        """Note that a checkpoint that was read is not there any more. What it listed is still known: that tells of losses."""
        for (of_cluster, _), of_job in self.committables.items():
            known = of_job.get(path) if of_cluster == cluster else None
            if known is None or known.is_gone:
                continue
            gone = of_job[path] = replace(known, is_gone=True)
            for prefix in known.prefixes:
                self._find_owner(prefix)
            for committable in known.committables:
                listings = self._listings.get(committable, [])
                self._listings[committable] = [gone if each is known else each for each in listings]

    def _find_owner(self, prefix: str) -> None:
        """Give a prefix to the job that wrote last of those whose lists are there; where none is, it stays as it was."""
        every = (each for of_job in self.committables.values() for each in of_job.values() if not each.is_gone)
        last = max((each for each in every if prefix in each.prefixes), key=lambda each: each.written_ms, default=None)
        if last is not None:
            self._prefixes[prefix] = (last.cluster, last.job)
            self._pooled[prefix], self._written_ms[prefix] = prefix in last.pooled, last.written_ms

    def see_polled(self, cluster: str, at_ms: int, *, answered: bool) -> bool:
        """Note whether a cluster's REST API answered; return whether it did otherwise before."""
        was, now = (self.away_since_ms, self.polled_ms) if answered else (self.polled_ms, self.away_since_ms)
        is_new = cluster not in now
        was.pop(cluster, None)
        if answered:
            self.answered.add(cluster)
        # How long it is away counts from the first poll that failed.
        now[cluster] = at_ms if answered else now.get(cluster, at_ms)
        return is_new

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
            for each in self.committables.get((cluster, unread.job), {}).values()
            if not (each.error or each.is_gone) and _job_of(each.path)
        )

    def jobs_without_list(self) -> list[FlinkJobFacts]:
        """Return the jobs of which no checkpoint was read whole."""
        if self._without_list is None:
            self._without_list = [
                id_
                for id_, facts in self.jobs.items()
                if all(each.error for each in self.committables.get((facts.job.cluster, id_), {}).values())
            ]
        return [self.jobs[id_] for id_ in self._without_list if id_ in self.jobs]

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

    def lists(self, facts: FlinkJobFacts, transaction: HandleIdentity) -> bool:
        """Say whether a checkpoint of a job lists exactly this transaction."""
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
        of_jobs = (each for of_job in self.committables.values() for each in of_job.values() if each.number == number)
        return {listed for each in of_jobs for listed in each.committables}

    def newest_completed(self, cluster: str, most: int) -> list[tuple[str, list[FlinkCheckpoint]]]:
        """Return each job of a cluster with its last ``most`` completed checkpoints that have a path, the newest first."""
        found = []
        for facts in self.jobs.values():
            if facts.job.cluster == cluster:
                # Of thousands that are kept only the last are looked at.
                seen = reversed(facts.checkpoints.values())
                completed = (c for c in seen if c.status is FlinkStatus.COMPLETED and "/" in c.path)
                newest = sorted(islice(completed, most), key=lambda checkpoint: -checkpoint.number)
                found.append((facts.job.job, newest))
        return found

    def read_on_disk(self, cluster: str, since_ms: int) -> set[str]:
        """Return the jobs of which a ``_metadata`` was read since then (epoch ms)."""
        return {
            job
            for (of_cluster, job), of_job in self.committables.items()
            if of_cluster == cluster and next(reversed(of_job.values())).read_ms >= since_ms
        }

    def awaiting_end(self, cluster: str, since_ms: int) -> list[FlinkJob]:
        """Return the running jobs whose newest ``_metadata``, read since then, is of a checkpoint whose end is not known yet."""
        found = []
        for (of_cluster, id_), of_job in self.committables.items():
            newest, facts = next(reversed(of_job.values())), self.jobs.get(id_)
            if of_cluster != cluster or facts is None or facts.job.is_over or newest.read_ms < since_ms:
                continue
            seen = facts.checkpoints.get(newest.number)
            is_earlier = seen is not None and (seen.ended_ms or newest.written_ms) < newest.written_ms - CLOCK_SKEW_MS
            if seen is None or seen.status is FlinkStatus.IN_PROGRESS or is_earlier:
                found.append(facts.job)
        return found

    def job_of_prefix(self, prefix: str) -> tuple[str, str] | None:
        """Return (cluster, job) of the job whose sink was seen to use a transactional id prefix last."""
        return self._prefixes.get(prefix)

    def names_prefix(self, facts: FlinkJobFacts, prefix: str) -> bool | None:
        """Say whether a job's checkpoints name a transactional id prefix as its sink's; None: none of its lists was read whole."""
        lists = self.committables.get((facts.job.cluster, facts.job.job), {}).values()
        if any(prefix in each.prefixes for each in lists):
            return True
        return None if all(each.error for each in lists) else False

    def read_whole(self, facts: FlinkJobFacts) -> frozenset[int]:
        """Return the checkpoints of a job whose lists were read whole."""
        lists = self.committables.get((facts.job.cluster, facts.job.job), {}).values()
        return frozenset(each.number for each in lists if not each.error)

    def prefixes_of(self, pipeline: str) -> list[str]:
        """Return the transactional id prefixes that the sinks of the jobs of this name were seen to use last."""
        return [prefix for prefix, (_, job) in self._prefixes.items() if pipeline == self.pipeline_of(job)]

    def pipeline_of(self, job: str) -> str | None:
        """Return the name that the rows of a job go by, by its id; None: it is not known.

        REST's name of it, else of a job that was restored from it; else its id in the cluster whose checkpoints are read.
        """
        known = self.jobs.get(job) or self.jobs.get(self._restored.get(job, ""))
        if known is not None:
            return known.pipeline
        return next((f"{cluster}/{job}" for cluster, of_lists in self.committables if of_lists == job), None)

    def is_pooled(self, prefix: str) -> bool | None:
        """Say whether the ids of a prefix are used again (TransactionNamingStrategy.POOLING); None: no list was read."""
        return self._pooled.get(prefix)

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
            committables={job: dict(of_job) for job, of_job in self.committables.items()},
            answered=set(self.answered),
            polled_ms=dict(self.polled_ms),
            away_since_ms=dict(self.away_since_ms),
            out_of_reach={cluster: dict(why) for cluster, why in self.out_of_reach.items()},
            unread=dict(self.unread),
            _listings={committable: list(listings) for committable, listings in self._listings.items()},
            _prefixes=dict(self._prefixes),
            _pooled=dict(self._pooled),
            _written_ms=dict(self._written_ms),
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

    def listed_counts(self) -> dict[tuple[str, int], int]:
        """Return (job, number) -> how many transactions the checkpoint of that number lists, of those read whole."""
        return {
            (seen.job, seen.number): len(seen.committables)
            for of_job in self.committables.values()
            for seen in of_job.values()
            if not seen.error
        }

    def checkpoint_rows(self) -> list[tuple[CheckpointFacts, ...]]:
        """Return the checkpoints of each job as rows of the same kind as Spark's: the very same tuple until one changed."""
        return [self._rows.of(facts, partial(self.restored_from, job)) for job, facts in self.jobs.items()]

    def checkpoint_facts(self) -> Iterator[CheckpointFacts]:
        """Yield every checkpoint as a row of the same kind as Spark's."""
        for rows in self.checkpoint_rows():
            yield from rows


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
