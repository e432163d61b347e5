"""Notices partitions that a librdkafka consumer has ceased to read without an error.

When a broker leaves the cluster while librdkafka checks a partition's offset there (OffsetForLeaderEpoch, KIP-320), the check
ends with the broker's handle, and the partition stays in ``validate-epoch-wait``, for ever and in silence. Seen with librdkafka
2.16.0 when one of two brokers is killed (docs/brokers.md).
"""

from __future__ import annotations

import json
from typing import Any

STATISTICS_MS = 2_000
LATER = 3
"""In so many statistics in a row a partition is not read before it counts as stalled."""
_READ = "active"


class StalledPartitions:
    """What one consumer does not read though it should: by the statistics that librdkafka gives at poll() and consume().

    A partition counts that has a leader, and that is assigned to no broker or is not in the state in which records are fetched.
    """

    def __init__(self) -> None:
        self._for: dict[tuple[str, int], int] = {}

    def properties(self) -> dict[str, Any]:
        """Return what the consumer must be configured with."""
        return {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self.note}

    def note(self, statistics: str) -> None:
        """Take in one statistics object of librdkafka: JSON, topics.<name>.partitions.<number>."""
        self._for = {
            (topic, int(number)): self._for.get((topic, int(number)), 0) + 1
            for topic, of_topic in json.loads(statistics)["topics"].items()
            for number, partition in of_topic["partitions"].items()
            if _is_unread(partition)
        }

    def found(self) -> list[tuple[str, int]]:
        """Return (topic, partition) of each that is stalled; they count anew from now on."""
        stalled = sorted(partition for partition, times in self._for.items() if times >= LATER)
        if stalled:
            self._for = {}
        return stalled


def _is_unread(partition: dict[str, Any]) -> bool:
    if not partition["desired"] or partition["leader"] < 0:
        return False
    return bool(partition["broker"] < 0 or partition["fetch_state"] != _READ)
