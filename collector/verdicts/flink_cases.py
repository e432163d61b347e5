"""What is known of the Flink job of a transaction or branch: which checkpoints list it, and the restores that matter. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collector.records.application_ids import FlinkId
from collector.records.branches import BranchFacts
from collector.records.facts import BrokerTransaction
from collector.records.flink_facts import FlinkState
from collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from collector.records.formats.flink_records import Committable, FlinkCheckpoint, FlinkCommittables, FlinkStatus
from collector.records.xids import FlinkXid, as_listed, owner_of, xid_of
from collector.state.transaction_view import TransactionView
from collector.verdicts.flink_rivals import rival
from collector.verdicts.flink_successors import may_hold, restored_jobs, restored_list, several_clusters, unattributed
from collector.verdicts.flink_unread_lists import (
    UnreadList,
    owner_by_number,
    unread_list,
    unread_list_of_branch,
)
from lifecycle.resource_manager_kinds import MYSQL


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCase:
    """What is known of the Flink job of one open transaction. Times are epoch ms.

    ``is_branch``: it is one of a database, which keeps it prepared for ever and shows it, perhaps, later than it was prepared.
    ``listings``: the checkpoints on disk of one job that list exactly this transaction, by number. ``job`` None: REST does not
    know the job. ``polled``: its cluster's REST API answered the newest poll; ``away_since_ms``: since when it does not. None, and
    not ``polled``: it was not asked. ``restores``: those from checkpoints of this job, by whichever job, oldest first.
    ``last_restore``: the newest that decides what becomes of a transaction that none lists. ``unattributed``: which job of that
    name started since that restore, where it is not known from what.
    """

    start_ms: int
    listings: tuple[FlinkCommittables, ...]
    job: FlinkJobFacts | None
    name: str
    polled: bool
    restores: tuple[Restore, ...] = ()
    last_restore: Restore | None = None
    unattributed: str = ""
    restored: FlinkCommittables | None = None
    """What the checkpoint of ``last_restore`` lists, where that was read whole."""
    may_hold: frozenset[int] = frozenset()
    """Of the checkpoints in ``restores``, those that may hold it, too: their lists were not read."""
    unread: UnreadList | None = None
    """Where none lists it: the completed checkpoint that holds it by what REST says, and whose list is not read."""
    is_branch: bool = False
    rival: str = ""
    """Which other job may have written it, under the same prefix by mistake."""
    may_refuse_flink: bool = False
    """Its database may refuse the commit that Flink sends after a restore: MariaDB does, and lists as MySQL does."""
    away_since_ms: int | None = None
    commit_overdue_ms: int = 1_500
    driver_silent_ms: int = 30_000
    now_ms: int = 0

    @property
    def first(self) -> FlinkCommittables:
        """Return the first checkpoint that lists it."""
        return self.listings[0]

    @property
    def is_list_gone(self) -> bool:
        """Say whether every checkpoint that lists it is deleted."""
        return bool(self.listings) and all(listing.is_gone for listing in self.listings)

    @property
    def began_after_restored(self) -> bool:
        """Say whether it began after the checkpoint that its job was restored from was taken."""
        return self.restored is not None and self.start_ms > self.restored.written_ms + CLOCK_SKEW_MS

    @property
    def is_alive(self) -> bool:
        """Say whether the job runs, as REST says now."""
        return self.polled and self.job is not None and not self.job.job.is_over

    @property
    def has_ended(self) -> bool:
        """Say whether REST told that the job is over, or that another one went on from a checkpoint of it since it was listed."""
        if self.job is not None and self.job.job.is_over:
            return True
        own = self.job.restores if self.job is not None else ()
        others = (restore for restore in self.restores if restore not in own)
        return any(restore.at_ms >= self.first.written_ms - CLOCK_SKEW_MS for restore in others)

    @property
    def may_run(self) -> bool:
        """Say whether the job runs, or did when REST answered last, and REST is away for less than driver_silent_ms."""
        is_known = self.job is not None and not self.has_ended
        return self.is_alive or (is_known and self._is_away_for(0) and not self._is_away_for(self.driver_silent_ms))

    @property
    def is_gone(self) -> bool:
        """Say whether the job counts as gone: it has ended. In Kafka also once REST is away for commit_overdue_ms.

        A job that runs all the same does not mind a commit of what it has to commit itself in Kafka; in a database it fails.
        """
        is_away = not self.is_branch and self._is_away_for(self.commit_overdue_ms)
        return not self.is_alive and (self.has_ended or is_away)

    def _is_away_for(self, least_ms: int) -> bool:
        return self.away_since_ms is not None and self.now_ms - self.away_since_ms >= least_ms

    def restored_to(self) -> tuple[Restore | None, bool]:
        """Return the last restore since it was listed that tells whether the work rests on it, and whether that is in doubt.

        Restored from a checkpoint that lists it: it does. From an earlier one: it does not, unless that one may hold it, too. A
        later checkpoint that does not list it may be of either line of work: what the job completed, it goes on behind.
        """
        numbers = {listing.number for listing in self.listings}
        last: Restore | None = None
        in_doubt = False
        for restore in self.restores:
            if restore.at_ms < self.first.written_ms - CLOCK_SKEW_MS:
                continue
            if restore.number in numbers or restore.number < self.first.number:
                last, in_doubt = restore, restore.number in self.may_hold - numbers
            elif last is not None and (last.number < self.first.number or self._reported() is None):
                in_doubt = True
        return last, in_doubt

    def completed(self) -> tuple[int, int, str] | None:
        """Return (number, epoch ms, proof) of a checkpoint that lists it and counts; None: none is known to count."""
        last, _ = self.restored_to()
        if last is not None and last.number >= self.first.number:
            return last.number, last.at_ms, "a job was restored from it"
        return self._reported()

    def _reported(self) -> tuple[int, int, str] | None:
        """Return the same of what REST reported alone."""
        for listing in self.listings:
            seen = self._ended(listing, FlinkStatus.COMPLETED)
            if seen is not None and self.job is not None and self.job.counts(seen[0]):
                is_last = seen[0].kind.is_savepoint
                proof = "the job was stopped with it, and is finished" if is_last else "REST reported it as completed"
                return listing.number, seen[1], proof
        return None

    def is_savepoint(self, listing: FlinkCommittables) -> bool:
        """Say whether a list is a savepoint's, by itself or as REST says."""
        seen = self._ended(listing, FlinkStatus.COMPLETED)
        return (listing.kind is not None and listing.kind.is_savepoint) or (
            seen is not None and seen[0].kind.is_savepoint
        )

    def failed(self) -> tuple[FlinkCheckpoint, int] | None:
        """Return the last checkpoint that lists it, and its end (epoch ms), where REST reported all of them as failed."""
        ends = [self._ended(listing, FlinkStatus.FAILED) for listing in self.listings]
        return None if None in ends else ends[-1]

    @property
    def first_not_failed(self) -> FlinkCommittables:
        """Return the first checkpoint that lists it and that REST did not report as failed; of all that failed, the first."""
        open_ = (listing for listing in self.listings if self._ended(listing, FlinkStatus.FAILED) is None)
        return next(open_, self.first)

    def _ended(self, listing: FlinkCommittables, status: FlinkStatus) -> tuple[FlinkCheckpoint, int] | None:
        return self.job.ended(listing, status) if self.job is not None else None


def flink_case(
    state: FlinkState, view: TransactionView, *, commit_overdue_ms: int, now_ms: int, driver_silent_ms: int = 30_000
) -> FlinkCase | None:
    """Return what is known of an open transaction's Flink job, or None for one of no job that is known."""
    if view.ours or not view.is_running:
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
    owner = state.job_of_prefix(parsed.prefix) or owner_by_number(state, parsed, start_ms)
    if owner is None:
        return None
    unread = unread_list(state, owner, parsed, start_ms)
    if unread is None:
        return case
    if not unread.doubt:
        facts = state.jobs[unread.job]
        other = rival(state, facts, parsed.prefix, start_ms)
        shared = f"{other} may have written it, under the same prefix by mistake" if other else ""
        unread = replace(unread, doubt=shared or unattributed(state, facts, start_ms))
    if case is None:
        case = _case(state, owner, [], start_ms, None, 0)
        # Its number may fit by chance: of a job that runs it is not said that it goes on.
        return None if case.is_alive else replace(case, unread=unread)
    return replace(case, unread=unread)


def case_of(state: FlinkState, broker: BrokerTransaction) -> FlinkCase | None:
    """Return the same of any foreign transaction in Kafka, open or ended."""
    id_, producer_id, epoch = broker.handle_identity
    if producer_id is None or epoch is None:
        return None
    start_ms = broker.identity.start_ms
    parsed = FlinkId.parse(id_)
    listings = [
        listing
        for listing in state.listings(Committable(id_, producer_id, epoch))
        # An older client's producer keeps its epoch: a later transaction of it is not the one that is listed.
        if start_ms <= listing.written_ms + CLOCK_SKEW_MS
    ]
    if listings:
        owner = (listings[-1].cluster, listings[-1].job)
        listings = [listing for listing in listings if (listing.cluster, listing.job) == owner]
    else:
        found = state.job_of_prefix(parsed.prefix) if parsed is not None else None
        if found is None:
            return None
        owner = found
    facts = state.jobs.get(owner[1])
    restore = facts.restores[-1] if facts is not None and facts.restores else None
    # Ids that count up have the number of the first checkpoint that may hold them.
    first = parsed.number if parsed is not None and state.is_pooled(parsed.prefix) is False else 0
    case = _case(state, owner, listings, start_ms, restore, first)
    if listings or facts is None or parsed is None:
        return case
    return replace(case, rival=rival(state, facts, parsed.prefix, start_ms))


def flink_xid(branch: BranchFacts) -> FlinkXid | None:
    """Return what the xid of a branch of Flink's JDBC sink says; None for any other."""
    found = owner_of(branch.resource_manager, branch.transaction)
    return found.flink if found is not None else None


def case_of_branch(state: FlinkState, branch: BranchFacts) -> FlinkCase | None:
    """Return the same of a foreign branch in a database, listed there or gone."""
    xid, found = xid_of(branch.resource_manager, branch.transaction), flink_xid(branch)
    if xid is None or found is None or branch.since_ms is None:
        return None
    listings = [
        listing
        for listing in state.listings(as_listed(xid))
        # An xid may be made again after a restore, where its branch part is not random: a later branch is not the listed one.
        if (branch.prepared_ms is None and found.is_function) or branch.since_ms <= listing.written_ms + CLOCK_SKEW_MS
    ]
    facts = state.jobs.get(found.job)
    if listings:
        owner = (listings[-1].cluster, listings[-1].job)
        listings = [listing for listing in listings if (listing.cluster, listing.job) == owner]
        facts = state.jobs.get(owner[1])
    elif facts is not None:
        owner = (facts.job.cluster, facts.job.job)
    else:
        return None
    first = found.checkpoint if found.is_function else 0
    # MySQL keeps no time: when a branch was seen first says of no checkpoint that it was taken before.
    began_ms = branch.prepared_ms if branch.prepared_ms is not None else 0
    case = _case(state, owner, listings, branch.since_ms, _restore_of_branch(state, facts), first, began_ms=began_ms)
    may_refuse_flink = branch.resource_manager == MYSQL.name
    return replace(case, is_branch=True, may_refuse_flink=may_refuse_flink)


def _restore_of_branch(state: FlinkState, facts: FlinkJobFacts | None) -> Restore | None:
    """Return the newest restore of the job whose id the xid has; once that job is over, also of jobs that go on from it."""
    if facts is None:
        return None
    if not facts.job.is_over:
        return facts.restores[-1] if facts.restores else None
    found = (*facts.restores, *state.restores_from(facts.job.job))
    return max(found, key=lambda each: each.at_ms, default=None)


def _case(
    state: FlinkState,
    owner: tuple[str, str],
    listings: list[FlinkCommittables],
    start_ms: int,
    last_restore: Restore | None,
    first: int,
    began_ms: int | None = None,
) -> FlinkCase:
    cluster, job = owner
    if shared := several_clusters(state, job):
        listings = sorted(listings, key=lambda listing: listing.number)
        return FlinkCase(
            start_ms=start_ms,
            listings=tuple(listings),
            job=None,
            name=f"{cluster}/{job}",
            polled=False,
            unattributed=shared,
        )
    facts = state.jobs.get(job)
    listings = [facts.timed(listing) for listing in listings] if facts is not None else listings
    case = FlinkCase(
        start_ms=start_ms,
        listings=tuple(sorted(listings, key=lambda listing: listing.number)),
        job=facts,
        name=facts.pipeline if facts is not None else f"{cluster}/{job}",
        polled=cluster in state.polled_ms,
        away_since_ms=state.away_since_ms.get(cluster),
        # They concern listed transactions alone: to find them takes a look at every job.
        restores=tuple(sorted(state.restores_from(job), key=lambda each: each.at_ms)) if listings else (),
        last_restore=last_restore,
        restored=restored_list(state, facts, last_restore) if facts is not None and last_restore is not None else None,
    )
    # A job that REST never told of is known by those that were restored from it.
    known = facts or (next(restored_jobs(state, job), None) if listings else None)
    if known is None:
        return case
    if listings:
        earlier = (restore.number for restore in case.restores if restore.number >= first)
        held_since_ms = began_ms if began_ms is not None else start_ms
        case = replace(case, may_hold=may_hold(state, owner, earlier, held_since_ms))
        last, _ = case.restored_to()
        after_ms = last.at_ms if last else case.first.written_ms
    elif last_restore is not None and case.began_after_restored:
        after_ms = last_restore.at_ms
    else:
        return case
    return replace(case, unattributed=unattributed(state, known, after_ms, of_job=job))
