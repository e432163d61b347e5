"""Watches how far a consumer is behind the ends of partitions, and notices those that it has ceased to read without an error.

librdkafka 2.16.0 does so in rare cases after a broker left the cluster (docs/brokers.md), for ever and in silence.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

ASK_EVERY_S = 5.0
ANSWER_LIMIT_S = 1.0
"""Short, because librdkafka's ListOffsets keeps a core busy while a partition's leader is gone: 4.9 s of 5.0 s, measured."""
STALLED_AFTER_S = 10.0
"""How long a partition with unread records has not moved before it counts as stalled. A fetch takes far less."""


class StalledPartitions:
    """Watches one consumer of one topic; ``isolation`` is the consumer's. For one thread."""

    def __init__(
        self, admin: AdminClient, topic: str, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> None:
        self._admin, self._topic, self._isolation = admin, topic, isolation
        self._asked: dict[TopicPartition, Future[ListOffsetsResultInfo]] = {}
        self._ask_s = time.monotonic() + ASK_EVERY_S
        self._behind: dict[int, tuple[int, float]] = {}
        """Partition -> the offset that was to be read next when records were there, and when that was first seen."""
        self._ends: dict[int, int] = {}
        self._ends_before: dict[int, int] = {}
        """Partition -> its end by the last answer, and by the one before: ``ASK_EVERY_S`` ago at least."""

    def look(self, read_to: Mapping[int, int]) -> None:
        """Ask for the ends when it is time; does not wait for answers.

        ``read_to``: partition -> the offset behind what was read, the end where it was reached.
        """
        now_s = time.monotonic()
        if not self._asked and now_s >= self._ask_s:
            self._ask(list(read_to), now_s)
        elif self._asked and all(answer.done() for answer in self._asked.values()):
            ends = _ends_of(self._asked)
            self._note(ends, read_to, now_s)
            self._ends_before, self._ends = self._ends, self._ends | ends
            self._asked = {}

    def is_behind(self, read_to: Mapping[int, int]) -> bool:
        """Say whether records are unread that were there ``ASK_EVERY_S`` ago."""
        return any(at < self._ends_before.get(partition, at) for partition, at in read_to.items())

    def found(self, read_to: Mapping[int, int]) -> list[int]:
        """Look, and return the partitions that are stalled, in order; each counts anew from now on.

        Call it when no record waits in the consumer: a partition is not stalled while its records are behind those of others.
        """
        self.look(read_to)
        now_s = time.monotonic()
        stalled = sorted(
            partition
            for partition, (at, since_s) in self._behind.items()
            if read_to.get(partition) == at and now_s - since_s > STALLED_AFTER_S
        )
        if stalled:
            self._behind = {}
        return stalled

    def _ask(self, partitions: list[int], now_s: float) -> None:
        self._ask_s = now_s + ASK_EVERY_S
        if not partitions:
            return
        wanted = {TopicPartition(self._topic, partition): OffsetSpec.latest() for partition in partitions}
        self._asked = self._admin.list_offsets(wanted, isolation_level=self._isolation, request_timeout=ANSWER_LIMIT_S)

    def _note(self, ends: Mapping[int, int], read_to: Mapping[int, int], now_s: float) -> None:
        behind: dict[int, tuple[int, float]] = {}
        for partition, at in read_to.items():
            known = self._behind.get(partition)
            is_known = known is not None and known[0] == at
            # Without an answer what was known stays: a broker that is away must not hide what another one's partition does.
            if ends[partition] > at if partition in ends else is_known:
                behind[partition] = known if known is not None and is_known else (at, now_s)
        self._behind = behind


def _ends_of(answers: Mapping[TopicPartition, Future[ListOffsetsResultInfo]]) -> dict[int, int]:
    """Return partition -> end of those that were answered."""
    ends: dict[int, int] = {}
    for partition, answer in answers.items():
        try:
            ends[partition.partition] = answer.result().offset
        except KafkaException:
            continue
    return ends
