"""What alert rules see of partitions: who waits, and what hangs."""

from __future__ import annotations

from collections.abc import Mapping

from collector.assess.snapshot import BlockedPartition, HangingTransaction
from collector.verdicts.hanging_transactions import partition_name
from collector.verdicts.partition_state import PartitionFindings
from lifecycle.application import Application


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
