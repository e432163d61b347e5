"""Which jobs went on from the checkpoints of another one, and which of its name may have done so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.records.flink_facts import FlinkState
from collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from collector.records.formats.flink_records import FlinkCommittables
from collector.runtime.time_format import utc


def unattributed(state: FlinkState, facts: FlinkJobFacts, after_ms: int, of_job: str = "") -> str:
    """Return which job of the same name started after ``after_ms`` from a checkpoint that is not known, or nothing.

    One that was restored from a checkpoint of this job (or of ``of_job``), of the job that was restored from one at ``after_ms``,
    or of such a job, is known.
    """
    own = {facts.job.job, of_job}
    for id_ in own:
        if shared := several_clusters(state, id_):
            return shared
    own |= {each.job.job for id_ in own for each in restored_jobs(state, id_, after_ms)}
    since_ms = after_ms + CLOCK_SKEW_MS
    for other in state.jobs.values():
        job = other.job
        if (job.cluster, job.name) != (facts.job.cluster, facts.job.name) or job.started_ms <= since_ms:
            continue
        sources = {restore.of_job for restore in other.restores if restore.of_job not in ("", job.job)}
        known = (state.jobs.get(source) for source in sources - own)
        if not sources or any(source is None or source.job.started_ms <= since_ms for source in known):
            return (
                f"job {job.job} of the same name started at {utc(job.started_ms)}, and it is not known that it was restored from a "
                "checkpoint that holds this transaction"
            )
    return ""


def several_clusters(state: FlinkState, job: str) -> str:
    """Return which clusters have a job of this id, so that a report of it proves nothing; an empty text where it is one."""
    clusters = state.clusters.several(job)
    if not clusters:
        return ""
    return (
        f"clusters {' and '.join(clusters)} have a job of the same id {job}, and what one of them tells proves nothing about the "
        "other: it is not known that the job was restored from a checkpoint that holds this transaction"
    )


def restored_jobs(state: FlinkState, job: str, at_ms: int | None = None) -> Iterator[FlinkJobFacts]:
    """Yield the jobs that were restored from a checkpoint of a job; ``at_ms``: just then."""
    for facts in state.jobs.values():
        if any(restore.of_job == job and at_ms in (None, restore.at_ms) for restore in facts.restores):
            yield facts


def may_hold(state: FlinkState, owner: tuple[str, str], numbers: Iterable[int], start_ms: int) -> frozenset[int]:
    """Return which of these checkpoints of ``owner`` (cluster, job) may hold a transaction: it is not known that it began later.

    A transaction that was listed and not committed is listed by the next checkpoint, too, which may be the first that was read.
    """
    read = {listing.number for listing in state.committables.get(owner, {}).values() if not listing.error}
    facts = state.jobs.get(owner[1])
    seen = {number: facts.checkpoints.get(number) if facts is not None else None for number in numbers}
    return frozenset(
        number
        for number, checkpoint in seen.items()
        if number not in read and (checkpoint is None or start_ms <= checkpoint.triggered_ms + CLOCK_SKEW_MS)
    )


def restored_list(state: FlinkState, facts: FlinkJobFacts, restore: Restore) -> FlinkCommittables | None:
    """Return what the checkpoint of a job's restore lists, where that was read whole."""
    of_job = state.committables.get((facts.job.cluster, restore.of_job or facts.job.job), {})
    whole = (listing for listing in of_job.values() if listing.number == restore.number and not listing.error)
    return next(whole, None)
