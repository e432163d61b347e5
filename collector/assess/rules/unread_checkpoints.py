"""The rule about single checkpoints of Flink that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collector.assess.findings import SOURCES_GROUP, Finding, Severity
from collector.assess.rule import Rule, Source
from collector.assess.situation import Situation
from collector.records.formats.flink_records import UnreadCheckpoint
from collector.records.observer_kind import ObserverKind
from collector.sources.source import ObserverState
from lifecycle import page_paths
from lifecycle.verdicts import Evidence

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


A15 = Rule(
    number="A15",
    name="checkpoint not read",
    find=a15_checkpoint_not_read,
    consequence="Whether its transactions are to be committed is not known, and their timeouts abort them.",
    sources=(Source.OBSERVERS,),
    for_ms=15_000,
)
