"""The rule about what Iceberg's sinks for Kafka Connect have written: not in its table, left out of it, or there twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from indoubt.collector.assess.findings import Finding, Severity, application_group
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.records.iceberg_connect import ConnectSeen, Place, Placed, coordinator_group
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.verdicts import Certainty, Evidence

NAMED = 10
"""Of the writes of one connector to one table so many are evidence: the newest."""
COORDINATORS = "coordinators"
_SEVERITY = {
    Place.LEFT: Severity.WARNING,
    Place.PASSED: Severity.CRITICAL,
    Place.TWICE: Severity.CRITICAL,
}


def iceberg_connect(situation: Situation) -> Mapping[str, ConnectSeen]:
    """Return what was seen of connectors, by their control topic."""
    return situation.current.iceberg_connect


def a18_connect_commits(situation: Situation) -> Iterator[Finding]:
    """Files that a sink for Kafka Connect wrote are not in the table, or twice; or a connector has several coordinators."""
    for topic, seen in situation.read(iceberg_connect).items():
        found: dict[tuple[str, str, Place], list[Placed]] = {}
        for each in seen.placed:
            if each.place in _SEVERITY:
                event = each.written.event
                found.setdefault((event.group, event.table, each.place), []).append(each)
        for (group, table, place), every in found.items():
            yield _of_writes(topic, group, table, place, every, seen)
        for group, coordinators in seen.coordinators.items():
            if coordinators > 1:
                yield Finding(
                    subject=_subject(topic, group, COORDINATORS),
                    group=application_group(group),
                    severity=Severity.WARNING,
                    summary=f"{group} has {coordinators} coordinators: each may add the same files to a table, or leave some out",
                    evidence=(_members(topic, group, coordinators, seen.at_ms),),
                    subject_labels={"pipeline": group},
                )


def unseen(situation: Situation) -> frozenset[str]:
    """Return the subjects whose table or group could not be asked now."""
    return frozenset(
        _subject(topic, group, table, place.name)
        for topic, seen in situation.read(iceberg_connect).items()
        for group, table in seen.unasked
        for place in _SEVERITY
    )


def _of_writes(topic: str, group: str, table: str, place: Place, every: Sequence[Placed], seen: ConnectSeen) -> Finding:
    rows = sum(each.written.event.rows for each in every)
    files = sum(len(each.written.event.files) for each in every)
    sure = Certainty.CERTAIN if all(each.certainty is Certainty.CERTAIN for each in every) else Certainty.LIKELY
    evidence = [
        Evidence(
            (
                f"commit {each.written.event.commit}: {counted(len(each.written.event.files), 'file')} with "
                f"{counted(each.written.event.rows, 'row')}, the first of them {min(each.written.event.files)}; {each.why}"
            ),
            f"{topic}-{each.written.partition}@{each.written.offset}",
            each.written.event.at_ms,
        )
        for each in sorted(every, key=lambda each: -each.written.event.at_ms)[:NAMED]
    ]
    coordinators = seen.coordinators.get(group, 0)
    if coordinators > 1:
        evidence.append(_members(topic, group, coordinators, seen.at_ms))
    return Finding(
        subject=_subject(topic, group, table, place.name),
        group=application_group(group),
        severity=_SEVERITY[place],
        summary=(
            f"{group} wrote {counted(files, 'file')} with {counted(rows, 'row')} for {table}: {place.value} ({sure.value})"
        ),
        evidence=tuple(evidence),
        subject_labels={"pipeline": group},
    )


def _members(topic: str, group: str, coordinators: int, at_ms: int) -> Evidence:
    return Evidence(
        f"group {coordinator_group(group)}, which reads {topic}, has {coordinators} members: a healthy connector has one",
        coordinator_group(group),
        at_ms,
    )


def _subject(*parts: str) -> str:
    return "|".join(parts)


A18 = Rule(
    number="A18",
    name="connect commits",
    find=a18_connect_commits,
    consequence="Rows that Kafka counts as read are missing in the table, or are there twice.",
    sources=(Source.CONTROL_TOPICS,),
    for_ms=60_000,
    unseen=unseen,
)
