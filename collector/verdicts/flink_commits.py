"""Whether an open transaction of a Flink job is to be committed or aborted, by what Flink's checkpoints list. Pure.

Flink writes a checkpoint's ``_metadata`` before it records that the checkpoint is completed. So a listed transaction is to be
committed for certain only once REST reported a checkpoint that holds it as completed, or once a job was restored from one; and
never once the work was set back to before it, because its rows are then written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from collector.records.application_ids import FlinkId
from collector.records.branches import BranchFacts
from collector.records.facts import BrokerTransaction
from collector.records.flink_facts import CLOCK_SKEW_MS, FlinkJobFacts, FlinkState, Restore
from collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkStatus, Listed
from collector.records.observer_kind import ObserverKind
from collector.records.xids import FlinkXid, as_listed, owner_of, xid_of
from collector.runtime.time_format import utc
from collector.state.transaction_view import TransactionView
from collector.verdicts.flink_unread_lists import (
    UnreadList,
    owner_by_number,
    unread_list,
    unread_list_of_branch,
)
from lifecycle.resource_manager_kinds import MYSQL
from lifecycle.verdicts import Evidence, Judgement, Verdict

REST = ObserverKind.FLINK.value
METADATA = "_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCase:
    """What is known of the Flink job of one open transaction. Times are epoch ms.

    ``is_branch``: it is one of a database, which keeps it prepared for ever and shows it, perhaps, later than it was prepared.
    ``listings``: the checkpoints on disk of one job that list exactly this transaction, by number. ``job`` None: REST does not
    know the job. ``polled``: its cluster's REST API answered the newest poll. ``restores``: those from checkpoints of this job,
    by whichever job, oldest first. ``last_restore``: the newest that decides what becomes of a transaction that none lists.
    ``unattributed``: which job of that name started since that restore, where it is not known from what.
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
    unread: UnreadList | None = None
    """Where none lists it: the completed checkpoint that holds it by what REST says, and whose list is not read."""
    is_branch: bool = False
    may_refuse_flink: bool = False
    """Its database may refuse the commit that Flink sends after a restore: MariaDB does, and lists as MySQL does."""
    commit_overdue_ms: int = 1_500
    now_ms: int = 0

    @property
    def first(self) -> FlinkCommittables:
        """Return the first checkpoint that lists it."""
        return self.listings[0]

    @property
    def began_after_restored(self) -> bool:
        """Say whether it began after the checkpoint that its job was restored from was taken."""
        return self.restored is not None and self.start_ms > self.restored.written_ms + CLOCK_SKEW_MS

    @property
    def is_alive(self) -> bool:
        """Say whether the job runs, as REST says now."""
        return self.polled and self.job is not None and not self.job.job.is_over

    def restored_to(self) -> tuple[Restore | None, bool]:
        """Return the last restore since it was listed that tells whether the work rests on it, and whether that is in doubt.

        Restored from a checkpoint that lists it: it does. From an earlier one: it does not. A later checkpoint that does not list
        it may be of either line of work.
        """
        numbers = {listing.number for listing in self.listings}
        last: Restore | None = None
        in_doubt = False
        for restore in self.restores:
            if restore.at_ms < self.first.written_ms - CLOCK_SKEW_MS:
                continue
            if restore.number in numbers or restore.number < self.first.number:
                last, in_doubt = restore, False
            elif last is not None and last.number < self.first.number:
                in_doubt = True
        return last, in_doubt

    def completed(self) -> tuple[int, int, str] | None:
        """Return (number, epoch ms, proof) of a checkpoint that lists it and counts; None: none is known to count."""
        last, _ = self.restored_to()
        if last is not None and last.number >= self.first.number:
            return last.number, last.at_ms, "a job was restored from it"
        for listing in self.listings:
            seen = self.job.checkpoints.get(listing.number) if self.job is not None else None
            if (
                seen is None
                or seen.status is not FlinkStatus.COMPLETED
                or not seen.kind.commits
                or seen.ended_ms is None
            ):
                continue
            # Another checkpoint may have had this number before: the job was restored and took it again.
            if seen.ended_ms >= listing.written_ms - CLOCK_SKEW_MS:
                return listing.number, seen.ended_ms, "REST reported it as completed"
        return None


def flink_case(state: FlinkState, view: TransactionView, *, commit_overdue_ms: int, now_ms: int) -> FlinkCase | None:
    """Return what is known of an open transaction's Flink job, or None for one of no job that is known."""
    if view.ours or not view.is_running:
        return None
    if view.branch is not None:
        case = case_of_branch(state, view.branch)
        if case is None:
            return None
        xid = flink_xid(view.branch)
        # JdbcSink has committed before a checkpoint is written: what holds its branch is no checkpoint.
        may_be_held = not case.listings and xid is not None and xid.is_function
        unread = unread_list_of_branch(state, case.job, view.branch) if may_be_held and case.job else None
        return replace(case, unread=unread, commit_overdue_ms=commit_overdue_ms, now_ms=now_ms)
    if view.broker is None:
        return None
    case = case_of(state, view.broker, commit_overdue_ms=commit_overdue_ms, now_ms=now_ms)
    if case is not None and case.listings:
        return case
    found = _with_unread_list(state, view.broker, case)
    return replace(found, commit_overdue_ms=commit_overdue_ms, now_ms=now_ms) if found is not None else None


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
        unread = replace(unread, doubt=unattributed(state, state.jobs[unread.job], start_ms))
    if case is None:
        case = _case(state, owner, [], start_ms, None)
        # Its number may fit by chance: of a job that runs it is not said that it goes on.
        return None if case.is_alive else replace(case, unread=unread)
    return replace(case, unread=unread)


def case_of(
    state: FlinkState, broker: BrokerTransaction, *, commit_overdue_ms: int = 0, now_ms: int = 0
) -> FlinkCase | None:
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
    case = _case(state, owner, listings, start_ms, restore)
    return replace(case, commit_overdue_ms=commit_overdue_ms, now_ms=now_ms)


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
    case = _case(state, owner, listings, branch.since_ms, _restore_of_branch(state, facts))
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
) -> FlinkCase:
    cluster, job = owner
    facts = state.jobs.get(job)
    case = FlinkCase(
        start_ms=start_ms,
        listings=tuple(sorted(listings, key=lambda listing: listing.number)),
        job=facts,
        name=facts.pipeline if facts is not None else f"{cluster}/{job}",
        polled=cluster in state.polled_ms,
        # They concern listed transactions alone: to find them takes a look at every job.
        restores=tuple(sorted(state.restores_from(job), key=lambda each: each.at_ms)) if listings else (),
        last_restore=last_restore,
        restored=_restored(state, facts, last_restore) if facts is not None and last_restore is not None else None,
    )
    # A job that REST never told of is known by those that were restored from it.
    known = facts or (next(_restored_jobs(state, job), None) if listings else None)
    if known is None:
        return case
    if listings:
        last, _ = case.restored_to()
        after_ms = last.at_ms if last else case.first.written_ms
    elif last_restore is not None and case.began_after_restored:
        after_ms = last_restore.at_ms
    else:
        return case
    return replace(case, unattributed=unattributed(state, known, after_ms, of_job=job))


def judge(case: FlinkCase) -> Judgement | None:
    """Return the verdict of the first rule that answers, or None: Flink's checkpoints say nothing about it."""
    return next((found for rule in RULES if (found := rule(case)) is not None), None)


def rule_21_restore_not_known(case: FlinkCase) -> Judgement | None:
    """A job of that name started since, and whether its work rests on this checkpoint is not known."""
    if not case.listings:
        return None
    _, in_doubt = case.restored_to()
    if not in_doubt and not case.unattributed:
        return None
    fact = (
        f"{case.name} was set back to before checkpoint {case.first.number} and restored again since: whether its work rests on "
        "that checkpoint is not known"
    )
    if case.unattributed:
        fact = f"{case.unattributed}: if it was not, a commit writes these rows twice"
    doubt = Evidence(fact=fact, source=REST)
    return Judgement(verdict=Verdict.UNKNOWN, rule=21, evidence=(_listed(case), doubt), may_abort=True, loses_data=True)


def rule_22_set_back(case: FlinkCase) -> Judgement | None:
    """The work was set back to before the checkpoint that lists it: its rows are written again."""
    restore, _ = case.restored_to() if case.listings else (None, False)
    if restore is None or restore.number >= case.first.number:
        return None
    fact = (
        f"{case.name} was set back to checkpoint {restore.number}, before checkpoint {case.first.number} that lists it: "
        "its rows are written again, and a commit would write them twice"
    )
    set_back = Evidence(fact=fact, source=REST, at_ms=restore.at_ms)
    return Judgement(verdict=Verdict.ABORT_IT, rule=22, evidence=(_listed(case), set_back), may_abort=True)


def rule_23_completed(case: FlinkCase) -> Judgement | None:
    """A checkpoint that holds it counts, and it is still open: commit it. Before flink_commit_overdue_ms its job commits it."""
    completed = case.completed() if case.listings else None
    if completed is None:
        return None
    number, at_ms, proof = completed
    counts = Evidence(fact=f"checkpoint {number} of {case.name} counts: {proof}", source=REST, at_ms=at_ms)
    evidence: tuple[Evidence, ...] = (_listed(case), counts)
    if case.is_branch and case.is_alive:
        fact = f"{case.name} runs: it commits the branch itself, and would fail at one that is gone"
        evidence = (*evidence, Evidence(fact=fact, source=REST))
    if case.now_ms - at_ms < case.commit_overdue_ms or (case.is_branch and case.is_alive):
        return Judgement(verdict=Verdict.IN_PROGRESS, rule=23, evidence=evidence, loses_data=True)
    return Judgement(
        verdict=Verdict.COMMIT_IT,
        rule=23,
        evidence=(_listed(case), counts, _what_follows(case)),
        may_commit=True,
        may_abort=case.may_refuse_flink,
        loses_data=True,
        commit_confirmation=checkpoint_name(case.first) if case.may_refuse_flink else "",
    )


def rule_24_not_over(case: FlinkCase) -> Judgement | None:
    """Its job runs, and the checkpoint that lists it has not ended: Flink commits it, or lists it again."""
    if not case.listings or not case.is_alive:
        return None
    fact = f"{case.name} runs, and Flink has not reported checkpoint {case.first.number} as completed"
    return Judgement(
        verdict=Verdict.IN_PROGRESS,
        rule=24,
        evidence=(_listed(case), Evidence(fact=fact, source=REST)),
        loses_data=True,
    )


def rule_25_end_not_seen(case: FlinkCase) -> Judgement | None:
    """It is listed, and it was not seen whether Flink recorded the checkpoint as completed before the job stopped."""
    if not case.listings:
        return None
    written_ms = case.listings[-1].written_ms
    if case.now_ms - written_ms < case.commit_overdue_ms:
        return Judgement(verdict=Verdict.IN_PROGRESS, rule=25, evidence=(_listed(case),), loses_data=True)
    name = checkpoint_name(case.first)
    fact = (
        f"the end of this checkpoint was not seen: commit it only if the job is then restored from {name} or from a later one. "
        "Restored from an earlier one, it writes these rows twice"
    )
    return Judgement(
        verdict=Verdict.COMMIT_IT,
        rule=25,
        evidence=(_listed(case), Evidence(fact=fact, source=METADATA), _what_follows(case)),
        may_commit=True,
        may_abort=True,
        loses_data=True,
        commit_confirmation=name,
    )


def rule_26_lingering(case: FlinkCase) -> Judgement | None:
    """Its job was restored from a checkpoint that was taken before it and does not list it: its rows are written again."""
    restore = case.last_restore
    if case.listings or restore is None or case.restored is None or case.restored.number != restore.number:
        return None
    if case.start_ms >= restore.at_ms - CLOCK_SKEW_MS or not case.began_after_restored or case.unattributed:
        return None
    fact = (
        f"{case.name} was restored from checkpoint {restore.number}, which was written before it began and does not list it: "
        "its rows are written again"
    )
    return Judgement(
        verdict=Verdict.ABORT_IT,
        rule=26,
        evidence=(Evidence(fact=fact, source=METADATA, at_ms=restore.at_ms),),
        may_abort=True,
    )


def rule_27_job_runs(case: FlinkCase) -> Judgement | None:
    """Its job runs, and it began after the job's last start: the next checkpoint lists it."""
    if case.listings or not case.is_alive or case.job is None:
        return None
    restored_ms = max((restore.at_ms for restore in case.job.restores), default=0)
    if case.start_ms < max(case.job.job.started_ms, restored_ms) - CLOCK_SKEW_MS:
        return None
    fact = f"it belongs to {case.name}, which runs: its next checkpoint lists it"
    return Judgement(
        verdict=Verdict.IN_PROGRESS, rule=27, evidence=(Evidence(fact=fact, source=REST),), loses_data=True
    )


def rule_30_list_out_of_reach(case: FlinkCase) -> Judgement | None:
    """A completed checkpoint must list it, and its list is out of reach: commit it, if the job is then restored from it."""
    unread = case.unread
    if case.listings or unread is None or unread.doubt or case.now_ms - unread.ended_ms < case.commit_overdue_ms:
        return None
    name = checkpoint_name(unread.as_place())
    fact = (
        "it began before that checkpoint was triggered, its number is no higher, and its job was neither restored nor restarted in "
        f"between: so Flink listed it. Commit it only if the job is then restored from {name} or from a later one. Restored from "
        "an earlier one, it writes these rows twice. An abort, or the timeout, loses its rows"
    )
    return Judgement(
        verdict=Verdict.COMMIT_IT,
        rule=30,
        evidence=(*_unread(unread), Evidence(fact=fact, source=REST)),
        may_commit=True,
        may_abort=True,
        loses_data=True,
        commit_confirmation=name,
    )


def rule_31_list_not_read(case: FlinkCase) -> Judgement | None:
    """REST reported a checkpoint that may hold it as completed, and its list is not read: an abort may lose its rows."""
    unread = case.unread
    if case.listings or unread is None:
        return None
    if case.now_ms - unread.ended_ms < case.commit_overdue_ms:
        return Judgement(verdict=Verdict.IN_PROGRESS, rule=31, evidence=_unread(unread), loses_data=True)
    fact = f"no commit is offered, because {unread.doubt}. If that checkpoint holds it, an abort or the timeout loses its rows"
    return Judgement(
        verdict=Verdict.UNKNOWN,
        rule=31,
        evidence=(*_unread(unread), Evidence(fact=fact, source=REST)),
        may_abort=True,
        loses_data=True,
    )


RULES: tuple[Callable[[FlinkCase], Judgement | None], ...] = (
    rule_21_restore_not_known,
    rule_22_set_back,
    rule_23_completed,
    rule_24_not_over,
    rule_25_end_not_seen,
    rule_26_lingering,
    rule_27_job_runs,
    rule_30_list_out_of_reach,
    rule_31_list_not_read,
)


def listed_as(view: TransactionView) -> Listed | None:
    """Return how a checkpoint would list a transaction; None: as nothing, its producer or its xid is not known."""
    if view.branch is not None:
        xid = xid_of(view.branch.resource_manager, view.branch.transaction)
        return as_listed(xid) if xid is not None else None
    if view.producer_id is None or view.producer_epoch is None:
        return None
    return Committable(view.transaction, view.producer_id, view.producer_epoch)


def checkpoint_name(listing: FlinkCommittables) -> str:
    """Return the last part of a checkpoint's path, ``chk-3``: what a person types to confirm a commit."""
    return listing.path.rstrip("/").rpartition("/")[2]


def _listed(case: FlinkCase) -> Evidence:
    listing = case.first
    fact = f"{listing.path}/{METADATA} lists exactly this {'xid' if case.is_branch else 'transactional id, producer id and epoch'}"
    return Evidence(fact=fact, source=METADATA, at_ms=listing.written_ms)


def _unread(unread: UnreadList) -> tuple[Evidence, ...]:
    counts = f"REST reported checkpoint {unread.number} of {unread.name} as completed"
    cannot = f"its list {unread.path}/{METADATA} cannot be read: {unread.why}"
    return Evidence(fact=counts, source=REST, at_ms=unread.ended_ms), Evidence(fact=cannot, source=METADATA)


def _what_follows(case: FlinkCase) -> Evidence:
    if case.may_refuse_flink:
        name = checkpoint_name(case.first)
        fact = (
            f"MariaDB refuses the commit that Flink sends after a restore from {name}, with this branch or without (XAER_OUTSIDE): "
            f"docs/databases.md says what to do. Commit it only if the job then goes on from {name} or from a later one. Restored "
            "from an earlier one, it writes these rows twice. A rollback loses its rows"
        )
        return Evidence(fact=fact, source=METADATA)
    if case.is_branch:
        fact = (
            f"what follows a commit: restored from checkpoint {case.first.number}, Flink logs that the transaction is 'unknown to "
            "RM (ignoring)' and goes on; nothing is lost. Restored from an earlier one, it writes these rows twice. A rollback "
            "loses its rows"
        )
        return Evidence(fact=fact, source=METADATA)
    fact = (
        f"what follows a commit: restored from checkpoint {case.first.number}, Flink logs that the transaction has 'already been "
        "fenced' and goes on; nothing is lost. Restored from an earlier one, it writes these rows twice. An abort, or the "
        "timeout, loses its rows"
    )
    return Evidence(fact=fact, source=METADATA)


def unattributed(state: FlinkState, facts: FlinkJobFacts, after_ms: int, of_job: str = "") -> str:
    """Return which job of the same name started after ``after_ms`` from a checkpoint that is not known, or nothing.

    One that was restored from a checkpoint of this job (or of ``of_job``), of the job that was restored from one at ``after_ms``,
    or of such a job, is known.
    """
    own = {facts.job.job, of_job}
    own |= {each.job.job for id_ in own for each in _restored_jobs(state, id_, after_ms)}
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


def _restored_jobs(state: FlinkState, job: str, at_ms: int | None = None) -> Iterator[FlinkJobFacts]:
    """Yield the jobs that were restored from a checkpoint of a job; ``at_ms``: just then."""
    for facts in state.jobs.values():
        if any(restore.of_job == job and at_ms in (None, restore.at_ms) for restore in facts.restores):
            yield facts


def _restored(state: FlinkState, facts: FlinkJobFacts, restore: Restore) -> FlinkCommittables | None:
    of_job = state.committables.get((facts.job.cluster, restore.of_job or facts.job.job), {})
    whole = (listing for listing in of_job.values() if listing.number == restore.number and not listing.error)
    return next(whole, None)
