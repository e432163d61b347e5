"""Which Flink jobs may do one line of work, and what the restores of the others say of a transaction. Pure.

A job's own restores tell what becomes of its work. Another job that was restored from one of its checkpoints may go on in its
place, or be a copy beside it: Flink does not say which. So such a job never proves anything; it is a *rival*. Where the source of
a restore is not told (a moved savepoint, a copied directory), the work may be that of any job that there was by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.flink_clusters import plain_path
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from indoubt.collector.runtime.time_format import utc

_SAVEPOINT = re.compile(r"savepoint-(?P<job>[0-9a-f]{6})-[^/]*/?$")
"""A savepoint's directory as Flink names it: the first digits of its job's id (AbstractFsCheckpointStorageAccess)."""
_KEPT_TO_ITSELF = frozenset({"", "<checkpoint-not-externally-addressable>"})
"""What is told of a checkpoint that no other job can be restored from (NonPersistentMetadataCheckpointStorageLocation)."""
_NOT_RESTORED_YET = frozenset({"", "INITIALIZING"})
"""States in which REST cannot have told what a job is restored from."""


class Standing(Enum):
    """What another job of the line rests on."""

    HOLDS = "holds"
    """It was restored, since, from a checkpoint that holds the transaction."""
    BEFORE = "before"
    """It was restored, since, from one that was taken before."""
    UNKNOWN = "unknown"
    """It was restored, or started, since, and it is not known whether what it goes on from holds the transaction."""
    BESIDE = "beside"
    """It was there before, and has run since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another job that may go on with a job's work, or be a copy of it; ``why``: how that is known, in one sentence.

    ``restore``: what its standing rests on; None: nothing was told.
    """

    facts: FlinkJobFacts
    standing: Standing
    why: str
    restore: Restore | None = None


def source_of(state: FlinkState, facts: FlinkJobFacts, restore: Restore) -> str:
    """Return the job that took the checkpoint that a job was restored from; an empty text where that is not told.

    Its path tells by the job's id, or is that of a checkpoint which REST listed; or it has the name that Flink gives a savepoint:
    then the first six digits of the id are told, of a job that is not known.
    """
    if restore.of_job:
        return restore.of_job
    if restore.path in _KEPT_TO_ITSELF:
        return facts.job.job
    path = plain_path(restore.path)
    listing = [
        id_
        for id_, each in state.jobs.items()
        for taken in (each.checkpoints.get(restore.number), each.earlier.get(restore.number))
        if taken is not None and plain_path(taken.path) == path
    ]
    if listing:
        return listing[0] if len(set(listing)) == 1 else ""
    if (named := _SAVEPOINT.search(restore.path)) is None:
        return ""
    known = [id_ for id_ in state.jobs if id_.startswith(named["job"])]
    return named["job"] if not known else known[0] if len(known) == 1 else ""


def is_own(state: FlinkState, facts: FlinkJobFacts, restore: Restore, start_ms: int) -> bool:
    """Say whether a restore of a job is from a checkpoint of its own, or from where it had begun before ``start_ms``."""
    if source_of(state, facts, restore) == facts.job.job:
        return True
    begun = (each.path for each in facts.restores if each.at_ms < start_ms - CLOCK_SKEW_MS)
    return bool(restore.path) and restore.path in begun


def inherited(state: FlinkState, facts: FlinkJobFacts, start_ms: int) -> Restore | None:
    """Return the restore by which a job went on from another one's work since a transaction began: it did not write it."""
    foreign = (restore for restore in facts.restores if not is_own(state, facts, restore, start_ms))
    return next((restore for restore in foreign if restore.at_ms >= start_ms - CLOCK_SKEW_MS), None)


def may_have_written(state: FlinkState, facts: FlinkJobFacts, start_ms: int) -> bool:
    """Say whether a job ran when a transaction began. One that recovered under its id is told with the time of that."""
    if has_ended_by(facts, start_ms) or inherited(state, facts, start_ms) is not None:
        return False
    started_ms = facts.job.started_ms - CLOCK_SKEW_MS
    return started_ms <= start_ms or any(restore.at_ms >= started_ms for restore in facts.restores)


def has_ended_by(facts: FlinkJobFacts, at_ms: int) -> bool:
    """Say whether a job was over at a time (epoch ms)."""
    job = facts.job
    return job.is_over and (job.ended_ms or job.changed_ms) + CLOCK_SKEW_MS < at_ms


def several_clusters(state: FlinkState, job: str) -> str:
    """Return which clusters have a job of this id, so that a report of it proves nothing; an empty text where it is one."""
    clusters = state.clusters.several(job)
    if not clusters:
        return ""
    return (
        f"clusters {' and '.join(clusters)} have a job of the same id {job}: what one of them says proves nothing about the other. "
        "Whether the job was restored from a checkpoint that holds this transaction is not known"
    )


def rivals(state: FlinkState, job: str, since_ms: int, holds: Callable[[Restore], Standing]) -> tuple[Rival, ...]:
    """Return the other jobs that may be of a job's line and ran since then (epoch ms), in the order in which they started.

    ``holds``: what a restore from a checkpoint of the job itself says of the transaction.
    """
    ran = [each for id_, each in state.jobs.items() if id_ != job and not has_ended_by(each, since_ms)]
    if not ran:
        return ()
    told, untold = _edges(state)
    known = _connected(job, told, lambda _: ())
    may_be = _connected(job, told, lambda id_: _perhaps(state, untold, id_))
    found = []
    for other in sorted(ran, key=lambda each: (each.job.started_ms, each.job.job)):
        rival = _rival(state, job, other, known, may_be, since_ms, holds)
        if rival is not None:
            found.append(rival)
    return tuple(found)


def related(state: FlinkState, job: str) -> frozenset[str]:
    """Return the jobs that a job goes on from, and those that go on from it, also by way of others, as far as it was told."""
    return _connected(job, _edges(state)[0], lambda _: ())


def _edges(state: FlinkState) -> tuple[dict[str, set[str]], list[tuple[str, int]]]:
    """Return which job is joined to which by a restore, and the jobs whose source is not told, with the time (epoch ms)."""
    told: dict[str, set[str]] = {}
    untold: list[tuple[str, int]] = []
    for id_, facts in state.jobs.items():
        for restore in facts.restores:
            source = source_of(state, facts, restore)
            if not source:
                untold.append((id_, restore.at_ms))
            elif source != id_:
                told.setdefault(id_, set()).add(source)
                told.setdefault(source, set()).add(id_)
    return told, untold


def _perhaps(state: FlinkState, untold: Iterable[tuple[str, int]], job: str) -> Iterator[str]:
    """Yield the jobs that one may be joined to by a restore whose source is not told: the source was there before that."""
    for id_, at_ms in untold:
        if id_ == job:
            yield from (other for other in state.jobs if other != job and _was_there(state, other, at_ms))
        elif _was_there(state, job, at_ms):
            yield id_


def _was_there(state: FlinkState, job: str, at_ms: int) -> bool:
    facts = state.jobs.get(job)
    if facts is None or facts.job.started_ms <= at_ms + CLOCK_SKEW_MS:
        return True
    # One that recovered under its id is told with the time of that.
    return any(restore.of_job == job for restore in facts.restores)


def _connected(job: str, told: dict[str, set[str]], more: Callable[[str], Iterable[str]]) -> frozenset[str]:
    found, waiting = {job}, [job]
    while waiting:
        at = waiting.pop()
        new = {*told.get(at, ()), *more(at)} - found
        found |= new
        waiting += new
    return frozenset(found)


def _rival(
    state: FlinkState,
    job: str,
    other: FlinkJobFacts,
    known: frozenset[str],
    may_be: frozenset[str],
    since_ms: int,
    holds: Callable[[Restore], Standing],
) -> Rival | None:
    """Return another job as a rival, or None where it is not of the line."""
    id_, name = other.job.job, f"job {other.job.job} ({other.pipeline})"
    is_new = other.job.started_ms > since_ms + CLOCK_SKEW_MS
    is_namesake = other.pipeline in {state.jobs[each].pipeline for each in known if each in state.jobs}
    foreign = [restore for restore in other.restores if source_of(state, other, restore) != id_]
    last = max(foreign, key=lambda restore: restore.at_ms, default=None)
    if id_ in known or id_ in may_be:
        if last is None or last.at_ms < since_ms - CLOCK_SKEW_MS:
            return Rival(
                facts=other, standing=Standing.BESIDE, why=f"{name} may be a copy of this job, and runs beside it"
            )
        standing = _standing(state, other, job, holds, frozenset()) if id_ in known else Standing.UNKNOWN
        source = source_of(state, other, last)
        of_job = "" if source == job else f" of job {source}" if source else f" ({last.path}, whose job is not known)"
        why = f"{name} was restored from checkpoint {last.number}{of_job} at {utc(last.at_ms)}"
        return Rival(facts=other, standing=standing, why=why, restore=last)
    if is_new and last is None and other.job.state in _NOT_RESTORED_YET:
        why = f"{name} starts, and REST has not said from which checkpoint"
        return Rival(facts=other, standing=Standing.UNKNOWN, why=why)
    if is_namesake and is_new:
        why = (
            f"{name} has the same name and started at {utc(other.job.started_ms)}; whether it was restored from a checkpoint "
            "that holds this transaction is not known"
        )
        return Rival(facts=other, standing=Standing.UNKNOWN, why=why)
    if is_namesake:
        return Rival(facts=other, standing=Standing.BESIDE, why=f"{name} has the same name, and runs beside it")
    if last is not None and last.at_ms >= since_ms - CLOCK_SKEW_MS and source_of(state, other, last) not in state.jobs:
        why = (
            f"{name} was restored from checkpoint {last.number} of a job that REST never reported: what that job went on from is "
            "not known"
        )
        return Rival(facts=other, standing=Standing.UNKNOWN, why=why, restore=last)
    return None


def _standing(
    state: FlinkState,
    facts: FlinkJobFacts,
    job: str,
    holds: Callable[[Restore], Standing],
    behind: frozenset[str],
) -> Standing:
    """Return what a job of the line rests on, by the last restore from another one's checkpoint; its own go on from there."""
    found = Standing.UNKNOWN
    for restore in facts.restores:
        source = source_of(state, facts, restore)
        if source == facts.job.job:
            continue
        of_source = state.jobs.get(source)
        if source == job:
            found = holds(restore)
        elif of_source is not None and source not in behind:
            found = _standing(state, of_source, job, holds, behind | {facts.job.job})
        else:
            found = Standing.UNKNOWN
    return found
