"""Alert rules about partitions that an open transaction blocks."""

from __future__ import annotations

from collections.abc import Iterator

from collector.assess.findings import Finding, Severity, application_group, topic_group
from collector.assess.remedies import remedy_of
from collector.assess.rules.transactions import batch_of
from collector.assess.snapshot import AlertSnapshot, HangingTransaction
from collector.config.alerts import AlertSettings
from collector.runtime.time_format import seconds
from lifecycle import page_paths
from lifecycle.counted_nouns import counted
from lifecycle.rows.attention import Remedy
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
            group=application_group(suspect.application)
            if suspect.application
            else topic_group(_topic(suspect.partition)),
            severity=Severity.CRITICAL,
            summary=f"partition {suspect.partition} is held open by producer {producer} for ever: no timeout will end it",
            evidence=(Evidence(fact=fact, source=PARTITIONS, at_ms=suspect.since_ms),),
            subject_labels={"partition": suspect.partition}
            | ({"pipeline": suspect.application} if suspect.application else {}),
            remedy=_remedy_of_hanging(suspect),
            object_path=_path(suspect.partition),
        )


def a4_blocked_consumers(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """Read_committed consumer groups, or stores that are restored, wait behind an open transaction for longer than the limit.

    It is shown with that transaction's batch or application: what ends the transaction ends the wait.
    """
    named = {blocked.transaction for blocked in snapshot.blocked}
    holders = {
        j.view.transaction: j for j in snapshot.transactions if j.view.transaction in named and j.view.is_running
    }
    for blocked in snapshot.blocked:
        waited_ms = snapshot.now_ms - blocked.since_ms
        if not blocked.groups or waited_ms < limits.blocked_ms:
            continue
        holder = holders.get(blocked.transaction)
        behind = f" behind transaction {blocked.transaction}" if blocked.transaction else ""
        readers = counted(len(blocked.groups), "reader")
        records = counted(blocked.hidden, "record") if blocked.hidden is not None else "records"
        hidden = f"{records} {'is' if blocked.hidden == 1 else 'are'} hidden"
        yield Finding(
            rule="A4",
            subject=blocked.partition,
            group=application_group(holder.view.pipeline)
            if holder is not None
            else topic_group(_topic(blocked.partition)),
            batch_group=batch_of(holder.view) if holder is not None else "",
            severity=Severity.WARNING,
            summary=f"{readers} of {blocked.partition} blocked for {seconds(waited_ms)}{behind}",
            evidence=(
                Evidence(
                    fact=f"its last stable offset stands still{behind}", source=PARTITIONS, at_ms=blocked.since_ms
                ),
                Evidence(fact=f"{hidden} from: {', '.join(sorted(blocked.groups))}", source=PARTITIONS),
            ),
            subject_labels={"partition": blocked.partition}
            | ({"transaction": blocked.transaction} if blocked.transaction else {})
            | ({"pipeline": holder.view.pipeline} if holder is not None else {}),
            remedy=remedy_of(holder, snapshot.now_ms) if holder is not None else Remedy.OPEN,
            object_path=_path(blocked.partition),
        )


def _remedy_of_hanging(suspect: HangingTransaction) -> Remedy:
    if suspect.may_commit:
        return Remedy.COMMIT
    return Remedy.ABORT if suspect.may_abort else Remedy.OPEN


def _path(partition: str) -> str:
    topic, _, number = partition.rpartition("-")
    return page_paths.partition(topic, int(number))


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]
