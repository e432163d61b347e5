"""Asks who is in a consumer group, and whose offsets a transaction holds. It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest

from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.group_members import GroupMembers, HeldOffsets
from indoubt.resource_managers.kafka.partitions import (
    Answers,
    KafkaPartitions,
    Layout,
    Partition,
    of_groups,
)


def members(connection: KafkaConnection, groups: Collection[str], at_ms: int) -> Answers[str, GroupMembers]:
    """Return the members of each group; ``at_ms``: now. One request per coordinator and 100 groups."""

    def read(row: Any) -> GroupMembers:
        return GroupMembers(
            group=row.group_id,
            state=row.group_state,
            client_ids=frozenset(member.client_id for member in row.members),
            at_ms=at_ms,
            count=len(row.members),
            is_simple=not row.protocol_type,
        )

    # Version 6 answers an unknown group with an error; to 5 it is Dead.
    return of_groups(connection, groups, lambda names: DescribeGroupsRequest(groups=names, max_version=5), read)


def offsets_partition(group: str, count: int) -> int:
    """Return the partition of ``__consumer_offsets``, of ``count``, that keeps a group's offsets (``partitionFor``)."""
    hashed = 0
    units = group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed) % count


def kept_groups(groups: Iterable[str], numbers: Container[int], count: int) -> dict[str, int]:
    """Return the groups whose offsets are kept in these partitions of ``__consumer_offsets``, with the partition's number."""
    return {group: number for group in groups if (number := offsets_partition(group, count)) in numbers}


def held_offsets(
    connection: KafkaConnection,
    layout: Layout,
    held: Mapping[int, Collection[Partition]],
    kept_in: Mapping[str, int],
    before: Mapping[int, HeldOffsets],
    at_ms: int,
) -> Answers[int, HeldOffsets]:
    """Return whose offsets are held on these partitions of ``__consumer_offsets``; one of which not all is known has no answer.

    ``held``: number -> every partition that the transactions hold which hold it. ``kept_in``: all groups kept there, with the
    number. ``before``: the last answers. ``at_ms``: now.
    """
    brokers = KafkaPartitions(connection, "")
    # Whose offsets first, then who has a transaction open there: one that ended in between is no stranger then.
    unstable = brokers.groups_with_held_offsets(kept_in)
    present = members(connection, [group for group, is_held in unstable.found.items() if is_held], at_ms)
    partitions = {(CONSUMER_OFFSETS, number) for number in held}.union(*held.values())
    producers = brokers.open_producers(partitions & layout.leaders.keys(), layout)
    failed = {kept_in[group]: answer for group, answer in (unstable.failed | present.failed).items()}
    for number, others in held.items():
        for partition in ((CONSUMER_OFFSETS, number), *others):
            if partition in producers.failed:
                failed[number] = producers.failed[partition]
    found: dict[int, HeldOffsets] = {}
    for number, others in held.items():
        if number in failed or (CONSUMER_OFFSETS, number) not in producers.found:
            continue
        opened = {(each.producer_id, each.producer_epoch) for each in producers.found[(CONSUMER_OFFSETS, number)]}
        seen = HeldOffsets(
            producers=frozenset(opened),
            groups=tuple(present.found[group] for group in sorted(present.found) if kept_in[group] == number),
            written=frozenset(
                (f"{each.partition[0]}-{each.partition[1]}", each.start_offset, each.last_timestamp_ms)
                for partition in others
                for each in producers.found.get(partition, ())
                if (each.producer_id, each.producer_epoch) in opened
            ),
            since_ms=at_ms,
            at_ms=at_ms,
        )
        found[number] = seen.following(before.get(number))
    return Answers(found=found, failed=failed)
