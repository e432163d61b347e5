"""Where records are in partitions: by open transaction (DescribeProducers, KIP-664) and by time (ListOffsets). Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.consumer.offsets import OffsetSpec
from kafka.structs import TopicPartition

from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.wire import wire

V = TypeVar("V")
UNREACHABLE = (kafka_errors.KafkaConnectionError, kafka_errors.KafkaTimeoutError, kafka_errors.NodeNotReadyError)


class KafkaRecordOffsets:
    """Thread-safe: it keeps no state but how to reach the cluster. Partitions are named ``topic-number``."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def transaction_starts(self, partitions: Collection[str]) -> dict[str, dict[int, int]]:
        """Return, by partition, producer id -> first offset of its open transaction; partitions that do not answer are left out.

        Raises Unreachable.
        """

        def ask(wanted: list[TopicPartition]) -> dict[TopicPartition, dict[int, int]]:
            answer = wire(self._connection).admin.describe_producers(wanted)
            return {at: _open(state) for at, state in answer.items()}

        return self._each([_parsed(name) for name in partitions], ask)

    def at_times(self, wanted: Mapping[str, int]) -> dict[str, int | None]:
        """Return the offset of each partition's first record at or after a time (epoch ms); None: there is none.

        Partitions that do not answer are left out. Raises Unreachable.
        """
        times = {_parsed(name): at_ms for name, at_ms in wanted.items()}

        def ask(partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
            answer = wire(self._connection).admin.list_partition_offsets({at: times[at] for at in partitions})
            return {at: _offset(found) for at, found in answer.items()}

        return self._each(list(times), ask)

    def ends(self, partitions: Collection[str]) -> dict[str, int | None]:
        """Return each partition's high watermark; partitions that do not answer are left out. Raises Unreachable."""

        def ask(partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
            answer = wire(self._connection).admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            return {at: _offset(found) for at, found in answer.items()}

        return self._each([_parsed(name) for name in partitions], ask)

    def _each(
        self, partitions: list[TopicPartition], ask: Callable[[list[TopicPartition]], dict[TopicPartition, V]]
    ) -> dict[str, V]:
        """Ask about all at once, and where one of them fails about each alone: a deleted topic hides no other."""
        if not partitions:
            return {}
        try:
            return {_name(at): found for at, found in ask(partitions).items()}
        except UNREACHABLE as error:
            raise Unreachable(f"no broker of {self._connection.bootstrap_servers} returned offsets: {error}") from None
        except kafka_errors.KafkaError as error:
            if len(partitions) == 1:
                return {}
            if isinstance(error, kafka_errors.ClusterAuthorizationFailedError):
                raise ResourceManagerError(f"offsets of transactions may not be asked for: {error}") from None
        found: dict[str, V] = {}
        for partition in partitions:
            found |= self._each([partition], ask)
        return found


def _open(state: Any) -> dict[int, int]:
    starts = ((p.producer_id, p.current_transaction_start_offset) for p in state.active_producers)
    return {producer_id: start for producer_id, start in starts if start >= 0}


def _offset(found: Any) -> int | None:
    return int(found.offset) if found is not None and found.offset >= 0 else None


def _parsed(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _name(at: TopicPartition) -> str:
    return f"{at.topic}-{at.partition}"
