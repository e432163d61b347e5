"""The checkpoints of Flink's jobs as rows of the same kind as Spark's: made again only where they changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkStatus

SOURCE = "flink REST"


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
