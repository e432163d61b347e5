"""Whether two Flink jobs write under one transactional id prefix, by mistake: an id then does not say whose it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts
from indoubt.collector.records.formats.flink_records import FlinkStatus
from indoubt.collector.verdicts.flink_line import has_ended_by, related


def ran_at(facts: FlinkJobFacts, at_ms: int) -> bool:
    """Say whether a job ran at a time (epoch ms), as far as REST told."""
    job = facts.job
    ended_ms = (job.ended_ms or job.changed_ms) if job.is_over else None
    return job.started_ms - CLOCK_SKEW_MS <= at_ms and (ended_ms is None or at_ms <= ended_ms + CLOCK_SKEW_MS)


def rival(flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int) -> str:
    """Return the name of another job that may have written under a prefix then, and that is of another line of work; or nothing.

    Its checkpoints name the prefix; or one was completed since, and none of its lists was read.
    """
    for other, is_named in others_that_ran(flink, facts, prefix, at_ms):
        if is_named or (is_named is None and _has_completed(other, at_ms)):
            return other.pipeline
    return known_by_lists(flink, facts, prefix, at_ms)


def may_share_prefix(flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int) -> bool:
    """Say whether any other job that ran since then may use a prefix: its lists name it, or none of them was read whole."""
    others = (each for id_, each in flink.jobs.items() if id_ != facts.job.job and not has_ended_by(each, at_ms))
    return any(flink.lists.names_prefix(each, prefix) is not False for each in others) or any(
        job != facts.job.job and job not in flink.jobs and each.written_ms >= at_ms - CLOCK_SKEW_MS
        for (_, job), lists in flink.lists.committables.items()
        for each in lists.values()
        if prefix in each.prefixes and not each.is_gone
    )


def known_by_lists(flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int) -> str:
    """Return such a job that REST did not tell of, and that wrote a checkpoint since which names the prefix; or nothing."""
    for (cluster, job), lists in flink.lists.committables.items():
        if job in flink.jobs or job == facts.job.job:
            continue
        named = (each.written_ms for each in lists.values() if prefix in each.prefixes)
        if max(named, default=0) >= at_ms - CLOCK_SKEW_MS and job not in related(flink, facts.job.job):
            return f"{cluster}/{job}"
    return ""


def others_that_ran(
    flink: FlinkState, facts: FlinkJobFacts, prefix: str, at_ms: int
) -> Iterator[tuple[FlinkJobFacts, bool | None]]:
    """Yield the jobs that ran then, of another line of work, with whether their checkpoints name a prefix; None: not known."""
    line: frozenset[str] | None = None
    for other in flink.jobs.values():
        if other.job.job == facts.job.job or not ran_at(other, at_ms):
            continue
        is_named = flink.lists.names_prefix(other, prefix)
        if is_named is False:
            continue
        line = line if line is not None else related(flink, facts.job.job)
        if other.job.job not in line:
            yield other, is_named


def _has_completed(facts: FlinkJobFacts, since_ms: int) -> bool:
    return any(
        seen.status is FlinkStatus.COMPLETED and (seen.ended_ms or 0) >= since_ms for seen in facts.checkpoints.values()
    )
