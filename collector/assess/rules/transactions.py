"""Rules about open transactions: one nears its timeout, one is decided and not committed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from indoubt.collector.assess.findings import MAX_FINDINGS, Finding, Severity, of_transaction
from indoubt.collector.assess.remedies import remedy_of
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import KAFKA
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.restarts import PERSON_MS
from indoubt.collector.verdicts.verdict_case import BROKER, CHECKPOINTS, DECISIONS, PipelineHistory
from indoubt.lifecycle.resource_manager_kinds import DATABASES, WATCHED
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Evidence, Verdict


def a1_timeout_near(situation: Situation) -> Iterator[Finding]:
    """Its time left is less than recovery, or a person, needs, and it is older than its pipeline's transactions usually get.

    Recovery needs what the longest measured restart of the pipeline took. The age keeps a pipeline quiet whose timeout is
    shorter than that: page Timeouts says so.
    """
    now_ms, limits = situation.now_ms, situation.limits
    near = [judged for judged in situation.judged if _is_near(judged, now_ms, limits)]
    # None is made that is then cut.
    for judged in heapq.nsmallest(MAX_FINDINGS, near, key=lambda judged: judged.view.key):
        yield _near(judged, recovery_ms(judged.pipeline, limits), situation)


def _is_near(judged: Judged, now_ms: int, limits: AlertSettings) -> bool:
    t, history = judged.view, judged.pipeline
    if t.deadline_ms is None or t.opened_ms is None or t.timeout_ms is None:
        return False
    needs_ms = max(recovery_ms(history, limits), _person_ms(t.timeout_ms))
    least_age_ms = history.usual_age_ms(t.timeout_ms) if history is not None else t.timeout_ms // 2
    return t.deadline_ms - now_ms < needs_ms and max(0, now_ms - t.opened_ms) >= least_age_ms


def recovery_ms(history: PipelineHistory | None, limits: AlertSettings) -> int:
    """Return what recovery of a pipeline needs; of another application it is assumed."""
    return history.recovery_ms if history is not None else limits.foreign_recovery_ms


def _person_ms(timeout_ms: int) -> int:
    return min(timeout_ms // 2, PERSON_MS)


def _near(judged: Judged, needs_ms: int, situation: Situation) -> Finding:
    t = judged.view
    left_ms = (t.deadline_ms or 0) - situation.now_ms
    left = f"{seconds(left_ms)} left" if left_ms > 0 else "no time left"
    person_ms = _person_ms(t.timeout_ms or 0)
    needs = _restart(judged.pipeline, needs_ms) if needs_ms >= person_ms else f"a person needs {seconds(person_ms)}"
    return of_transaction(
        t,
        severity=Severity.CRITICAL if t.listing is not None else Severity.WARNING,
        summary=f"transaction {t.transaction} has {left} and {needs}: {_at_timeout(judged)}",
        evidence=(
            Evidence(f"opened with a timeout of {seconds(t.timeout_ms or 0)}", BROKER, t.opened_ms),
            Evidence("the broker aborts it then", BROKER, t.deadline_ms),
            Evidence(_need(judged.pipeline, needs_ms), CHECKPOINTS),
        ),
        remedy=remedy_of(judged, situation),
    )


def _at_timeout(judged: Judged) -> str:
    t = judged.view
    if t.listing is not None:
        return "it is decided, commit it before the broker aborts it"
    if t.managed:
        return "the broker will abort it, and its batch must be replayed"
    match judged.judgement.verdict:
        case Verdict.COMMIT_IT:
            return "commit it before the broker aborts it, which loses its rows"
        case Verdict.ABORT_IT:
            return "the broker will abort it, and nothing is lost"
        case _:
            return "the broker will abort it, and only its owner knows what that loses"


def _restart(history: PipelineHistory | None, needs_ms: int) -> str:
    length = history.recovery_length if history is not None else f"{seconds(needs_ms)}, as is assumed"
    return f"a restart takes {length}"


def _need(history: PipelineHistory | None, needs_ms: int) -> str:
    why = history.recovery_parts if history is not None else "none of it was seen"
    return f"{_restart(history, needs_ms)} ({why})"


A1 = Rule(
    number="A1",
    name="timeout near",
    find=a1_timeout_near,
    consequence="The broker aborts it at its timeout.",
    sources=(Source.TRANSACTIONS,),
)


def a2_commit_overdue(situation: Situation) -> Iterator[Finding]:
    """Not committed within the limit although a commit decision counts that lists it; of Flink: its verdict is "commit it"."""
    yield from _commits_of_flink(situation)
    for judged in situation.judged:
        t = judged.view
        # Most have no decision: what costs least is asked first.
        if t.listing is None or judged.judgement.verdict is Verdict.SETTLED:
            continue
        if t.state not in (TransactionState.DECIDED, TransactionState.COMMITTING):
            continue
        offset, decision = t.listing
        late_ms = situation.now_ms - decision.at_ms
        if late_ms < situation.limits.commit_overdue_ms:
            continue
        fact = f"{decision.who} wrote “commit” for it into its log (entry {offset}), and nothing revoked it"
        yield of_transaction(
            t,
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction} was decided {seconds(late_ms)} ago and is not committed: "
                "its rows are invisible, an abort would lose them"
            ),
            evidence=(
                Evidence(fact, DECISIONS, decision.at_ms),
                Evidence(f"it is {t.state.value}", BROKER, t.updated_ms),
            ),
            remedy=remedy_of(judged, situation),
        )


def _commits_of_flink(situation: Situation) -> Iterator[Finding]:
    """Fires at once: the verdict has waited already, and in Kafka the broker's timeout loses the rows for good."""
    for judged in situation.judged:
        t = judged.view
        if judged.judgement.verdict is not Verdict.COMMIT_IT or t.managed:
            continue
        condition = judged.judgement.commit_confirmation
        checkpoint = f"Flink checkpoint {condition}" if condition else "a Flink checkpoint that counts"
        ends = f"Commit it{f', if its job goes on from {condition} or a later one' if condition else ''}"
        if not WATCHED[t.resource_manager].takes_commits:
            checkpoint, ends = "a Flink checkpoint", "Restart its job from that or a later one, which commits it"
        yield of_transaction(
            t,
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction} belongs to {checkpoint} and is not committed: "
                f"{_uncommitted(t, situation.now_ms)}. {ends}"
            ),
            evidence=judged.judgement.evidence,
            remedy=remedy_of(judged, situation),
        )


def _uncommitted(t: TransactionView, now_ms: int) -> str:
    """Return what it means that a foreign transaction stays open."""
    if t.resource_manager in DATABASES:
        return "its rows are invisible, and it keeps its locks until it is ended"
    if t.resource_manager != KAFKA:
        return "its rows are invisible until then"
    left = f" in {seconds(max(0, t.deadline_ms - now_ms))}" if t.deadline_ms is not None else ""
    return f"the broker's timeout loses its rows{left}"


A2 = Rule(
    number="A2",
    name="commit overdue",
    find=a2_commit_overdue,
    consequence="Its rows stay invisible, and an abort loses them.",
    sources=(Source.TRANSACTIONS, Source.DECISIONS),
)
