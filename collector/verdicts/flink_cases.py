"""Finds the Flink job of a transaction or branch: which checkpoints list it, the restores and the other jobs that matter. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, Restore
from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCommittables,
    Listed,
    ListedFile,
)
from indoubt.collector.records.formats.pending_files import Standing as FileStanding
from indoubt.collector.records.xids import FlinkXid, as_listed, owner_of, xid_of
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.collector.verdicts.flink_line import (
    Standing,
    inherited,
    is_own,
    may_have_written,
    rivals,
    several_clusters,
)
from indoubt.collector.verdicts.flink_prefixes import may_share_prefix, rival
from indoubt.collector.verdicts.flink_unnamed_files import unnamed_by
from indoubt.collector.verdicts.flink_unread_lists import (
    owner_by_number,
    unread_list,
    unread_list_of_branch,
)
from indoubt.lifecycle.resource_manager_kinds import FILE_SINK, FLINK_SINKS, MYSQL


def flink_case(
    state: FlinkState, view: TransactionView, *, commit_overdue_ms: int, now_ms: int, driver_silent_ms: int = 30_000
) -> FlinkCase | None:
    """Return what is known of an open transaction's Flink job, or None for one of no job that is known."""
    if view.managed or not view.is_running:
        return None
    case = _case_of_view(state, view)
    if case is None:
        return None
    return replace(case, commit_overdue_ms=commit_overdue_ms, driver_silent_ms=driver_silent_ms, now_ms=now_ms)


def _case_of_view(state: FlinkState, view: TransactionView) -> FlinkCase | None:
    if view.branch is not None:
        case = case_of_branch(state, view.branch)
        if case is None:
            return None
        xid = flink_xid(view.branch)
        # JdbcSink has committed before a checkpoint is written: what holds its branch is no checkpoint.
        may_be_held = not case.listings and xid is not None and xid.is_function
        unread = unread_list_of_branch(state, case.job, view.branch) if may_be_held and case.job else None
        return replace(case, unread=unread)
    if view.broker is None:
        return None
    case = case_of(state, view.broker)
    return case if case is not None and case.listings else _with_unread_list(state, view.broker, case)


def _with_unread_list(state: FlinkState, broker: BrokerTransaction, case: FlinkCase | None) -> FlinkCase | None:
    """Return the case of a transaction that none lists with the list that is not read, or as it was where there is none."""
    parsed = FlinkId.parse(broker.identity.transaction)
    if parsed is None:
        return case
    start_ms = broker.identity.start_ms
    owner = _owner_by_prefix(state, parsed.prefix, start_ms) or owner_by_number(state, parsed, start_ms)
    if owner is None:
        return None
    unread = unread_list(state, owner, parsed, start_ms)
    if unread is None:
        return case
    if case is None:
        case = _unlisted(state, owner, start_ms)
        # Its number may fit by chance: of a job that runs it is not said that it goes on.
        if case.is_alive:
            return None
    if not unread.doubt:
        other = rival(state, state.jobs[unread.job], parsed.prefix, start_ms)
        shared = f"{other} may have written it, under the same prefix by mistake" if other else case.doubt
        unread = replace(unread, doubt=shared or next((each.why for each in case.rivals), ""))
    return replace(case, unread=unread)


def case_of(state: FlinkState, broker: BrokerTransaction) -> FlinkCase | None:
    """Return the same of any foreign transaction in Kafka, open or ended."""
    id_, producer_id, epoch = broker.handle_identity
    if producer_id is None or epoch is None:
        return None
    start_ms = broker.identity.start_ms
    parsed = FlinkId.parse(id_)
    # An older client's producer keeps its epoch: a later transaction of it is not the one that is listed.
    listings, doubt = _listings(state, Committable(id_, producer_id, epoch), start_ms)
    if listings:
        # Ids that count up have the number of the first checkpoint that may hold them.
        first = parsed.number if parsed is not None and state.lists.is_pooled(parsed.prefix) is False else 0
        case = _listed(state, listings, start_ms, first, doubt)
    else:
        owner = _owner_by_prefix(state, parsed.prefix, start_ms) if parsed is not None else None
        if owner is None:
            return None
        case = _unlisted(state, owner, start_ms)
    facts = case.job
    if facts is None:
        # Of a job that REST never told of, no other one is known either: only what is said counts.
        return replace(case, stated=_stated(state, listings[0].cluster, is_shared=True)) if listings else case
    prefix = parsed.prefix if parsed is not None else ""
    is_shared = may_share_prefix(state, facts, prefix, start_ms)
    case = replace(case, stated=_stated(state, facts.job.cluster, is_shared=is_shared))
    if listings:
        return case
    other = rival(state, facts, prefix, start_ms)
    doubt = f"{other} may have written it, under the same prefix by mistake" if other else case.doubt
    return replace(case, doubt=doubt, may_be_others=case.may_be_others or is_shared)


def _stated(state: FlinkState, cluster: str, *, is_shared: bool) -> str:
    """Return which statement binds what a cluster's job lists to this Kafka cluster, or nothing.

    Where none is given it is taken for true as long as no other job may use the prefix (``is_shared``): that is what would be
    seen if jobs wrote to several Kafka clusters.
    """
    stated = state.writes_here.get(cluster)
    if stated is False or (stated is None and is_shared):
        return ""
    how = "by default, as no other job that is known may use its prefix" if stated is None else "--flink-kafka"
    return f"stated in the settings ({how}): the jobs of {cluster} write to this Kafka cluster only"


def flink_xid(branch: BranchFacts) -> FlinkXid | None:
    """Return what the xid of a branch of Flink's JDBC sink says; None for any other."""
    found = owner_of(branch.resource_manager, branch.transaction)
    return found.flink if found is not None else None


def case_of_branch(state: FlinkState, branch: BranchFacts) -> FlinkCase | None:
    """Return the same of a foreign branch in a database, or of what only checkpoints list, there or gone."""
    if branch.resource_manager in FLINK_SINKS:
        return _case_of_file(state, branch.transaction)
    xid, found = xid_of(branch.resource_manager, branch.transaction), flink_xid(branch)
    if xid is None or found is None or branch.since_ms is None:
        return None
    # An xid may be made again after a restore, where its branch part is not random: a later branch is not the listed one.
    is_random = branch.prepared_ms is None and found.is_function
    listings, doubt = _listings(state, as_listed(xid), 0 if is_random else branch.since_ms)
    facts = state.jobs.get(found.job)
    if listings:
        # MySQL keeps no time: when a branch was seen first says of no checkpoint that it was taken before.
        held_since_ms = branch.prepared_ms if branch.prepared_ms is not None else 0
        first = found.checkpoint if found.is_function else 0
        case = _listed(state, listings, branch.since_ms, first, doubt, held_since_ms)
    elif facts is not None:
        case = _unlisted(state, (facts.job.cluster, facts.job.job), branch.since_ms)
    else:
        return None
    return replace(case, is_branch=True, may_refuse_flink=branch.resource_manager == MYSQL.name)


def _case_of_file(state: FlinkState, target: str) -> FlinkCase | None:
    """Return the same of a file; None: no checkpoint that was read lists it.

    It was written whole when the first checkpoint was taken that lists it, whose number the list tells.
    """
    listings, doubt = _listings(state, ListedFile(target), 0)
    file = next((each for listing in listings for each in listing.files if each.target == target), None)
    if file is None:
        return _case_of_unnamed(state, target)
    start_ms = min(each.written_ms for each in listings)
    case = _listed(state, listings, start_ms, file.checkpoint_id, doubt, held_since_ms=0)
    seen = next((files[target] for files in state.files_seen.values() if target in files), None)
    left_out = seen.why if seen is not None and seen.standing is FileStanding.HIDDEN else ""
    return replace(case, is_branch=True, sink=file.resource_manager, left_out=left_out)


def _case_of_unnamed(state: FlinkState, target: str) -> FlinkCase | None:
    unnamed = unnamed_by(state, target)
    if unnamed is None:
        return None
    file, last = unnamed
    case = _case(state, (last.listing.cluster, last.listing.job), (), file.opened_ms)
    return replace(case, unnamed=unnamed, is_branch=True, sink=FILE_SINK.name)


def is_flinks(branch: BranchFacts) -> bool:
    """Say whether a sink of Flink made a branch, or wrote a file."""
    return branch.resource_manager in FLINK_SINKS or flink_xid(branch) is not None


def _listings(state: FlinkState, listed: Listed, start_ms: int) -> tuple[list[FlinkCommittables], str]:
    """Return the lists of one job that name a transaction, and why it may not be the one that wrote it, or nothing.

    A copy of a list names the transaction, too, and so does a job that went on from it: the job that REST says ran then wrote it.
    """
    found = [each for each in state.lists.listings(listed) if start_ms <= each.written_ms + CLOCK_SKEW_MS]
    jobs = list(dict.fromkeys(each.job for each in sorted(found, key=lambda each: (each.written_ms, each.job))))
    known = [job for job in jobs if job in state.jobs]
    wrote = [job for job in known if may_have_written(state, state.jobs[job], start_ms)]
    owner, *_ = *wrote, *known, *jobs, ""
    others = ", ".join(job for job in wrote if job != owner)
    doubt = f"checkpoints of job {others} list it too: which job wrote it is not known" if others else ""
    return [each for each in found if each.job == owner], doubt


def _owner_by_prefix(state: FlinkState, prefix: str, start_ms: int) -> tuple[str, str] | None:
    """Return (cluster, job) of the job that writes under a prefix: the one that did then, else the one that did last."""
    last = state.lists.job_of_prefix(prefix)
    facts = state.jobs.get(last[1]) if last is not None else None
    if last is None or (facts is not None and may_have_written(state, facts, start_ms)):
        return last
    wrote = [
        each
        for each in state.jobs.values()
        if state.lists.names_prefix(each, prefix) and may_have_written(state, each, start_ms)
    ]
    return (wrote[0].job.cluster, wrote[0].job.job) if wrote else last


def _case(state: FlinkState, owner: tuple[str, str], listings: Iterable[FlinkCommittables], start_ms: int) -> FlinkCase:
    """Return what REST tells of a job."""
    cluster, job = owner
    facts = state.jobs.get(job)
    by_number = tuple(sorted(listings, key=lambda listing: listing.number))
    if shared := several_clusters(state, job):
        name = f"{cluster}/{job}"
        return FlinkCase(start_ms=start_ms, listings=by_number, job=None, name=name, polled=False, doubt=shared)
    cluster = facts.job.cluster if facts is not None else cluster
    return FlinkCase(
        start_ms=start_ms,
        listings=by_number,
        job=facts,
        name=facts.pipeline if facts is not None else f"{cluster}/{job}",
        polled=cluster in state.polled_ms,
        has_answered=cluster in state.answered,
        away_since_ms=state.away_since_ms.get(cluster),
        may_be_others=facts is not None and inherited(state, facts, start_ms) is not None,
        stored=state.stores.newest(cluster, job),
        is_alone_in_store=state.stores.is_alone(cluster, job),
    )


def _listed(
    state: FlinkState,
    listings: list[FlinkCommittables],
    start_ms: int,
    first: int,
    doubt: str,
    held_since_ms: int | None = None,
) -> FlinkCase:
    """Return the case of a transaction that checkpoints of one job list.

    ``first``: the first checkpoint that may hold it; ``held_since_ms``: since when it may be held, where it may have begun before.
    """
    owner = (listings[0].cluster, listings[0].job)
    facts = state.jobs.get(owner[1])
    case = _case(state, owner, [facts.timed(each) for each in listings] if facts is not None else listings, start_ms)
    if case.doubt:
        return case
    since_ms, restores = case.first.written_ms, facts.restores if facts is not None else ()
    earlier = (restore.number for restore in restores if restore.number >= first)
    held_since_ms = start_ms if held_since_ms is None else held_since_ms
    case = replace(case, restores=restores, may_hold=_may_hold(state, owner, earlier, held_since_ms))
    numbers, is_reported = {each.number for each in case.listings}, case.reported() is not None

    def holds(restore: Restore) -> Standing:
        if restore.number in numbers or (is_reported and restore.number > case.first.number):
            return Standing.HOLDS
        may_be = restore.number >= first and _may_hold(state, owner, [restore.number], held_since_ms)
        return Standing.BEFORE if restore.number < case.first.number and not may_be else Standing.UNKNOWN

    foreign = [
        each
        for each in restores
        if facts is not None and each.at_ms >= since_ms - CLOCK_SKEW_MS and not is_own(state, facts, each, start_ms)
    ]
    if foreign:
        last = foreign[-1]
        doubt = (
            f"{case.name} was restored at {utc(last.at_ms)} from {last.path}. Whether that is its own checkpoint is not "
            "known: if it goes on from an older one, a commit writes these rows twice"
        )
    return replace(case, doubt=doubt, rivals=rivals(state, owner[1], since_ms, holds))


def _unlisted(state: FlinkState, owner: tuple[str, str], start_ms: int) -> FlinkCase:
    """Return the case of a transaction that no checkpoint lists: the last restore decides what becomes of it."""
    case = _case(state, owner, (), start_ms)
    facts = case.job
    if facts is None or case.doubt:
        return case

    def restored_list(restore: Restore) -> FlinkCommittables | None:
        of_job = state.lists.committables.get((facts.job.cluster, restore.of_job or facts.job.job), {}) if facts else {}
        return next((each for each in of_job.values() if each.number == restore.number and not each.error), None)

    def holds(restore: Restore) -> Standing:
        read = restored_list(restore)
        return Standing.BEFORE if read is not None and start_ms > read.written_ms + CLOCK_SKEW_MS else Standing.UNKNOWN

    found = rivals(state, owner[1], start_ms, holds)
    heirs = [each for each in found if each.restore is not None and each.standing is not Standing.BESIDE]
    last, by = inherited(state, facts, start_ms) or (facts.restores[-1] if facts.restores else None), ""
    if not case.is_alive and heirs and all(each.standing is Standing.BEFORE for each in heirs):
        heir = max(heirs, key=lambda each: each.restore.at_ms if each.restore else 0)
        last, by = heir.restore, heir.facts.pipeline
    restored = restored_list(last) if last is not None else None
    if last is not None and not by and not is_own(state, facts, last, start_ms):
        by = case.name
    return replace(case, rivals=found, last_restore=last, restored=restored, restored_by=by)


def _may_hold(state: FlinkState, owner: tuple[str, str], numbers: Iterable[int], start_ms: int) -> frozenset[int]:
    """Return which of these checkpoints of ``owner`` (cluster, job) may hold a transaction: it is not known that it began later.

    A transaction that was listed and not committed is listed by the next checkpoint, too, which may be the first that was read.
    """
    read = {listing.number for listing in state.lists.committables.get(owner, {}).values() if not listing.error}
    facts = state.jobs.get(owner[1])
    seen = {number: facts.checkpoints.get(number) if facts is not None else None for number in numbers}
    return frozenset(
        number
        for number, checkpoint in seen.items()
        if number not in read and (checkpoint is None or start_ms <= checkpoint.triggered_ms + CLOCK_SKEW_MS)
    )
