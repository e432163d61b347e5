"""Rules about applications whose transactions are aborted again and again, or that use ever new ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from indoubt.collector.assess.findings import Finding, Severity, application_group
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts import abort_causes
from indoubt.collector.verdicts.abort_causes import AbortClues
from indoubt.collector.verdicts.verdict_case import BROKER
from indoubt.collector.views import aborts_and_losses
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import IdsRow
from indoubt.lifecycle.verdicts import AbortCause, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortSeen:
    """A transaction of one application (a pipeline's prefix, or a foreign transactional id) was aborted."""

    application: str
    transaction: str
    at_ms: int
    cause: AbortCause


def aborts(situation: Situation) -> Sequence[AbortSeen]:
    """Return the aborts within the window, with their causes."""
    since_ms = situation.now_ms - situation.limits.aborts_window_ms
    return recent_aborts(aborts_and_losses.abort_clues(situation.current, since_ms)[0], since_ms)


def recent_aborts(clues: Iterable[AbortClues], since_ms: int) -> list[AbortSeen]:
    """Return the aborts since then, with their causes."""
    return [
        AbortSeen(
            application=clue.view.pipeline,
            transaction=clue.view.transaction,
            at_ms=ended_ms,
            cause=abort_causes.explain(clue).cause,
        )
        for clue in clues
        if (ended_ms := clue.view.ended_ms) is not None and ended_ms > since_ms
    ]


def a5_repeated_aborts(situation: Situation) -> Iterator[Finding]:
    """One application had this many transactions aborted within the window; what operators ordered is not counted."""
    limits = situation.limits
    by_application: dict[str, list[AbortSeen]] = {}
    for abort in situation.read(aborts):
        recent = situation.now_ms - abort.at_ms < limits.aborts_window_ms
        if recent and abort.cause is not AbortCause.OPERATOR:
            by_application.setdefault(abort.application, []).append(abort)
    for application, of_it in by_application.items():
        if len(of_it) < limits.aborts:
            continue
        causes = {cause: sum(abort.cause is cause for abort in of_it) for cause in AbortCause}
        by_cause = ", ".join(f"{count} by {cause.value}" for cause, count in causes.items() if count)
        newest = max(of_it, key=lambda abort: abort.at_ms)
        yield Finding(
            subject=application,
            group=application_group(application),
            severity=Severity.WARNING,
            summary=(
                f"{counted(len(of_it), 'transaction')} of {application} {'was' if len(of_it) == 1 else 'were'} aborted "
                f"within {seconds(limits.aborts_window_ms)}"
            ),
            evidence=(
                Evidence(f"aborted: {by_cause}", BROKER),
                Evidence(f"the newest is {newest.transaction}", BROKER, newest.at_ms),
            ),
            subject_labels={"pipeline": application},
            object_path=page_paths.pipeline(application),
        )


A5 = Rule(
    number="A5",
    name="repeated aborts",
    find=a5_repeated_aborts,
    consequence="The same rows are written again and again, and readers wait for them.",
)


def id_leaks(situation: Situation) -> Sequence[IdsRow]:
    """Return the applications that take ever new transactional ids."""
    return [report for report in aborts_and_losses.id_reports(situation.current, fences=False) if report.leaks]


def a8_id_leak(situation: Situation) -> Iterator[Finding]:
    """An application takes ever new transactional ids: each stays in its coordinator's memory for days."""
    for leak in situation.read(id_leaks):
        yield Finding(
            subject=leak.prefix,
            group=application_group(leak.prefix),
            severity=Severity.WARNING,
            summary=f"{leak.prefix} leaks transactional ids: the broker knows {leak.ids:,} of them",
            evidence=(Evidence(leak.why, BROKER, leak.oldest_at_ms),),
            subject_labels={"pipeline": leak.prefix},
            object_path=page_paths.pipeline(leak.prefix),
        )


A8 = Rule(
    number="A8",
    name="id leak",
    find=a8_id_leak,
    consequence="Each id stays in a broker's memory for days: brokers run out of memory.",
    sources=(Source.TRANSACTIONS,),
    for_ms=60_000,
)
