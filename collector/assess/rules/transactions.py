"""Alert rules about transactions, the batches they belong to, and their ids."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from collector.assess.findings import MAX_FINDINGS, Finding, Severity, application_group, batch_group
from collector.assess.remedies import remedy_of, remedy_of_pipeline
from collector.assess.snapshot import AbortSeen, AlertSnapshot
from collector.config.alerts import AlertSettings
from collector.records.facts import KAFKA
from collector.runtime.time_format import seconds
from collector.state.transaction_view import TransactionView
from collector.verdicts.data_loss import Loss, LossVerdict
from collector.verdicts.judging import Judged
from collector.verdicts.restarts import PERSON_MS
from collector.verdicts.verdict_case import BROKER, CHECKPOINTS, DECISIONS, PipelineHistory
from lifecycle import page_paths
from lifecycle.counted_nouns import counted
from lifecycle.states import TransactionState
from lifecycle.verdicts import AbortCause, Certainty, Evidence, Verdict

DATABASES = "databases"


def a1_timeout_near(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """Its time left is less than recovery, or a person, needs, and it is older than its pipeline's transactions usually get.

    Recovery needs what the longest measured restart of the pipeline took. The age keeps a pipeline quiet whose timeout is
    shorter than that: page Timeouts says so.
    """
    near = [judged for judged in snapshot.transactions if _is_near(judged, snapshot.now_ms, limits)]
    # None is made that is then cut.
    for judged in heapq.nsmallest(MAX_FINDINGS, near, key=lambda judged: judged.view.key):
        yield _near(judged, _recovery_ms(judged.pipeline, limits), snapshot.now_ms)


def _is_near(judged: Judged, now_ms: int, limits: AlertSettings) -> bool:
    t, history = judged.view, judged.pipeline
    if t.deadline_ms is None or t.opened_ms is None or t.timeout_ms is None:
        return False
    needs_ms = max(_recovery_ms(history, limits), _person_ms(t.timeout_ms))
    least_age_ms = history.usual_age_ms(t.timeout_ms) if history is not None else t.timeout_ms // 2
    return t.deadline_ms - now_ms < needs_ms and max(0, now_ms - t.opened_ms) >= least_age_ms


def _recovery_ms(history: PipelineHistory | None, limits: AlertSettings) -> int:
    return history.recovery_ms if history is not None else limits.foreign_recovery_ms


def _person_ms(timeout_ms: int) -> int:
    return min(timeout_ms // 2, PERSON_MS)


def _near(judged: Judged, needs_ms: int, now_ms: int) -> Finding:
    t = judged.view
    left_ms = (t.deadline_ms or 0) - now_ms
    left = f"{seconds(left_ms)} left" if left_ms > 0 else "no time left"
    person_ms = _person_ms(t.timeout_ms or 0)
    needs = f"recovery needs {seconds(needs_ms)}" if needs_ms >= person_ms else f"a person needs {seconds(person_ms)}"
    return Finding(
        rule="A1",
        subject=t.key,
        group=application_group(t.pipeline),
        batch_group=batch_of(t),
        severity=Severity.CRITICAL if t.listing is not None else Severity.WARNING,
        summary=f"transaction {t.transaction} has {left} and {needs}: {_at_timeout(judged)}",
        evidence=(
            Evidence(fact=f"opened with a timeout of {seconds(t.timeout_ms or 0)}", source=BROKER, at_ms=t.opened_ms),
            Evidence(fact="the broker aborts it then", source=BROKER, at_ms=t.deadline_ms),
            Evidence(fact=_need(judged.pipeline, needs_ms), source=CHECKPOINTS),
        ),
        subject_labels=_labels(t),
        remedy=remedy_of(judged, now_ms),
        object_path=page_paths.transaction(t.key),
    )


def a2_commit_overdue(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """Not committed within the limit although a commit decision counts that lists it; of Flink: its verdict is "commit it"."""
    yield from _commits_of_flink(snapshot)
    for judged in snapshot.transactions:
        t = judged.view
        # Most have no decision: what costs least is asked first.
        if t.listing is None or judged.judgement.verdict is Verdict.SETTLED:
            continue
        if t.state not in (TransactionState.DECIDED, TransactionState.COMMITTING):
            continue
        offset, decision = t.listing
        late_ms = snapshot.now_ms - decision.at_ms
        if late_ms < limits.commit_overdue_ms:
            continue
        fact = f"decision {offset} by {decision.who} lists it to be committed and counts"
        yield Finding(
            rule="A2",
            subject=t.key,
            group=application_group(t.pipeline),
            batch_group=batch_of(t),
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction} was decided {seconds(late_ms)} ago and is not committed: "
                "its rows are invisible, an abort would lose them"
            ),
            evidence=(
                Evidence(fact=fact, source=DECISIONS, at_ms=decision.at_ms),
                Evidence(fact=f"it is {t.state.value}", source=BROKER, at_ms=t.updated_ms),
            ),
            subject_labels=_labels(t),
            remedy=remedy_of(judged, snapshot.now_ms),
            object_path=page_paths.transaction(t.key),
        )


def _commits_of_flink(snapshot: AlertSnapshot) -> Iterator[Finding]:
    """Fires at once: the verdict has waited already, and in Kafka the broker's timeout loses the rows for good."""
    for judged in snapshot.transactions:
        t = judged.view
        if judged.judgement.verdict is not Verdict.COMMIT_IT or t.ours:
            continue
        condition = judged.judgement.commit_confirmation
        checkpoint = f"Flink checkpoint {condition}" if condition else "a Flink checkpoint that counts"
        yield Finding(
            rule="A2",
            subject=t.key,
            group=application_group(t.pipeline),
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction} belongs to {checkpoint} and is not committed: {_uncommitted(t, snapshot.now_ms)}. "
                f"Commit it{f', if its job goes on from {condition} or a later one' if condition else ''}"
            ),
            evidence=judged.judgement.evidence,
            subject_labels=_labels(t),
            remedy=remedy_of(judged, snapshot.now_ms),
            object_path=page_paths.transaction(t.key),
        )


def _uncommitted(t: TransactionView, now_ms: int) -> str:
    """Return what it means that a foreign transaction stays open."""
    if t.resource_manager != KAFKA:
        return "its rows are invisible, and it keeps its locks until it is ended"
    left = f" in {seconds(max(0, t.deadline_ms - now_ms))}" if t.deadline_ms is not None else ""
    return f"the broker's timeout loses its rows{left}"


def a5_repeated_aborts(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """One application had this many transactions aborted within the window; what operators ordered is not counted."""
    by_application: dict[str, list[AbortSeen]] = {}
    for abort in snapshot.aborts:
        recent = snapshot.now_ms - abort.at_ms < limits.aborts_window_ms
        if recent and abort.cause is not AbortCause.OPERATOR:
            by_application.setdefault(abort.application, []).append(abort)
    for application, aborts in by_application.items():
        if len(aborts) < limits.aborts:
            continue
        causes = {cause: sum(abort.cause is cause for abort in aborts) for cause in AbortCause}
        by_cause = ", ".join(f"{count} by {cause.value}" for cause, count in causes.items() if count)
        newest = max(aborts, key=lambda abort: abort.at_ms)
        yield Finding(
            rule="A5",
            subject=application,
            group=application_group(application),
            severity=Severity.WARNING,
            summary=(
                f"{counted(len(aborts), 'transaction')} of {application} {'was' if len(aborts) == 1 else 'were'} aborted "
                f"within {seconds(limits.aborts_window_ms)}"
            ),
            evidence=(
                Evidence(fact=f"aborted: {by_cause}", source=BROKER),
                Evidence(fact=f"the newest is {newest.transaction}", source=BROKER, at_ms=newest.at_ms),
            ),
            subject_labels={"pipeline": application},
            object_path=page_paths.pipeline(application),
        )


def a7_lost(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """Decided, then aborted, and not replayed within the time that recovery of its pipeline needs; of others: lost for good."""
    yield from _lost_by_others(snapshot)
    for judged in snapshot.transactions:
        t = judged.view
        if judged.judgement.verdict is not Verdict.LOST:
            continue
        needs_ms = _recovery_ms(judged.pipeline, limits)
        if t.ended_ms is not None and snapshot.now_ms - t.ended_ms < needs_ms:
            continue
        rows = f" with {counted(t.handle.rows, 'row')}" if t.handle is not None else ""
        yield Finding(
            rule="A7",
            subject=t.key,
            group=application_group(t.pipeline),
            batch_group=batch_of(t),
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction}{rows} was decided and then aborted, and its batch was not replayed within "
                f"{seconds(needs_ms)}: start its pipeline from its checkpoint"
            ),
            evidence=judged.judgement.evidence,
            subject_labels=_labels(t),
            remedy=remedy_of(judged, snapshot.now_ms),
            object_path=page_paths.transaction(t.key),
        )


def _lost_by_others(snapshot: AlertSnapshot) -> Iterator[Finding]:
    for loss in snapshot.losses:
        if loss.verdict is LossVerdict.LOST:
            severity = Severity.WARNING if loss.certainty is Certainty.GUESS else Severity.CRITICAL
            yield _of_loss(
                loss,
                "A7",
                severity,
                f"lost the records of transaction {loss.view.transaction} ({loss.certainty.value}): it counts them as written, "
                "and they were aborted: write them again from its input",
            )


def a12_duplicated(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """A job was set back to before a committed transaction: its rows are written a second time."""
    for loss in snapshot.losses:
        if loss.verdict is LossVerdict.DUPLICATED:
            severity = Severity.CRITICAL if loss.certainty is Certainty.CERTAIN else Severity.WARNING
            yield _of_loss(
                loss,
                "A12",
                severity,
                f"writes the records of transaction {loss.view.transaction} a second time ({loss.certainty.value}): it was "
                "committed, and the job was restored from a checkpoint before it",
            )


def _of_loss(loss: Loss, rule: str, severity: Severity, what: str) -> Finding:
    """Return what a rule finds of an ended transaction; ``what`` it says of its application."""
    pipeline = loss.view.pipeline
    return Finding(
        rule=rule,
        subject=loss.view.key,
        group=application_group(pipeline),
        severity=severity,
        summary=f"{pipeline} {what}",
        evidence=(Evidence(fact=loss.why, source=BROKER, at_ms=loss.view.ended_ms),),
        subject_labels=_labels(loss.view) | {"pipeline": pipeline},
        object_path=page_paths.transaction(loss.view.key),
    )


def a8_id_leak(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """An application takes ever new transactional ids: each stays in its coordinator's memory for days."""
    for leak in snapshot.id_leaks:
        yield Finding(
            rule="A8",
            subject=leak.application,
            group=application_group(leak.application),
            severity=Severity.WARNING,
            summary=f"{leak.application} leaks transactional ids: the broker knows {leak.ids:,} of them",
            evidence=(Evidence(fact=leak.fact, source=BROKER, at_ms=leak.since_ms),),
            subject_labels={"pipeline": leak.application},
            object_path=page_paths.pipeline(leak.application),
        )


def a10_one_side_only(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """A batch is finished in one resource manager and missing in another."""
    for batch in snapshot.one_sided:
        done, missing = ", ".join(batch.done_in), ", ".join(batch.missing_in)
        yield Finding(
            rule="A10",
            subject=f"{batch.pipeline}|{batch.batch}",
            group=application_group(batch.pipeline),
            batch_group=batch_group(batch.pipeline, batch.batch),
            severity=Severity.CRITICAL,
            summary=f"batch {batch.batch} of {batch.pipeline} is in {done} and not in {missing}: the two contradict each other",
            evidence=(Evidence(fact=f"done in {done}, missing in {missing}", source=DATABASES, at_ms=batch.since_ms),),
            subject_labels={"pipeline": batch.pipeline, "batch": str(batch.batch)},
            remedy=remedy_of_pipeline(snapshot.pipelines.get(batch.pipeline), snapshot.now_ms),
            object_path=page_paths.batch(batch.pipeline, batch.batch),
        )


def batch_of(t: TransactionView) -> str:
    """Return the group of a transaction's batch, empty where it belongs to none."""
    return batch_group(t.pipeline, t.batch_attempt.batch) if t.batch_attempt is not None else ""


def _labels(t: TransactionView) -> dict[str, str]:
    batch = {"batch": str(t.batch_attempt.batch)} if t.batch_attempt is not None else {}
    return {"pipeline": t.pipeline, "resource_manager": t.resource_manager, "transaction": t.transaction, **batch}


def _at_timeout(judged: Judged) -> str:
    t = judged.view
    if t.listing is not None:
        return "it is decided, commit it before the broker aborts it"
    if t.ours:
        return "the broker will abort it, and its batch must be replayed"
    match judged.judgement.verdict:
        case Verdict.COMMIT_IT:
            return "commit it before the broker aborts it, which loses its rows"
        case Verdict.ABORT_IT:
            return "the broker will abort it, and nothing is lost"
        case _:
            return "the broker will abort it, and only its owner knows what that loses"


def _need(history: PipelineHistory | None, needs_ms: int) -> str:
    if history is None:
        return f"nothing is known of its recovery; {seconds(needs_ms)} are assumed"
    return f"recovery needs {seconds(needs_ms)} ({history.recovery_parts})"
