"""What is known of one job of Flink: its checkpoints, also as rows, its restores, which of its lists is of which checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_clusters import plain_path
from indoubt.collector.records.formats.flink_records import (
    FINISHED,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkJob,
    FlinkStatus,
)

CLOCK_SKEW_MS = 1_000
"""The clocks of Flink, of the broker and of the checkpoints' file system agree to within this."""
PATH_SKEW_MS = 30_000
"""Those of Flink and of the file system, where REST names the very directory of a checkpoint that was read."""
SOURCE = "flink REST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """A job started from checkpoint ``number`` at ``at_ms``; ``of_job`` is the job that took it, where the path tells.

    ``path`` empty: a restart from a checkpoint that Flink keeps to itself, which is the job's own.
    """

    at_ms: int
    number: int
    of_job: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkJobFacts:
    """A job with the checkpoints and restores that were seen of it, restores oldest first."""

    job: FlinkJob
    checkpoints: dict[int, FlinkCheckpoint] = field(default_factory=dict)
    restores: tuple[Restore, ...] = ()
    earlier: dict[int, FlinkCheckpoint] = field(default_factory=dict)
    """Of numbers that were taken again, the checkpoint before: the job was started again under its id, from an older one."""

    @property
    def pipeline(self) -> str:
        """Return the name that its rows go by."""
        return f"{self.job.cluster}/{self.job.name}"

    def counts(self, seen: FlinkCheckpoint) -> bool:
        """Say whether a checkpoint that was completed counts by that alone.

        A savepoint does not: no restart goes back to it by itself, and a job that stops with one may die before it has committed.
        Once the job is finished, it has committed what the savepoint lists that it was stopped with.
        """
        if not seen.kind.is_savepoint:
            return True
        return seen.kind.commits and self.job.state == FINISHED and seen.number == max(self.checkpoints)

    def ended(self, listing: FlinkCommittables, status: FlinkStatus) -> tuple[FlinkCheckpoint, int] | None:
        """Return the checkpoint that a list is of, and its end (epoch ms), where REST reported that it ended like this."""
        seen = self._taken(listing)
        return (
            (seen, seen.ended_ms) if seen is not None and seen.ended_ms is not None and seen.status is status else None
        )

    def timed(self, listing: FlinkCommittables) -> FlinkCommittables:
        """Return a list with the time at which it was written by the JobManager's clock, as restores have it, where that tells."""
        seen = self._taken(listing)
        if seen is None or seen.ended_ms is None or seen.triggered_ms <= listing.written_ms <= seen.ended_ms:
            return listing
        return replace(listing, written_ms=min(max(listing.written_ms, seen.triggered_ms), seen.ended_ms))

    def _taken(self, listing: FlinkCommittables) -> FlinkCheckpoint | None:
        """Return the checkpoint that has ended and that a list is of: another may have had its number before, or since."""
        for taken in (self.checkpoints, self.earlier):
            seen = taken.get(listing.number)
            if seen is None or seen.ended_ms is None:
                continue
            skew_ms = PATH_SKEW_MS if self._is_named(seen, listing) else CLOCK_SKEW_MS
            if seen.triggered_ms - skew_ms <= listing.written_ms <= seen.ended_ms + skew_ms:
                return seen
        return None

    def _is_named(self, seen: FlinkCheckpoint, listing: FlinkCommittables) -> bool:
        """Say whether REST names the very file of a list, and no other checkpoint may have been written there since.

        A job that starts again under its id from an older checkpoint takes numbers, and their directories, again.
        """
        if seen.ended_ms is None or seen.number in self.earlier or self.job.started_ms > seen.ended_ms:
            return False
        return bool(seen.path) and plain_path(seen.path) == plain_path(listing.path)


def newest_first(jobs: Iterable[FlinkJobFacts]) -> list[FlinkJobFacts]:
    """Return jobs, running ones first, then the one that changed last."""
    return sorted(jobs, key=lambda facts: (facts.job.is_over, -facts.job.changed_ms, facts.job.job))


class CheckpointRows:
    """The rows of each job. Alerts walk them every second, and of thousands a second changes a few."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[CheckpointFacts, ...]] = {}
        self._changed: dict[str, set[int]] = {}
        """Job -> the checkpoints whose row may not be the one that was made."""

    def checkpoint_changed(self, job: str, number: int) -> None:
        """Note that one checkpoint of a job is another, or gone."""
        self._changed.setdefault(job, set()).add(number)

    def job_changed(self, job: str) -> None:
        """Note that what all rows of a job rest on is another, or that the job is gone."""
        self._rows.pop(job, None)

    def all_changed(self) -> None:
        """Note that any row may be another."""
        self._rows.clear()

    def of(self, facts: FlinkJobFacts, restores: Callable[[], Mapping[int, Restore]]) -> tuple[CheckpointFacts, ...]:
        """Return the rows of a job in the order of its checkpoints: the very same tuple until one of them changed.

        ``restores``: the first restore from each of its checkpoints; asked for only where the end of one was not seen.
        """
        known = self._rows.get(facts.job.job)
        changed = self._changed.pop(facts.job.job, ())
        if known is None or changed:
            kept = {row.number: row for row in known or () if row.number not in changed}
            known = self._rows[facts.job.job] = tuple(
                kept.get(number) or _row(facts, seen, restores) for number, seen in facts.checkpoints.items()
            )
        return known


def _row(facts: FlinkJobFacts, seen: FlinkCheckpoint, restores: Callable[[], Mapping[int, Restore]]) -> CheckpointFacts:
    completed_ms = seen.ended_ms if seen.status is FlinkStatus.COMPLETED else None
    failed_ms = seen.ended_ms if seen.status is FlinkStatus.FAILED else None
    reason = seen.reason
    restore = restores().get(seen.number) if seen.status is FlinkStatus.IN_PROGRESS else None
    if restore is not None:
        completed_ms, reason = restore.at_ms, "its end was not seen; a job was restored from it, so it was completed"
    elif seen.status is FlinkStatus.IN_PROGRESS and facts.job.is_over:
        failed_ms, reason = (
            facts.job.ended_ms or facts.job.changed_ms,
            f"its end was not seen; its job is {facts.job.state}",
        )
    return CheckpointFacts(
        pipeline=facts.pipeline,
        number=seen.number,
        started_ms=seen.triggered_ms,
        completed_ms=completed_ms,
        failed_ms=failed_ms,
        reason=reason,
        sources=frozenset({SOURCE}),
        kind="savepoint" if seen.kind.is_savepoint else "checkpoint",
        job=seen.job,
        state_bytes=seen.state_bytes,
        path=seen.path,
    )
