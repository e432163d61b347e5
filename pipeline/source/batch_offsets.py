"""What a micro-batch reads: where it ends in each partition, and which task reads which partitions.

Both depend on offsets and settings alone. Offsets stand in Spark's offset log before a batch runs, so a batch that is run
again has the same tasks with the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from indoubt.resource_managers.kafka.reading.offset_range import OffsetRange

if TYPE_CHECKING:
    from indoubt.resource_managers.kafka.partitions import Partition

Offsets = Mapping[str, Mapping[str, int]]
"""As Spark's Kafka source writes them: an offset by topic, and in it by the partition's number."""


def by_partition(offsets: Offsets) -> dict[Partition, int]:
    """Return what ``by_topic`` wrote."""
    return {(topic, int(number)): offset for topic, found in offsets.items() for number, offset in found.items()}


def by_topic(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Return the offsets as they stand in Spark's offset log."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def bounded(starts: Mapping[Partition, int], ends: Mapping[Partition, int], most: int) -> dict[Partition, int]:
    """Return ends with about ``most`` records before them in all, each partition with its share of what there is.

    A partition that has records gets at least one. One without a start is new: it is read from offset 0. None goes back, as
    the end does that a leader tells which was just elected.
    """
    sizes = {partition: max(0, end - starts.get(partition, 0)) for partition, end in ends.items()}
    total = max(1, sum(sizes.values()))
    shares = {partition: min(size, max(1, size * most // total)) for partition, size in sizes.items()}
    return {partition: starts.get(partition, 0) + share for partition, share in shares.items()}


def divided(start: Offsets, end: Offsets, tasks: int, task_records: int) -> list[list[OffsetRange]]:
    """Return what each task reads: one for each ``task_records``, up to ``tasks``, each with partitions of its own.

    The largest partitions are dealt out first, each to the task that has least.
    """
    begun = by_partition(start)
    ranges = [
        OffsetRange(topic=topic, partition=number, start=begun.get((topic, number), 0), end=offset)
        for (topic, number), offset in by_partition(end).items()
        if offset > begun.get((topic, number), 0)
    ]
    count = min(tasks, len(ranges), -(-sum(part.size for part in ranges) // task_records))
    found: list[list[OffsetRange]] = [[] for _ in range(count)]
    sizes = [0] * count
    for part in sorted(ranges, key=lambda part: (-part.size, part.topic, part.partition)):
        task = sizes.index(min(sizes))
        found[task].append(part)
        sizes[task] += part.size
    return found
