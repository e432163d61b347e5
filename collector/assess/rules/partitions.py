"""Rules about partitions that an open transaction blocks: one that hangs, and readers that wait for too long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from collector.assess.findings import Finding, Severity, application_group, batch_of, topic_group
from collector.assess.remedies import remedy_of
from collector.assess.rule import (
    Place,
    Rule,
    Source,
    hanging_partitions,
    held_by_application,
    held_partitions,
    open_ids,
)
from collector.assess.situation import Situation
from collector.runtime.time_format import seconds
from collector.verdicts.hanging_transactions import partition_name
from collector.verdicts.partition_state import PartitionFindings
from collector.views.application_names import applications_of_hanging
from lifecycle import page_paths
from lifecycle.application import Application
from lifecycle.counted_nouns import counted
from lifecycle.rows.alerts import AlertRow
from lifecycle.rows.attention import Attention, AttentionKind, Remedy
from lifecycle.verdicts import Evidence

PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A producer holds ``partition`` open and its coordinator knows of no such transaction (KIP-664).

    ``application`` is empty where its transactional id is not known. ``may_commit`` and ``may_abort`` say which marker an
    order may write.
    """

    partition: str
    producer_id: int
    producer_epoch: int
    since_ms: int
    application: str = ""
    may_commit: bool = False
    may_abort: bool = False


def hanging_transactions(
    findings: PartitionFindings, applications: Mapping[str, Application]
) -> tuple[HangingTransaction, ...]:
    """Return the proven ones; ``applications``: by their keys."""
    return tuple(
        HangingTransaction(
            partition=partition_name(suspect.producer.partition),
            producer_id=suspect.producer.producer_id,
            producer_epoch=suspect.producer.producer_epoch,
            since_ms=suspect.since_ms,
            application=applications[suspect.key].name if suspect.doubt.transaction else "",
            may_commit=suspect.doubt.may_commit,
            may_abort=suspect.doubt.may_abort,
        )
        for suspect in findings.hanging
    )


def hanging(situation: Situation) -> tuple[HangingTransaction, ...]:
    """Return what hangs, with the names of its applications."""
    with situation.current.reading() as state:
        applications = applications_of_hanging(state, situation.partitions.hanging)
    return hanging_transactions(situation.partitions, applications)


def a3_hanging(situation: Situation) -> Iterator[Finding]:
    """A partition is held open by a transaction that its coordinator does not know: it never ends by itself."""
    for suspect in situation.read(hanging):
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


def _remedy_of_hanging(suspect: HangingTransaction) -> Remedy:
    if suspect.may_commit:
        return Remedy.COMMIT
    return Remedy.ABORT if suspect.may_abort else Remedy.OPEN


def _hanging_place(alert: AlertRow) -> Iterable[Place]:
    return ((hanging_partitions, alert.labels.get("partition", "")),)


A3 = Rule(
    number="A3",
    name="hanging",
    find=a3_hanging,
    consequence="Readers of the partition wait for ever: no timeout ends it.",
    sources=(Source.PARTITIONS,),
    for_ms=10_000,
    places=_hanging_place,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """Read_committed consumer ``groups`` wait on ``partition`` behind an open transaction; ``hidden`` records they may not see."""

    partition: str
    since_ms: int
    groups: tuple[str, ...]
    hidden: int | None = None
    transaction: str = ""


def blocked_partitions(findings: PartitionFindings) -> tuple[BlockedPartition, ...]:
    """Return the partitions on which groups with members or restores of theirs wait, since the first of them did.

    A group without members may be abandoned, and its application stopped: neither raises an alert.
    """
    found: list[BlockedPartition] = []
    for blocked in findings.blocked:
        waiting = [reader for reader in blocked.waiting if not reader.is_without_members]
        if waiting:
            found.append(
                BlockedPartition(
                    partition=partition_name(blocked.snapshot.partition),
                    since_ms=min(reader.since_ms for reader in waiting),
                    groups=tuple(reader.group for reader in waiting),
                    hidden=blocked.snapshot.hidden,
                    transaction=blocked.holder.transaction if blocked.holder is not None else "",
                )
            )
    return tuple(found)


def blocked_readers(situation: Situation) -> tuple[BlockedPartition, ...]:
    """Return the partitions on which somebody waits."""
    return blocked_partitions(situation.partitions)


def a4_blocked_consumers(situation: Situation) -> Iterator[Finding]:
    """Read_committed consumer groups, or stores that are restored, wait behind an open transaction for longer than the limit.

    It is shown with that transaction's batch or application: what ends the transaction ends the wait.
    """
    waits = situation.read(blocked_readers)
    named = {blocked.transaction for blocked in waits}
    holders = {j.view.transaction: j for j in situation.judged if j.view.transaction in named and j.view.is_running}
    for blocked in waits:
        waited_ms = situation.now_ms - blocked.since_ms
        if not blocked.groups or waited_ms < situation.limits.blocked_ms:
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
            remedy=remedy_of(holder, situation.now_ms) if holder is not None else Remedy.OPEN,
            object_path=_path(blocked.partition),
        )


def _blocked_places(alert: AlertRow) -> Iterable[Place]:
    """Return the place of what holds the partition: the transaction's, its application's, or the one of those who wait."""
    partition, transaction = alert.labels.get("partition", ""), alert.labels.get("transaction")
    pipeline = alert.labels.get("pipeline")
    if transaction:
        yield open_ids, transaction
    if pipeline:
        yield held_by_application, f"{pipeline}|{partition}"
    yield (_readers if transaction or pipeline else held_partitions), partition


def _readers(card: Attention) -> Collection[str]:
    return held_partitions(card) if card.kind is AttentionKind.READERS else ()


def _path(partition: str) -> str:
    topic, _, number = partition.rpartition("-")
    return page_paths.partition(topic, int(number))


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


A4 = Rule(
    number="A4",
    name="blocked consumers",
    find=a4_blocked_consumers,
    consequence="These readers see nothing new until the transaction ends.",
    sources=(Source.PARTITIONS,),
    places=_blocked_places,
)
