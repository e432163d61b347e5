"""Rules about what the collector reads: observers that are down, a decision log that forgets, clocks that differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.assess.findings import SOURCES_GROUP, Finding, Severity
from collector.assess.rule import Place, Rule, Source
from collector.assess.rule import observers as observers_of_cards
from collector.assess.situation import Situation
from collector.records.log_settings import LogSettings
from collector.records.observer_kind import DECIDING_OBSERVERS, ObserverKind
from collector.runtime.clock_offsets import ClockOffset
from collector.sources.source import ObserverState, ObserverStatus
from collector.verdicts.verdict_case import DECISIONS
from lifecycle import page_paths
from lifecycle.rows.alerts import AlertRow
from lifecycle.verdicts import Evidence

OBSERVERS = "observers"


def a9_observer_down(situation: Situation) -> Iterator[Finding]:
    """An observer has not seen its source for longer than the limit."""
    for observer in situation.observers:
        if (
            observer.state is ObserverState.ABSENT
            or _unseen_ms(observer, situation.now_ms) < situation.limits.observer_down_ms
        ):
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


def _unseen_ms(observer: ObserverStatus, now_ms: int) -> int:
    if observer.state is not ObserverState.UP:
        return now_ms - observer.since_ms
    return observer.delay_ms or 0


def _place(alert: AlertRow) -> Iterable[Place]:
    return ((observers_of_cards, alert.subject),)


A9 = Rule(
    number="A9",
    name="observer down",
    find=a9_observer_down,
    consequence="What the collector shows rests on a part of the evidence.",
    sources=(Source.OBSERVERS,),
    places=_place,
)


def log_settings(situation: Situation) -> LogSettings | None:
    """Return the configuration of the decision log's topic, None until it was read."""
    return situation.current.log_settings


def a11_finite_log(situation: Situation) -> Iterator[Finding]:
    """The decision log's topic is finite or compacted: it forgets what still counts, and rows are written twice."""
    settings = situation.read(log_settings)
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


# Without a source: it also fires about a log that is unreadable for this very reason.
A11 = Rule(
    number="A11",
    name="finite log",
    find=a11_finite_log,
    consequence="The log forgets decisions that still count, and their rows are written twice.",
)


def clocks(situation: Situation) -> Sequence[ClockOffset]:
    """Return how far the clocks are off."""
    return situation.current.clocks.all()


def a16_clock_off(situation: Situation) -> Iterator[Finding]:
    """This machine's clock and one whose times are compared with others' differ by more than a second."""
    for clock in situation.read(clocks):
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


A16 = Rule(
    number="A16",
    name="clock off",
    find=a16_clock_off,
    consequence="Standing orders act on nothing while it lasts.",
    for_ms=5_000,
)
