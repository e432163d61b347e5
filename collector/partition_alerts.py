"""What alert rules see of partitions: who waits, and what hangs."""

from __future__ import annotations

from collector.alert_inputs import BlockedPartition, HangingTransaction
from collector.hanging import partition_name
from collector.partition_sights import PartitionPicture


def blocked_partitions(picture: PartitionPicture) -> tuple[BlockedPartition, ...]:
    """Return the partitions on which groups with members wait, since the first of them did.

    A group without members may have been given up long ago: nobody is to be called for it.
    """
    found: list[BlockedPartition] = []
    for one in picture.blocked:
        waiting = [reader for reader in one.waiting if not reader.is_without_members]
        if waiting:
            found.append(
                BlockedPartition(
                    partition=partition_name(one.sight.partition),
                    since_ms=min(reader.since_ms for reader in waiting),
                    groups=tuple(reader.group for reader in waiting),
                    hidden=one.sight.hidden,
                    transaction=one.holder.transaction if one.holder is not None else "",
                )
            )
    return tuple(found)


def hanging_transactions(picture: PartitionPicture) -> tuple[HangingTransaction, ...]:
    """Return the proven ones."""
    return tuple(
        HangingTransaction(
            partition=partition_name(one.producer.partition),
            producer_id=one.producer.producer_id,
            producer_epoch=one.producer.producer_epoch,
            since_ms=one.since_ms,
        )
        for one in picture.hanging
    )
