"""Commits that a completed checkpoint announces and that nobody will do any more, because the job is over. Pure.

Only of sinks whose committables no decoder knows: what the others have prepared is judged one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind
from indoubt.collector.records.formats.flink_records import (
    FINISHED,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkStatus,
    SinkCommits,
)

CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsInDoubt:
    """What the last completed checkpoint of a job that is over announces. Times: epoch ms, Flink's.

    ``is_seen``: its cluster's REST API answers, so that a restore by another job would be known.
    """

    pipeline: str
    job: str
    job_state: str
    number: int
    completed_ms: int
    job_ended_ms: int
    sinks: tuple[SinkCommits, ...]
    path: str
    is_seen: bool


def commits_in_doubt(state: FlinkState, *, at_once_ms: int) -> list[CommitsInDoubt]:
    """Return them for each job that is over and from whose checkpoints no job was restored.

    A job that was cancelled more than ``at_once_ms`` after the checkpoint has done its commits: a task does them, or fails, as soon
    as it is told of the completion. One that failed may have failed for them, and of one that is gone nothing is known.
    """
    return [found for facts in state.jobs.values() for found in _of_job(state, facts, at_once_ms)]


def _of_job(state: FlinkState, facts: FlinkJobFacts, at_once_ms: int) -> Iterator[CommitsInDoubt]:
    job = facts.job
    if not job.is_over or job.state == FINISHED:
        return
    last = _last_counting(facts)
    found = _list_of(state, facts, last.number) if last is not None else None
    if found is None or any(state.restores_from(job.job)):
        return
    listing, completed_ms = found
    ended_ms = job.ended_ms or job.changed_ms
    if job.state == CANCELED and ended_ms - completed_ms > at_once_ms:
        return
    if sinks := tuple(each for each in listing.sinks if each.kind == SinkKind.UNKNOWN.value):
        yield CommitsInDoubt(
            pipeline=facts.pipeline,
            job=job.job,
            job_state=job.state,
            number=listing.number,
            completed_ms=completed_ms,
            job_ended_ms=ended_ms,
            sinks=sinks,
            path=listing.path,
            is_seen=job.cluster in state.polled_ms,
        )


def _last_counting(facts: FlinkJobFacts) -> FlinkCheckpoint | None:
    completed = (seen for seen in facts.checkpoints.values() if seen.status is FlinkStatus.COMPLETED)
    return max((seen for seen in completed if facts.counts(seen)), key=lambda seen: seen.number, default=None)


def _list_of(state: FlinkState, facts: FlinkJobFacts, number: int) -> tuple[FlinkCommittables, int] | None:
    """Return the list on disk of a completed checkpoint, and when that ended (epoch ms)."""
    for each in state.lists.of(facts):
        ended = facts.ended(each, FlinkStatus.COMPLETED)
        if each.number == number and not each.is_gone and ended is not None:
            return each, ended[1]
    return None
