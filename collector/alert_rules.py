"""Alert rules, numbered: pure functions of the picture and its time, each with evidence, summary, severity and group.

docs/alerts.md says of each what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from collector.abort_causes import Cause, Certainty
from collector.alert_findings import Finding, Severity
from collector.alert_inputs import AbortSeen, AlertLimits, CheckpointHistory, Picture, Source
from collector.observers.observer import ObserverState, ObserverStatus
from collector.time_text import seconds
from collector.transaction_view import TransactionView
from collector.verdicts import BROKER, CHECKPOINTS, DECISIONS, PipelineHistory
from lifecycle.checkpoints import CheckpointState
from lifecycle.states import TransactionState
from lifecycle.verdicts import Evidence, Verdict

FINDINGS_MOST = 1_000
"""Per rule: a broker with a hundred thousand open transactions is one problem, not a hundred thousand alerts."""
DECIDING_OBSERVERS = frozenset({"decision log", "transaction log", "transaction polling"})
"""Without these no verdict can be trusted."""
PARTITIONS, DATABASES, OBSERVERS = "partitions", "databases", "observers"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule: its number and name, how long what it finds must hold, and the sources that its evidence comes from."""

    number: str
    name: str
    find: Callable[[Picture, AlertLimits], Iterable[Finding]]
    for_ms: int
    sources: frozenset[Source]


def findings(picture: Picture, limits: AlertLimits) -> list[Finding]:
    """Return what all rules find that can see, in the order of their numbers; at most FINDINGS_MOST of one rule, by subject.

    A rule whose evidence cannot be seen finds nothing: what was true when it was seen last may be over.
    """
    found: list[Finding] = []
    blind = held(picture)
    for rule in RULES:
        if rule.number in blind:
            continue
        of_rule = [finding for finding in rule.find(picture, limits) if finding.key not in blind]
        of_rule.sort(key=lambda finding: finding.subject)
        found += [replace(finding, for_ms=rule.for_ms) for finding in of_rule[:FINDINGS_MOST]]
    return found


def held(picture: Picture) -> frozenset[str]:
    """Return the rules, by number, and single alerts, by key, whose evidence cannot be seen now.

    What they found before is not over for that.
    """
    return frozenset(
        {rule.number for rule in RULES if rule.sources & picture.blind}
        | {f"A6|{pipeline}" for pipeline in picture.dark}
    )


def a1_timeout_near(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """Its time left is less than recovery needs, and it is older than its pipeline's transactions usually get.

    Recovery needs checkpoint interval + checkpoint duration + restart delay, from the pipeline's own history. The age
    keeps a pipeline quiet whose timeout is shorter than its recovery (verdict "at risk" says so all the same).
    """
    for one in picture.transactions:
        t, history = one.view, one.pipeline
        if t.deadline_ms is None or t.opened_ms is None or t.timeout_ms is None:
            continue
        left_ms, age_ms = t.deadline_ms - picture.now_ms, max(0, picture.now_ms - t.opened_ms)
        needs_ms = history.recovery_ms if history is not None else limits.foreign_recovery_ms
        usual_ms = history.interval_ms + history.checkpoint_p99_ms if history is not None else t.timeout_ms
        if left_ms >= needs_ms or age_ms < min(usual_ms, t.timeout_ms // 2):
            continue
        decided = t.listing is not None
        left = f"{seconds(left_ms)} left" if left_ms > 0 else "no time left"
        yield Finding(
            rule="A1",
            subject=t.key,
            group=f"A1|{t.pipeline}",
            severity=Severity.CRITICAL if decided else Severity.WARNING,
            summary=f"transaction {t.transaction} has {left} and recovery needs {seconds(needs_ms)}: {_at_timeout(t)}",
            evidence=(
                Evidence(
                    fact=f"open for {seconds(age_ms)} of {seconds(t.timeout_ms)}", source=BROKER, at_ms=t.opened_ms
                ),
                Evidence(fact="the broker aborts it then", source=BROKER, at_ms=t.deadline_ms),
                Evidence(fact=_need(history, needs_ms), source=CHECKPOINTS),
            ),
            about=_about(t),
        )


def a2_commit_overdue(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """In a commit decision that counts, and not committed within the limit."""
    for one in picture.transactions:
        t = one.view
        waits = t.state in (TransactionState.DECIDED, TransactionState.COMMITTING)
        if t.listing is None or not waits or one.judgement.verdict is Verdict.SETTLED:
            continue
        offset, decision = t.listing
        late_ms = picture.now_ms - decision.at_ms
        if late_ms < limits.commit_overdue_ms:
            continue
        fact = f"decision {offset} by {decision.who} lists it to be committed and counts"
        yield Finding(
            rule="A2",
            subject=t.key,
            group=f"A2|{t.pipeline}",
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction} was decided {seconds(late_ms)} ago and is {t.state.value}, not committed: "
                "its rows are invisible, an abort would lose them"
            ),
            evidence=(
                Evidence(fact=fact, source=DECISIONS, at_ms=decision.at_ms),
                Evidence(fact=f"it is {t.state.value}", source=BROKER, at_ms=t.updated_ms),
            ),
            about=_about(t),
        )


def a3_hanging(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """A partition is held open by a transaction that its coordinator does not know: it never ends by itself."""
    for one in picture.hanging:
        fact = f"producer {one.producer_id}, epoch {one.producer_epoch} holds it open; its coordinator knows no such transaction"
        yield Finding(
            rule="A3",
            subject=f"{one.partition}|{one.producer_id}|{one.producer_epoch}",
            group=f"A3|{_topic(one.partition)}",
            severity=Severity.CRITICAL,
            summary=f"partition {one.partition} is held open by producer {one.producer_id} for ever: no timeout will end it",
            evidence=(Evidence(fact=fact, source=PARTITIONS, at_ms=one.since_ms),),
            about={"partition": one.partition},
        )


def a4_blocked_consumers(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """Read_committed consumer groups wait behind an open transaction for longer than the limit."""
    for one in picture.blocked:
        waited_ms = picture.now_ms - one.since_ms
        if not one.groups or waited_ms < limits.blocked_ms:
            continue
        behind = f" behind transaction {one.transaction}" if one.transaction else ""
        hidden = f"{one.hidden:,} records are hidden" if one.hidden is not None else "records are hidden"
        yield Finding(
            rule="A4",
            subject=one.partition,
            group=f"A4|{_topic(one.partition)}",
            severity=Severity.WARNING,
            summary=f"{_count(len(one.groups), 'consumer group')} of {one.partition} blocked for {seconds(waited_ms)}{behind}",
            evidence=(
                Evidence(fact=f"its last stable offset stands still{behind}", source=PARTITIONS, at_ms=one.since_ms),
                Evidence(fact=f"{hidden} from: {', '.join(sorted(one.groups))}", source=PARTITIONS),
            ),
            about={"partition": one.partition} | ({"transaction": one.transaction} if one.transaction else {}),
        )


def a5_repeated_aborts(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """One application had this many transactions aborted within the window; what operators ordered is not counted."""
    by_application: dict[str, list[AbortSeen]] = {}
    for abort in picture.aborts:
        recent = picture.now_ms - abort.at_ms < limits.aborts_window_ms
        if recent and abort.cause is not Cause.OPERATOR:
            by_application.setdefault(abort.application, []).append(abort)
    for application, aborts in by_application.items():
        if len(aborts) < limits.aborts:
            continue
        causes = {cause: sum(abort.cause is cause for abort in aborts) for cause in Cause}
        told = ", ".join(f"{count} by {cause.value}" for cause, count in causes.items() if count)
        newest = max(aborts, key=lambda abort: abort.at_ms)
        yield Finding(
            rule="A5",
            subject=application,
            group=f"A5|{application}",
            severity=Severity.WARNING,
            summary=f"{len(aborts)} transactions of {application} were aborted within {seconds(limits.aborts_window_ms)}",
            evidence=(
                Evidence(fact=f"aborted: {told}", source=BROKER),
                Evidence(fact=f"the newest is {newest.transaction}", source=BROKER, at_ms=newest.at_ms),
            ),
            about={"pipeline": application},
        )


def a6_failing_checkpoints(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """Checkpoints fail again and again, one failed and nobody tries it again, or one runs for far too long."""
    for one in picture.checkpoints:
        history = picture.pipelines.get(one.pipeline)
        trouble = _checkpoint_trouble(one, history, picture.now_ms, limits)
        if trouble is None:
            continue
        completed = Evidence(fact="last completed checkpoint", source=CHECKPOINTS, at_ms=one.completed_ms)
        yield Finding(
            rule="A6",
            subject=one.pipeline,
            group=f"A6|{one.pipeline}",
            severity=Severity.CRITICAL,
            summary=f"checkpoint {one.newest.number} of {one.pipeline} {trouble.fact}: nothing new becomes visible",
            evidence=(trouble, completed) if one.completed_ms is not None else (trouble,),
            about={"pipeline": one.pipeline, "batch": str(one.newest.number)},
        )


def a7_lost(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """Decided, then aborted, and not replayed within the time that recovery of its pipeline needs; of others: lost for good."""
    yield from _lost_by_others(picture)
    for one in picture.transactions:
        t = one.view
        if one.judgement.verdict is not Verdict.LOST:
            continue
        needs_ms = one.pipeline.recovery_ms if one.pipeline is not None else limits.foreign_recovery_ms
        if t.ended_ms is not None and picture.now_ms - t.ended_ms < needs_ms:
            continue
        rows = f" with {t.handle.rows:,} rows" if t.handle is not None else ""
        yield Finding(
            rule="A7",
            subject=t.key,
            group=f"A7|{t.pipeline}",
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction}{rows} was decided and then aborted, and its batch was not replayed within "
                f"{seconds(needs_ms)}: start its pipeline from its checkpoint"
            ),
            evidence=one.judgement.evidence,
            about=_about(t),
        )


def _lost_by_others(picture: Picture) -> Iterator[Finding]:
    for loss in picture.losses:
        pipeline = loss.pipeline or loss.view.pipeline
        yield Finding(
            rule="A7",
            subject=loss.view.key,
            group=f"A7|{pipeline}",
            severity=Severity.WARNING if loss.certainty is Certainty.GUESS else Severity.CRITICAL,
            summary=(
                f"{pipeline} lost the records of transaction {loss.view.transaction} ({loss.certainty.value}): it counts "
                "them as written, and they were aborted: write them again from its input"
            ),
            evidence=(Evidence(fact=loss.why, source=BROKER, at_ms=loss.view.ended_ms),),
            about=_about(loss.view) | {"pipeline": pipeline},
        )


def a8_id_leak(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """An application takes ever new transactional ids: each stays in its coordinator's memory for days."""
    for one in picture.id_leaks:
        yield Finding(
            rule="A8",
            subject=one.application,
            group=f"A8|{one.application}",
            severity=Severity.WARNING,
            summary=f"{one.application} leaks transactional ids: the broker knows {one.ids:,} of them",
            evidence=(Evidence(fact=one.fact, source=BROKER, at_ms=one.since_ms),),
            about={"pipeline": one.application},
        )


def a9_observer_down(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """An observer has not seen its source for longer than the limit."""
    for one in picture.observers:
        if _unseen_ms(one, picture.now_ms) < limits.observer_down_ms:
            continue
        deciding = one.name in DECIDING_OBSERVERS
        without = "no verdict can be trusted" if deciding else "a part of the evidence is missing"
        yield Finding(
            rule="A9",
            subject=one.name,
            group="A9",
            severity=Severity.CRITICAL if deciding else Severity.WARNING,
            summary=f"observer {one.name!r} is {one.state.value}: {without}",
            evidence=(Evidence(fact=one.error or "it does not answer", source=OBSERVERS, at_ms=one.since_ms),),
            about={"observer": one.name},
        )


def a10_one_side_only(picture: Picture, limits: AlertLimits) -> Iterator[Finding]:
    """A batch is finished in one resource manager and missing in another."""
    for one in picture.one_sided:
        done, missing = ", ".join(one.done_in), ", ".join(one.missing_in)
        yield Finding(
            rule="A10",
            subject=f"{one.pipeline}|{one.batch}",
            group=f"A10|{one.pipeline}",
            severity=Severity.CRITICAL,
            summary=f"batch {one.batch} of {one.pipeline} is in {done} and not in {missing}: the two contradict each other",
            evidence=(Evidence(fact=f"done in {done}, missing in {missing}", source=DATABASES, at_ms=one.since_ms),),
            about={"pipeline": one.pipeline, "batch": str(one.batch)},
        )


_T, _D, _C = Source.TRANSACTIONS, Source.DECISIONS, Source.CHECKPOINTS
RULES: tuple[AlertRule, ...] = (
    AlertRule(number="A1", name="timeout near", find=a1_timeout_near, for_ms=0, sources=frozenset({_T})),
    AlertRule(number="A2", name="commit overdue", find=a2_commit_overdue, for_ms=0, sources=frozenset({_T, _D})),
    AlertRule(number="A3", name="hanging", find=a3_hanging, for_ms=10_000, sources=frozenset({Source.PARTITIONS})),
    AlertRule(
        number="A4",
        name="blocked consumers",
        find=a4_blocked_consumers,
        for_ms=0,
        sources=frozenset({Source.PARTITIONS}),
    ),
    AlertRule(number="A5", name="repeated aborts", find=a5_repeated_aborts, for_ms=0, sources=frozenset()),
    AlertRule(number="A6", name="failing checkpoints", find=a6_failing_checkpoints, for_ms=0, sources=frozenset({_C})),
    AlertRule(number="A7", name="lost", find=a7_lost, for_ms=0, sources=frozenset({_D})),
    AlertRule(number="A8", name="id leak", find=a8_id_leak, for_ms=60_000, sources=frozenset({_T})),
    AlertRule(
        number="A9", name="observer down", find=a9_observer_down, for_ms=0, sources=frozenset({Source.OBSERVERS})
    ),
    AlertRule(
        number="A10",
        name="one side only",
        find=a10_one_side_only,
        for_ms=10_000,
        sources=frozenset({_T, _D, Source.DATABASES}),
    ),
)
"""``for_ms`` is 0 where the rule's own limit already waits."""


def _checkpoint_trouble(
    one: CheckpointHistory, history: PipelineHistory | None, now_ms: int, limits: AlertLimits
) -> Evidence | None:
    newest = one.newest
    if newest.state is CheckpointState.COMPLETED or _was_stopped_since(newest.begun_ms or newest.failed_ms, history):
        return None
    if one.failures >= limits.checkpoint_failures:
        fact = f"failed: {one.failures} failures since the last one that completed"
        return Evidence(fact=fact, source=CHECKPOINTS, at_ms=newest.failed_ms)
    if newest.state is CheckpointState.FAILED and newest.failed_ms is not None:
        recovery_ms = history.recovery_ms if history is not None else limits.foreign_recovery_ms
        waited_ms = now_ms - _could_run_from(newest.failed_ms, history)
        if waited_ms < max(recovery_ms, 3 * one.gap_ms):
            return None
        fact = f"failed and was not tried again for {seconds(waited_ms)}"
        return Evidence(fact=fact, source=CHECKPOINTS, at_ms=newest.failed_ms)
    interval_ms = history.interval_ms if history is not None else 0
    usual_ms = 3 * max(interval_ms, one.p99_ms)
    if newest.begun_ms is None:
        return None
    runs_ms = now_ms - _could_run_from(newest.begun_ms, history)
    if runs_ms < max(limits.checkpoint_stalled_ms, usual_ms):
        return None
    fact = f"is not completed after {seconds(runs_ms)}"
    return Evidence(fact=fact, source=CHECKPOINTS, at_ms=newest.begun_ms)


def _was_stopped_since(at_ms: int | None, history: PipelineHistory | None) -> bool:
    """Say whether somebody stopped the pipeline on purpose after that: its last checkpoint waits for the next start."""
    if history is None or at_ms is None or history.facts.stopped_on_request_ms is None:
        return False
    return history.facts.stopped_on_request_ms >= max(at_ms, history.facts.started_ms or 0)


def _could_run_from(at_ms: int, history: PipelineHistory | None) -> int:
    """Return from when on its pipeline could go on with what was begun or failed then: not while it was stopped on request."""
    stopped_ms = history.facts.stopped_on_request_ms if history is not None else None
    if history is None or stopped_ms is None or stopped_ms < at_ms:
        return at_ms
    return max(at_ms, history.facts.started_ms or 0)


def _unseen_ms(one: ObserverStatus, now_ms: int) -> int:
    if one.state is not ObserverState.UP:
        return now_ms - one.since_ms
    return one.delay_ms or 0


def _about(t: TransactionView) -> dict[str, str]:
    batch = {"batch": str(t.about.batch)} if t.about is not None else {}
    return {"pipeline": t.pipeline, "resource_manager": t.resource_manager, "transaction": t.transaction, **batch}


def _at_timeout(t: TransactionView) -> str:
    if t.listing is not None:
        return "it is decided, commit it before the broker aborts it"
    if t.ours:
        return "the broker will abort it, and its batch must be replayed"
    return "the broker will abort it, and only its owner knows what that loses"


def _need(history: PipelineHistory | None, needs_ms: int) -> str:
    if history is None:
        return f"nothing is known of its recovery; {seconds(needs_ms)} are assumed"
    return f"recovery needs {history.recovery_parts}"


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
