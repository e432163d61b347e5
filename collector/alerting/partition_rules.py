"""Alert rules about partitions that an open transaction blocks."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.findings import Finding, Severity
from collector.alerting.snapshot import AlertSnapshot
from collector.config.alerts import AlertSettings
from collector.runtime.time_format import seconds
from lifecycle.verdicts import Evidence

PARTITIONS = "partitions"


def a3_hanging(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """A partition is held open by a transaction that its coordinator does not know: it never ends by itself."""
    for suspect in snapshot.hanging:
        producer, epoch = suspect.producer_id, suspect.producer_epoch
        fact = f"producer {producer}, epoch {epoch} holds it open; its coordinator knows no such transaction"
        yield Finding(
            rule="A3",
            subject=f"{suspect.partition}|{producer}|{epoch}",
            group=f"A3|{_topic(suspect.partition)}",
            severity=Severity.CRITICAL,
            summary=f"partition {suspect.partition} is held open by producer {producer} for ever: no timeout will end it",
            evidence=(Evidence(fact=fact, source=PARTITIONS, at_ms=suspect.since_ms),),
            subject_labels={"partition": suspect.partition},
        )


def a4_blocked_consumers(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """Read_committed consumer groups, or stores that are restored, wait behind an open transaction for longer than the limit."""
    for blocked in snapshot.blocked:
        waited_ms = snapshot.now_ms - blocked.since_ms
        if not blocked.groups or waited_ms < limits.blocked_ms:
            continue
        behind = f" behind transaction {blocked.transaction}" if blocked.transaction else ""
        readers = _count(len(blocked.groups), "reader")
        hidden = f"{blocked.hidden:,} records are hidden" if blocked.hidden is not None else "records are hidden"
        yield Finding(
            rule="A4",
            subject=blocked.partition,
            group=f"A4|{_topic(blocked.partition)}",
            severity=Severity.WARNING,
            summary=f"{readers} of {blocked.partition} blocked for {seconds(waited_ms)}{behind}",
            evidence=(
                Evidence(
                    fact=f"its last stable offset stands still{behind}", source=PARTITIONS, at_ms=blocked.since_ms
                ),
                Evidence(fact=f"{hidden} from: {', '.join(sorted(blocked.groups))}", source=PARTITIONS),
            ),
            subject_labels={"partition": blocked.partition}
            | ({"transaction": blocked.transaction} if blocked.transaction else {}),
        )


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
