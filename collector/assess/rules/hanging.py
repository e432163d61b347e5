"""The rule about transactions that hang: no coordinator knows of them, so no timeout ends them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from indoubt.collector.assess.findings import Finding, Severity, application_group
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.verdicts.hanging_transactions import partition_name
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.verdicts import Evidence

PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A producer holds ``partition`` open and its coordinator knows of no such transaction (KIP-664).

    ``application``: its name; ``is_named``: its transactional id tells it, else only its producer is known. ``may_commit`` and
    ``may_abort`` say which marker an order may write.
    """

    partition: str
    producer_id: int
    producer_epoch: int
    since_ms: int
    application: str
    is_named: bool = False
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
            application=applications[suspect.key].name,
            is_named=bool(suspect.doubt.transaction),
            may_commit=suspect.doubt.may_commit,
            may_abort=suspect.doubt.may_abort,
        )
        for suspect in findings.hanging
    )


def hanging(situation: Situation) -> tuple[HangingTransaction, ...]:
    """Return what hangs, with the names of its applications."""
    return hanging_transactions(situation.partitions, situation.applications)


def a3_hanging(situation: Situation) -> Iterator[Finding]:
    """A partition is held open by a transaction that its coordinator does not know: it never ends by itself."""
    for suspect in situation.read(hanging):
        producer, epoch = suspect.producer_id, suspect.producer_epoch
        fact = f"producer {producer}, epoch {epoch} holds it open; its coordinator knows no such transaction"
        yield Finding(
            subject=f"{suspect.partition}|{producer}|{epoch}",
            group=application_group(suspect.application),
            severity=Severity.CRITICAL,
            summary=f"producer {producer} holds partition {suspect.partition} open for ever: no timeout ends it",
            evidence=(Evidence(fact, PARTITIONS, suspect.since_ms),),
            subject_labels={"partition": suspect.partition}
            | ({"pipeline": suspect.application} if suspect.is_named else {}),
            remedy=_remedy_of_hanging(suspect),
            object_path=path_of(suspect.partition),
        )


def _remedy_of_hanging(suspect: HangingTransaction) -> Remedy:
    if suspect.may_commit:
        return Remedy.COMMIT
    return Remedy.ABORT if suspect.may_abort else Remedy.OPEN


def path_of(partition: str) -> str:
    """Return the page of a partition."""
    topic, _, number = partition.rpartition("-")
    return page_paths.partition(topic, int(number))


def topic_of(partition: str) -> str:
    """Return the topic of a partition."""
    return partition.rpartition("-")[0]


A3 = Rule(
    number="A3",
    name="hanging",
    find=a3_hanging,
    consequence="Readers of the partition wait for ever: no timeout ends it.",
    sources=(Source.PARTITIONS,),
    for_ms=10_000,
)
