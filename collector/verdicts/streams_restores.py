"""Which stores of Kafka Streams applications are restored from a changelog that an open transaction holds back. No I/O.

A restore reads its changelog with a consumer that is in no group, up to the last stable offset: nothing at the broker names it.
The topic's name does, and the application's consumer group tells whether anybody is there to restore.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from indoubt.collector.records.application_ids import StreamsId
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.verdicts.blocked_readers import NO_GROUP
from indoubt.collector.verdicts.partition_state import Holder, PartitionTracker
from indoubt.collector.verdicts.read_process_write import owner_in_group
from indoubt.collector.verdicts.streams_topics import changelog_of, is_changelog
from indoubt.resource_managers.kafka.group_members import GroupMembers
from indoubt.resource_managers.kafka.partitions import Partition


def find_restores(
    tracker: PartitionTracker,
    open_: Collection[BrokerTransaction],
    group_states: Mapping[str, str],
    members: Mapping[str, GroupMembers],
    at_ms: int,
) -> None:
    """Note in ``tracker`` which held changelogs are restored from, and forget the others.

    ``group_states``: every consumer group with Kafka's word for its state. ``members``: of the applications with an open
    transaction. While the process that has the transaction open is in its group, it has the store itself: nobody restores it.
    """
    changelogs = [partition for partition in tracker.hiding() if is_changelog(partition[0])]
    # Thousands may be open, and mostly no changelog is held back.
    parsed = (StreamsId.parse(transaction.identity.transaction) for transaction in (open_ if changelogs else ()))
    applications = {streams.application for streams in parsed if streams is not None} | group_states.keys()
    restored: list[Partition] = []
    for partition in tracker.held(changelogs):
        holder = tracker.holder(partition)
        owner = StreamsId.parse(holder.transaction) if holder is not None else None
        named = changelog_of(partition[0], applications, owner.application if owner is not None else "")
        if named is None or _has_its_owner(holder, owner, members):
            continue
        application, store = named
        tracker.saw_restore(partition, application, store, group_states.get(application, NO_GROUP), at_ms)
        restored.append(partition)
    tracker.keep_only_restores(restored)


def _has_its_owner(holder: Holder | None, owner: StreamsId | None, members: Mapping[str, GroupMembers]) -> bool:
    if holder is None or owner is None or holder.opened_ms is None:
        return False
    found = owner_in_group(owner, members.get(owner.application), holder.opened_ms)
    return found is not None and found.lives is True
