"""Alert rules about what the collector reads: observers that are down, a decision log that forgets, checkpoints not read."""

from __future__ import annotations

from collections.abc import Iterator

from collector.assess.findings import SOURCES_GROUP, Finding, Severity
from collector.assess.snapshot import AlertSnapshot
from collector.config.alerts import AlertSettings
from collector.records.observer_kind import DECIDING_OBSERVERS, ObserverKind
from collector.sources.source import ObserverState, ObserverStatus
from collector.verdicts.verdict_case import DECISIONS
from lifecycle import page_paths
from lifecycle.verdicts import Evidence

OBSERVERS = "observers"
UNREAD_NAMED = 10
"""Of the checkpoints in one directory that cannot be read, so many are named: the newest."""


def a9_observer_down(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """An observer has not seen its source for longer than the limit."""
    for observer in snapshot.observers:
        if _unseen_ms(observer, snapshot.now_ms) < limits.observer_down_ms:
            continue
        deciding = observer.kind in DECIDING_OBSERVERS
        without = "no verdict can be trusted" if deciding else "a part of the evidence is missing"
        yield Finding(
            rule="A9",
            subject=observer.name,
            group=SOURCES_GROUP,
            severity=Severity.CRITICAL if deciding else Severity.WARNING,
            summary=f"observer {observer.name!r} is {observer.state.value}: {without}",
            evidence=(
                Evidence(fact=observer.error or "it does not answer", source=OBSERVERS, at_ms=observer.since_ms),
            ),
            subject_labels={"observer": observer.name},
            object_path=page_paths.COLLECTOR,
        )


def a11_finite_log(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """The decision log's topic is finite or compacted: it forgets what still counts, and rows are written twice."""
    settings = snapshot.log_settings
    if settings is None or not settings.wrong:
        return
    yield Finding(
        rule="A11",
        subject=settings.topic,
        group=SOURCES_GROUP,
        severity=Severity.CRITICAL,
        summary=(
            f"the decision log {settings.topic} forgets by itself ({settings.said}): once the start of a run that still lives is "
            f"gone, its decisions read as void and its rows are written twice. Mend it now: {settings.remedy}"
        ),
        evidence=(Evidence(fact=f"its topic has {settings.said}", source=DECISIONS, at_ms=settings.at_ms),),
        subject_labels={"observer": ObserverKind.DECISION_LOG.value},
        object_path=page_paths.COLLECTOR,
    )


def a15_checkpoint_not_read(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """The ``_metadata`` of single checkpoints of Flink cannot be read: one finding for each directory of a job."""
    for found in snapshot.unread_checkpoints:
        newest = sorted(found.unread, key=lambda each: -each.number)
        of = found.pipeline or f"a job in {found.directory}"
        many = len(newest) > 1
        what = f"{len(newest)} checkpoints" if many else f"checkpoint {newest[0].number}"
        yield Finding(
            rule="A15",
            subject=f"{found.observer}|{found.directory}",
            group=SOURCES_GROUP,
            severity=Severity.WARNING,
            summary=f"{what} of {of} cannot be read: which transactions {'they list' if many else 'it lists'} is not known",
            evidence=tuple(
                Evidence(fact=f"{each.path}: {each.why}", source=found.observer, at_ms=each.changed_ms)
                for each in newest[:UNREAD_NAMED]
            ),
            subject_labels={"observer": found.observer} | ({"pipeline": found.pipeline} if found.pipeline else {}),
            object_path=page_paths.COLLECTOR,
        )


def a16_clock_off(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """This machine's clock and one whose times are compared with others' differ by more than a second."""
    for clock in snapshot.clocks:
        if clock.is_off:
            yield Finding(
                rule="A16",
                subject=clock.owner,
                group=SOURCES_GROUP,
                severity=Severity.WARNING,
                summary=f"{clock.fact}: standing orders are held back",
                evidence=(Evidence(fact=clock.fact, source=ObserverKind.CLOCKS.value),),
                subject_labels={"observer": ObserverKind.CLOCKS.value},
                object_path=page_paths.COLLECTOR,
            )


def _unseen_ms(observer: ObserverStatus, now_ms: int) -> int:
    if observer.state is not ObserverState.UP:
        return now_ms - observer.since_ms
    return observer.delay_ms or 0
