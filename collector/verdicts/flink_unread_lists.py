"""A Flink job's transaction that no list names: REST reported a checkpoint that must hold it, and its list is not read. Pure.

Flink's own rules then say as much as the list. A writer prepares its transaction at a checkpoint's barrier and opens the next one
behind it; under TransactionNamingStrategy.INCREMENTING the id's number is the checkpoint to come. So what began before a checkpoint
was triggered, in the same attempt of the job, is in it. Every condition of that is checked; one that is not known is a doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkCommittables, FlinkKind, FlinkStatus
from indoubt.collector.runtime.time_format import utc

LOOKED_AT = 20
"""Checkpoints that may have held it first: of those before, lists are not read either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadList:
    """A completed checkpoint whose list is not known whole: where it is, and why it is not. ``ended_ms``: epoch ms.

    ``doubt``: why a commit would not be safe without the list; empty: it is certain that the list names the transaction, if the
    checkpoint is there at all.
    """

    name: str
    cluster: str
    job: str
    number: int
    path: str
    ended_ms: int
    why: str
    doubt: str

    def as_place(self) -> FlinkCommittables:
        """Return where to look for the list, with nothing in it."""
        return FlinkCommittables(
            cluster=self.cluster,
            job=self.job,
            number=self.number,
            path=self.path,
            kind=FlinkKind.CHECKPOINT,
            written_ms=self.ended_ms,
            read_ms=self.ended_ms,
        )


def unread_list(state: FlinkState, owner: tuple[str, str], id_: FlinkId, start_ms: int) -> UnreadList | None:
    """Return the checkpoint that holds an open transaction that began at ``start_ms``, where its list is not read; else None."""
    facts = _ran(state, owner, start_ms)
    if facts is None:
        return None
    lists = state.lists.of(facts)
    naming = [each for each in lists if not each.error and id_.prefix in each.prefixes]
    is_pooled = any(id_.prefix in each.pooled for each in naming)
    holding = _holding(facts, None if is_pooled else id_.number, start_ms)
    unread = _unread(state, facts, holding) if holding is not None else None
    if unread is None or holding is None:
        return None
    doubts = (
        "" if naming else "no checkpoint that was read says that the job uses this prefix",
        "its sink reuses its ids, so their numbers do not tell which checkpoint holds it" if is_pooled else "",
        _not_of_this_attempt(facts, start_ms),
        "" if facts.counts(holding) else "it is a savepoint, from which the job does not restart by itself",
        "" if start_ms <= holding.triggered_ms - CLOCK_SKEW_MS else "it may have begun after the checkpoint's barrier",
        "a list that would name it, were it the job's, does not" if _is_contradicted(lists, id_, start_ms) else "",
        _restored_since(state, facts, start_ms),
        unread.doubt,
    )
    return replace(unread, doubt=next((doubt for doubt in doubts if doubt), ""))


def unread_list_of_branch(state: FlinkState, facts: FlinkJobFacts, branch: BranchFacts) -> UnreadList | None:
    """Return the last completed checkpoint that may hold a branch, where its list is not read; else None.

    A branch is prepared at a checkpoint's barrier. Whether at this one's, or at that of a later one which did not complete, its
    list alone tells: so there is always a doubt.
    """
    near = islice(reversed(facts.checkpoints.values()), LOOKED_AT)
    completed = (seen for seen in near if seen.status is FlinkStatus.COMPLETED and seen.kind.commits)
    holding = max((seen for seen in completed if _may_hold(seen, branch)), key=lambda seen: seen.number, default=None)
    unread = _unread(state, facts, holding) if holding is not None else None
    doubt = "whether the branch was prepared for that checkpoint or for a later one, only its list tells"
    return replace(unread, doubt=doubt) if unread is not None else None


def _may_hold(seen: FlinkCheckpoint, branch: BranchFacts) -> bool:
    """Say whether a branch may have been prepared before a checkpoint ended; MySQL keeps no time, and lists it later."""
    since_ms, prepared_ms = branch.since_ms, branch.prepared_ms
    if since_ms is None or seen.ended_ms is None or seen.triggered_ms > since_ms + CLOCK_SKEW_MS:
        return False
    return prepared_ms is None or prepared_ms <= seen.ended_ms + CLOCK_SKEW_MS


def _unread(state: FlinkState, facts: FlinkJobFacts, holding: FlinkCheckpoint) -> UnreadList | None:
    """Return a completed checkpoint as one whose list is not read, or None where it was read whole."""
    lists = state.lists.of(facts)
    here = [each for each in lists if each.number == holding.number and _is_of(holding, each)]
    if holding.ended_ms is None or any(not each.error for each in here):
        return None
    out_of_reach = state.why_out_of_reach(facts.job.cluster, facts.job.job, holding.number)
    damage = next((each.error for each in here), "")
    return UnreadList(
        name=facts.pipeline,
        cluster=facts.job.cluster,
        job=facts.job.job,
        number=holding.number,
        path=holding.path,
        ended_ms=holding.ended_ms,
        why=damage or out_of_reach or "it was not found there",
        doubt="" if out_of_reach and not damage else "whether a job can be restored from that checkpoint is not known",
    )


def owner_by_number(state: FlinkState, id_: FlinkId, start_ms: int) -> tuple[str, str] | None:
    """Return (cluster, job) of the one job, of those without any list, whose checkpoints an id's number and begin fit."""
    fitting = [facts for facts in state.jobs_without_list() if _fits(facts, id_.number, start_ms)]
    return (fitting[0].job.cluster, fitting[0].job.job) if len(fitting) == 1 else None


def _fits(facts: FlinkJobFacts, number: int, start_ms: int) -> bool:
    """Say whether checkpoint ``number`` is the first that was triggered after the transaction began."""
    seen, before = facts.checkpoints.get(number), facts.checkpoints.get(number - 1)
    if seen is None or seen.status is not FlinkStatus.COMPLETED or not seen.kind.commits:
        return False
    begun_ms = before.triggered_ms if before is not None else facts.job.started_ms if number == 1 else None
    return begun_ms is not None and begun_ms - CLOCK_SKEW_MS <= start_ms <= seen.triggered_ms + CLOCK_SKEW_MS


def _ran(state: FlinkState, owner: tuple[str, str], start_ms: int) -> FlinkJobFacts | None:
    """Return the job that a transaction of ``owner``'s prefix began in: that job, or the one that it was restored from."""
    facts = state.jobs.get(owner[1])
    if facts is None or start_ms >= facts.job.started_ms - CLOCK_SKEW_MS:
        return facts
    source = next((restore.of_job for restore in facts.restores if restore.of_job not in ("", owner[1])), "")
    earlier = state.jobs.get(source)
    return earlier if earlier is not None and start_ms >= earlier.job.started_ms - CLOCK_SKEW_MS else None


def _holding(facts: FlinkJobFacts, number: int | None, start_ms: int) -> FlinkCheckpoint | None:
    """Return the first completed checkpoint that may hold a transaction; ``number`` None: ids are pooled."""
    if number is None:
        near = sorted(islice(reversed(facts.checkpoints.values()), LOOKED_AT), key=lambda seen: seen.number)
    else:
        near = [facts.checkpoints[n] for n in range(number, number + LOOKED_AT) if n in facts.checkpoints]
    for seen in near:
        is_late = seen.ended_ms is not None and seen.ended_ms >= start_ms
        if seen.status is FlinkStatus.COMPLETED and seen.kind.commits and is_late:
            return seen
    return None


def _is_of(seen: FlinkCheckpoint, listing: FlinkCommittables) -> bool:
    """Say whether a list is this checkpoint's, and not that of an earlier one of its number."""
    return listing.written_ms >= seen.triggered_ms - CLOCK_SKEW_MS


def _not_of_this_attempt(facts: FlinkJobFacts, start_ms: int) -> str:
    """Return why the transaction may be left from before the job's tasks were restarted, or nothing.

    What an earlier attempt left is in no later checkpoint. REST shows a restart by the restore that follows it, once there is a
    checkpoint to restore: a restart during a checkpoint ends it. No restart restores a savepoint.
    """
    begun_ms = max((restore.at_ms for restore in facts.restores), default=facts.job.started_ms)
    if start_ms < max(begun_ms, facts.job.started_ms) + CLOCK_SKEW_MS:
        return f"it may be left from before {facts.pipeline} was started or restored last"
    is_shown = facts.restores or any(
        seen.status is FlinkStatus.COMPLETED and not seen.kind.is_savepoint and seen.triggered_ms <= start_ms
        for seen in facts.checkpoints.values()
    )
    return "" if is_shown else f"whether {facts.pipeline} was restarted before its first checkpoint is not known"


def _is_contradicted(lists: Iterable[FlinkCommittables], id_: FlinkId, start_ms: int) -> bool:
    """Say whether a whole list of a checkpoint from after the transaction began does not name it."""
    return any(
        not each.error and each.number >= id_.number and each.written_ms >= start_ms + CLOCK_SKEW_MS for each in lists
    )


def _restored_since(state: FlinkState, facts: FlinkJobFacts, start_ms: int) -> str:
    """Return which job was restored from one of this job's checkpoints since the transaction began, or nothing."""
    for restore in state.restores_from(facts.job.job):
        if restore.at_ms >= start_ms - CLOCK_SKEW_MS:
            return f"a job was restored from checkpoint {restore.number} at {utc(restore.at_ms)}"
    return ""
