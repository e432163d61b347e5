"""What is safe to do about a transaction: numbered rules, tried in order, the first that answers is the verdict.

Pure functions of (transaction, pipeline, now): no clock, no I/O. They rest on what coordinators, databases and the decision log
say. Events of the lifecycle topic claim: a claim may hold an offer back (its driver is alive), and never brings one about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from indoubt.collector.facts.fold import BY_RUN
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import KAFKA
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.verdicts import flink_commits, read_process_write, told_evidence
from indoubt.collector.verdicts.verdict_case import BROKER, CHECKPOINTS, DECISIONS, EVENTS, Case, DecisionLogStatus
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.events import sign_in_words
from indoubt.lifecycle.resource_manager_kinds import WATCHED
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Assumption, Evidence, Judgement, Verdict

Rule = Callable[[Case], Judgement | None]


def judge(case: Case) -> Judgement:
    """Return the verdict of the first rule that answers; rule 15 always does.

    About a branch in a database an order is offered only while the database lists it: nothing else could be acted on.
    """
    answers = (rule(case) for rule in RULES)
    found = next((answer for answer in answers if answer is not None), None) or rule_15_in_progress(case)
    t = case.transaction
    if t.resource_manager == KAFKA:
        return found
    if t.branch is None or not t.is_listed:
        return replace(found, may_commit=False, may_abort=False)
    listed = told_evidence.listed(t.branch, t.branch_detail, t.polled_ms, t.not_asked)
    is_open = found.verdict is not Verdict.SETTLED
    if not WATCHED[t.resource_manager].abort_sends:
        found = replace(found, may_abort=False)
    if not WATCHED[t.resource_manager].takes_commits:
        found = replace(found, may_commit=False, commit_confirmation="")
    still = (Assumption.STILL_LISTED,) if t.not_asked and is_open else ()
    return replace(found, rests_on=(*found.rests_on, *listed), assumes=(*found.assumes, *still))


def rule_1_settled(case: Case) -> Judgement | None:
    """Committed, or aborted without ever being decided, or a foreign branch that is gone: nothing to do."""
    t = case.transaction
    gone = (told_evidence.ended(t.branch),) if t.branch is not None and not t.is_listed else ()
    is_assumed = t.outcome is None and t.branch is not None and t.branch.end_is_assumed
    is_missing = t.branch is not None and t.branch.proof is BranchProof.MISSING
    assumes = (Assumption.NOT_TAKEN_AWAY if is_missing else Assumption.SAME_DATABASE,) if is_assumed else ()
    if t.state is TransactionState.COMMITTED:
        committed = Evidence("committed", _by(t), t.ended_ms)
        return Judgement(Verdict.SETTLED, 1, (committed, *gone), assumes=assumes)
    if t.state is TransactionState.ABORTED:
        undecided = Evidence("aborted, never decided", _by(t), t.ended_ms)
        return Judgement(Verdict.SETTLED, 1, (undecided, *gone), assumes=assumes)
    if t.has_vanished and not t.managed:
        return Judgement(Verdict.SETTLED, 1, gone, assumes=assumes)
    return None


def rule_2_replayed(case: Case) -> Judgement | None:
    """Lost, and its batch was completed since: the replay brought the rows back."""
    written_again_ms = case.transaction.written_again_ms
    if not _is_lost(case.transaction) or written_again_ms is None:
        return None
    replay = Evidence("its batch was written again after the loss", CHECKPOINTS, written_again_ms)
    return Judgement(Verdict.SETTLED, 2, (*_decided(case), replay))


def rule_3_lost(case: Case) -> Judgement | None:
    """Decided, but the resource manager aborted it: only a replay of its batch brings the rows back."""
    t = case.transaction
    if not _is_lost(t):
        return None
    undone = Evidence("aborted after it was decided", _by(t), t.ended_ms)
    reported = t.reported.lost_reason if t.reported is not None else ""
    why = (Evidence(f"its driver reported: {reported}", EVENTS),) if reported else ()
    return Judgement(Verdict.LOST, 3, (*_decided(case), undone, *why))


def rule_4_only_reported(case: Case) -> Judgement | None:
    """Only events claim that it exists: there is nothing to be done about it, and after a while nothing to wait for."""
    t = case.transaction
    if not t.is_only_reported:
        return None
    fact = "only a pipeline's events name it: no coordinator, no watched database and no decision does"
    reported = Evidence(fact, EVENTS, t.updated_ms)
    is_new = t.updated_ms is not None and case.now_ms - t.updated_ms <= case.limits.driver_silent_ms
    verdict = Verdict.IN_PROGRESS if is_new else Verdict.SETTLED
    return Judgement(verdict, 4, (reported,), assumes=(Assumption.EVENTS_ARE_TRUE,))


def rule_5_decisions_unknown(case: Case) -> Judgement | None:
    """The decision log cannot be read, and the transaction is or may be ours: nothing is offered."""
    t = case.transaction
    if case.log_status is not DecisionLogStatus.UNREADABLE or not (t.managed or t.named_prefix):
        return None
    fact = f"the decision log cannot be read: {case.log_error or 'not read to its end yet'}"
    return Judgement(Verdict.UNKNOWN, 5, (Evidence(fact, DECISIONS, case.now_ms),))


def rule_6_ending(case: Case) -> Judgement | None:
    """The coordinator has accepted the end and writes its markers: it finishes by itself and never times out."""
    t = case.transaction
    if t.state not in (TransactionState.COMMITTING, TransactionState.ABORTING):
        return None
    return Judgement(Verdict.IN_PROGRESS, 6, (Evidence(f"{t.state.value}: accepted", BROKER, t.ended_ms),))


def rule_37_gone(case: Case) -> Judgement | None:
    """Its id went on without it: it has ended, and how was not seen."""
    t = case.transaction
    if not t.superseded or t.state is TransactionState.DECIDED:
        return None
    fact = "a later transaction of the same id is known"
    if t.broker is not None and t.broker.gone_ms is not None:
        fact = "its coordinator shows its id as empty, with another producer, or not at all"
    seen = Evidence(f"{fact}: it has ended", BROKER, t.ended_ms)
    return Judgement(Verdict.SETTLED, 37, (seen,), assumes=(Assumption.OWNER_KNOWS_ITS_END,))


def rules_of_flink(case: Case) -> Judgement | None:
    """Rules 21 to 27, 30, 31 and 34: what Flink's checkpoints say of a transaction of a Flink job (flink_commits.py)."""
    return flink_commits.judge(case.flink) if case.flink is not None else None


def rules_of_read_process_write(case: Case) -> Judgement | None:
    """Rules 33, 28 and 29: an application that reads its input again (read_process_write.py)."""
    return read_process_write.judge(case.read_process_write) if case.read_process_write is not None else None


def rule_35_young(case: Case) -> Judgement | None:
    """It is young, and its application was seen to commit others: its owner ends it."""
    if case.young is None:
        return None
    return Judgement(Verdict.IN_PROGRESS, 35, (case.young,), assumes=(Assumption.OWNER_ENDS_IT,), loses_data=True)


_WHOM_TO_ASK = Evidence(
    "Kafka tells neither client nor address of a producer: only its id and its topics lead to its owner", BROKER
)


def rule_7_foreign(case: Case) -> Judgement | None:
    """Its id belongs to no prefix that ever started a run: only its owner can judge what an abort would lose."""
    t = case.transaction
    if t.managed:
        return None
    evidence = [Evidence("not one of your pipelines: no entry of this log has its id", DECISIONS)]
    if t.broker is not None:
        evidence.append(_WHOM_TO_ASK)
    if t.broker is not None and t.broker.last_write_ms is not None:
        evidence.append(Evidence("last partition added to it", BROKER, t.broker.last_write_ms))
    if t.broker is not None and t.broker.timeout_ms == 0:
        fact = "no timeout ends it: its producer has a two-phase commit of its own (KIP-939)"
        evidence.append(Evidence(fact, BROKER, t.opened_ms))
    # What its partitions hold is unknown here, so an abort always counts as a loss.
    return Judgement(Verdict.FOREIGN, 7, tuple(evidence), may_abort=t.is_running and _is_there(t), loses_data=True)


def rule_8_commit_overdue(case: Case) -> Judgement | None:
    """Listed in a commit decision that counts and still open after commit_overdue_ms: commit it."""
    t = case.transaction
    if t.state is not TransactionState.DECIDED or not _is_there(t) or t.superseded:
        return None
    if case.overdue_ms < case.limits.commit_overdue_ms:
        return None
    still: tuple[Evidence, ...] = ()
    if t.broker is not None:
        still = (Evidence("still ongoing at the coordinator", BROKER, t.broker.last_write_ms),)
    return Judgement(Verdict.COMMIT_IT, 8, (*_decided(case), *still, *_sign(case)), may_commit=True, loses_data=True)


def rule_9_just_decided(case: Case) -> Judgement | None:
    """Decided a moment ago: its driver is committing it."""
    t = case.transaction
    if t.state is not TransactionState.DECIDED or case.overdue_ms >= case.limits.commit_overdue_ms:
        return None
    return Judgement(Verdict.IN_PROGRESS, 9, _decided(case), assumes=(Assumption.OWNER_ENDS_IT,), loses_data=True)


def rule_10_end_not_seen(case: Case) -> Judgement | None:
    """Its end was not seen: settled where a later batch shows that it was, else unknown; its marker can tell."""
    t = case.transaction
    if t.state is TransactionState.DECIDED:
        if case.later_batch_decided:
            later = Evidence("a later batch of the same checkpoint id was decided: this one was finished", DECISIONS)
            return Judgement(Verdict.SETTLED, 10, (*_decided(case), later))
        if t.resource_manager != KAFKA:
            fact = f"no {t.resource_manager} that is watched here lists it: its driver, or the pipeline's next start, settles it"
            unseen = told_evidence.ended(t.branch) if t.branch else Evidence(fact, DECISIONS)
            return Judgement(Verdict.UNKNOWN, 10, (*_decided(case), unseen), loses_data=True)
        unseen = Evidence(
            "the coordinator's record of its end was not seen; a commit order looks at its marker first", BROKER
        )
        return Judgement(Verdict.UNKNOWN, 10, (*_decided(case), unseen), may_commit=True, loses_data=True)
    return None


def rule_11_abort_decided(case: Case) -> Judgement | None:
    """An abort of its batch was decided and it is still open after commit_overdue_ms: abort it."""
    first = case.transaction.first_decision
    if first is None or first[1].ruling is not Ruling.ABORT or case.overdue_ms < case.limits.commit_overdue_ms:
        return None
    fact = f"decision {first[0]} by {first[1].who} aborts its batch"
    return Judgement(Verdict.ABORT_IT, 11, (Evidence(fact, DECISIONS, first[1].at_ms),), may_abort=True)


def rule_12_newer_run(case: Case) -> Judgement | None:
    """Undecided, and a newer run of its prefix started: no commit decision about it can count any more."""
    newer = _newer_run(case)
    if newer is None or case.pipeline is None:
        return None
    offset, by_clocks = newer
    fact = f"a newer run started (log entry {offset}) and writes its batch again: no commit of it can count"
    started = Evidence(fact, DECISIONS, case.pipeline.latest_run_ms)
    # An abort decision comes first, whatever the order of things is taken for: without its batch it can name nothing.
    may_abort = case.rulable is not None
    assumes = (Assumption.CLOCKS_AGREE,) if by_clocks else ()
    return Judgement(Verdict.ABORT_IT, 12, (_undecided(), started), assumes=assumes, may_abort=may_abort)


def rule_13_driver_silent(case: Case) -> Judgement | None:
    """Undecided, and its driver sent no heartbeat for longer than it may be silent."""
    last = case.driver_silent_since_ms
    if case.pipeline is None or last is None:
        return None
    allowed_ms = case.pipeline.silent_after_ms(case.limits)
    silent = Evidence(f"no heartbeat of its driver for more than {duration(allowed_ms)}", EVENTS, last)
    # Without its batch no abort decision can name it: the driver could still decide to commit it.
    may_abort = case.rulable is not None
    return Judgement(
        Verdict.ABORT_IT, 13, (_undecided(), silent), assumes=(Assumption.SILENT_IS_GONE,), may_abort=may_abort
    )


def rule_14_at_risk(case: Case) -> Judgement | None:
    """The time left is less than what recovery of this pipeline needs, and it is older than its pipeline's usually get."""
    t, p = case.transaction, case.pipeline
    deadline = t.deadline_ms
    if deadline is None or p is None or deadline - case.now_ms >= p.recovery_ms:
        return None
    # Of a timeout that is shorter than a restart every transaction would be at risk: page Timeouts says it once.
    if t.opened_ms is not None and case.now_ms - t.opened_ms < p.usual_age_ms(t.timeout_ms or 0):
        return None
    fact = f"a restart takes {p.recovery_length} ({p.recovery_parts})"
    timeout = Evidence("the broker aborts it at its timeout", BROKER, deadline)
    needs = Evidence(fact, CHECKPOINTS)
    return Judgement(Verdict.AT_RISK, 14, (timeout, needs), assumes=(Assumption.RECOVERY_AS_BEFORE,))


def rule_15_in_progress(case: Case) -> Judgement:
    """Its owner is alive and there is time: leave it alone."""
    return Judgement(Verdict.IN_PROGRESS, 15, _sign(case), assumes=(Assumption.OWNER_ENDS_IT,))


RULES: tuple[Rule, ...] = (
    rule_1_settled,
    rule_2_replayed,
    rule_3_lost,
    rule_4_only_reported,
    rule_5_decisions_unknown,
    rule_6_ending,
    rule_37_gone,
    rules_of_flink,
    rules_of_read_process_write,
    rule_35_young,
    rule_7_foreign,
    rule_8_commit_overdue,
    rule_9_just_decided,
    rule_10_end_not_seen,
    rule_11_abort_decided,
    rule_12_newer_run,
    rule_13_driver_silent,
    rule_14_at_risk,
)


def _is_lost(t: TransactionView) -> bool:
    undone = t.state is TransactionState.ABORTING and t.listing is not None
    return t.state in (TransactionState.LOST, TransactionState.WRITTEN_AGAIN) or undone


def _newer_run(case: Case) -> tuple[int, bool] | None:
    """Return the offset of a run that started after the transaction was opened, and whether only two clocks say so."""
    pipeline, t = case.pipeline, case.transaction
    if pipeline is None or pipeline.latest_run_offset is None:
        return None
    newest = pipeline.latest_run_offset
    if t.proven_batch_attempt is not None:
        return (newest, False) if t.proven_batch_attempt.attempt < newest else None
    if t.log_end is not None and t.log_end <= newest:
        return newest, False
    if t.reported_batch_attempt is not None and t.reported_batch_attempt.attempt >= newest:
        return None
    opened, started = t.opened_ms, pipeline.latest_run_ms
    is_later = opened is not None and started is not None and opened < started <= case.now_ms
    return (newest, True) if is_later else None


def _is_there(t: TransactionView) -> bool:
    """Say whether its resource manager holds it: its coordinator's record was seen, or its database lists it."""
    return t.broker is not None or t.is_listed


def _decided(case: Case) -> tuple[Evidence, ...]:
    listing = case.transaction.listing
    if listing is None:
        return ()
    offset, decision = listing
    number = len(decision.handles)
    for_all = {1: "for it", 2: "for both"}.get(number, f"for all {number}")
    who = "the pipeline" if decision.who.startswith(BY_RUN) else decision.who
    fact = f"{who} wrote “commit” {for_all} into its log (entry {offset}), and nothing revoked it"
    return (Evidence(fact, DECISIONS, decision.at_ms),)


def _undecided() -> Evidence:
    return Evidence("no commit decision that counts lists it", DECISIONS)


def _sign(case: Case) -> tuple[Evidence, ...]:
    if case.pipeline is None or case.pipeline.facts.last_seen_ms is None:
        return ()
    fact = f"the driver's last sign: {sign_in_words(case.pipeline.facts.last_heartbeat)}"
    return (Evidence(fact, EVENTS, case.pipeline.facts.last_seen_ms),)


def _by(t: TransactionView) -> str:
    if t.branch is not None and t.branch.proof in (BranchProof.COMMITTED, BranchProof.TOMBSTONE):
        return told_evidence.source_of_proof(t.branch)
    if t.broker is not None and t.broker.ended_ms is not None:
        return BROKER
    return DECISIONS if t.outcome is not None or t.branch is None else t.branch.listed_by
