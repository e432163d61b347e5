"""Rules about what the collector reads: a decision log that forgets, clocks that differ, checkpoints not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from indoubt.collector.assess.findings import SOURCES_GROUP, Finding, Severity
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.observe.source import ObserverState
from indoubt.collector.records.formats.flink_records import UnreadCheckpoint
from indoubt.collector.records.log_settings import LogSettings
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import ClockOffset
from indoubt.collector.verdicts.verdict_case import DECISIONS
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.verdicts import Evidence


def log_settings(situation: Situation) -> LogSettings | None:
    """Return the configuration of the decision log's topic, None until it was read."""
    return situation.current.log_settings


def a11_finite_log(situation: Situation) -> Iterator[Finding]:
    """The decision log's topic is finite or compacted: it forgets what still counts, and rows are written twice."""
    settings = situation.read(log_settings)
    if settings is None or not settings.wrong:
        return
    yield Finding(
        subject=settings.topic,
        group=SOURCES_GROUP,
        severity=Severity.CRITICAL,
        summary=(
            f"topic {settings.topic} deletes old decisions ({settings.said}). Once the start of a live run is deleted, its "
            f"decisions no longer count, and its rows are written twice. Mend it now: {settings.remedy}"
        ),
        evidence=(Evidence(f"its topic has {settings.said}", DECISIONS, settings.at_ms),),
        subject_labels={"observer": ObserverKind.DECISION_LOG.value},
        object_path=page_paths.COLLECTOR,
    )


# Without a source: it also fires about a log that is unreadable for this very reason.
A11 = Rule(
    number="A11",
    name="finite log",
    find=a11_finite_log,
    consequence="The topic deletes decisions that still count: their rows are written twice.",
)


def clocks(situation: Situation) -> Sequence[ClockOffset]:
    """Return how far the clocks are off."""
    return situation.current.clocks.all()


def a16_clock_off(situation: Situation) -> Iterator[Finding]:
    """This machine's clock and one whose times are compared with others' differ by more than a second."""
    for clock in situation.read(clocks):
        if clock.is_off:
            yield Finding(
                subject=clock.owner,
                group=SOURCES_GROUP,
                severity=Severity.WARNING,
                summary=f"{clock.fact}: standing orders are held back",
                evidence=(Evidence(clock.fact, ObserverKind.CLOCKS.value),),
                subject_labels={"observer": ObserverKind.CLOCKS.value},
                object_path=page_paths.COLLECTOR,
            )


A16 = Rule(
    number="A16",
    name="clock off",
    find=a16_clock_off,
    consequence="Standing orders do nothing until it is mended.",
    for_ms=5_000,
)


UNREAD_NAMED = 10
"""Of the checkpoints in one directory that cannot be read, so many are named: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCheckpoints:
    """Checkpoints of Flink in one directory whose ``_metadata`` cannot be read, by path.

    ``observer``: that reads them; ``pipeline``: their job's name, empty where it is not known or they are several jobs'.
    """

    observer: str
    directory: str
    pipeline: str
    unread: tuple[UnreadCheckpoint, ...]


def unread_checkpoints(situation: Situation) -> tuple[UnreadCheckpoints, ...]:
    """Return the checkpoints of Flink that cannot be read and that no later one has replaced, by the directory they lie in."""
    found: dict[tuple[str, str], list[tuple[UnreadCheckpoint, str]]] = {}
    for observer in situation.observers:
        if observer.kind is ObserverKind.FLINK_CHECKPOINTS and observer.state is not ObserverState.ABSENT:
            for unread, pipeline in situation.current.flink.unread_checkpoints(observer.instance):
                directory = unread.path.rstrip("/").rpartition("/")[0]
                found.setdefault((observer.name, directory), []).append((unread, pipeline))
    return tuple(
        UnreadCheckpoints(
            observer=observer,
            directory=directory,
            pipeline=of_it[0][1] if len({pipeline for _, pipeline in of_it}) == 1 else "",
            unread=tuple(unread for unread, _ in of_it),
        )
        for (observer, directory), of_it in found.items()
    )


def a15_checkpoint_not_read(situation: Situation) -> Iterator[Finding]:
    """The ``_metadata`` of single checkpoints of Flink cannot be read: one finding for each directory of a job."""
    for found in situation.read(unread_checkpoints):
        newest = sorted(found.unread, key=lambda each: -each.number)
        of = found.pipeline or f"a job in {found.directory}"
        many = len(newest) > 1
        what = f"{len(newest)} checkpoints" if many else f"checkpoint {newest[0].number}"
        yield Finding(
            subject=f"{found.observer}|{found.directory}",
            group=SOURCES_GROUP,
            severity=Severity.WARNING,
            summary=f"{what} of {of} cannot be read: which transactions {'they list' if many else 'it lists'} is not known",
            evidence=tuple(
                Evidence(f"{each.path}: {each.why}", found.observer, each.changed_ms) for each in newest[:UNREAD_NAMED]
            ),
            subject_labels={"observer": found.observer} | ({"pipeline": found.pipeline} if found.pipeline else {}),
            object_path=page_paths.COLLECTOR,
        )


A15 = Rule(
    number="A15",
    name="checkpoint not read",
    find=a15_checkpoint_not_read,
    consequence="It is not known whether to commit its transactions, and their timeouts abort them.",
    sources=(Source.OBSERVERS,),
    for_ms=15_000,
)
