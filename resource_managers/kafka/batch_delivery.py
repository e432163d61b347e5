"""Delivers batches: in order for each partition, several on their way, again where a broker's answer may pass.

Everything else fails the task: nothing of its transaction is decided then, and Spark writes the batch again. But for the
guarantee none, of which a batch that may have reached its broker is not sent again: it is lost, and the log says so.
"""

from __future__ import annotations

import logging
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import errors as kafka_errors

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import MissingTopic, RecordTooLarge, ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer, answer_of
from indoubt.resource_managers.kafka.batch_builder import Batch
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.producer_requests import ProduceBatches, ProducerRequests
from indoubt.resource_managers.kafka.record_batch import Producer
from indoubt.resource_managers.kafka.wire import wire

log = logging.getLogger(__name__)

REQUESTS_IN_FLIGHT = 5
"""Per broker. A broker remembers the last five batches of a producer: more could not be told from new ones when sent again."""
REQUEST_BYTES = 1 << 20
REQUEST_LIMIT_MS = 20_000
QUEUED_BYTES = 32 << 20
"""Beyond this much that is not acknowledged, more rows wait."""
RETRY = Backoff(first_s=0.02, max_s=0.5)
_ACKNOWLEDGED_BEFORE = kafka_errors.DuplicateSequenceNumberError.__name__
_OUT_OF_ORDER = kafka_errors.OutOfOrderSequenceNumberError.__name__
_TOO_LARGE = (kafka_errors.MessageSizeTooLargeError.__name__, kafka_errors.RecordListTooLargeError.__name__)
_NOT_SENT = kafka_errors.NodeNotReadyError.__name__
_UNVERIFIED = kafka_errors.InvalidTxnStateError.__name__
UNVERIFIED_TRIES = 5
"""How often a partition's first batch is sent again where the broker could not see that the transaction has the partition."""
_UNKNOWN_TOPIC = kafka_errors.UnknownTopicOrPartitionError.__name__


@dataclass(slots=True)
class _Partition:
    """A partition's batches: to be sent, on their way, come back to be sent again when all on their way have come back.

    The first one goes alone: a broker that knows nothing of a producer takes whatever sequence number it sees first, so a
    second batch would be taken where the first was refused because the leader was not ready.
    """

    waiting: deque[Batch] = field(default_factory=deque)
    sent: list[Batch] = field(default_factory=list)
    returned: list[Batch] = field(default_factory=list)
    acknowledged: bool = False
    tries: int = 0
    unverified: int = 0
    not_before_s: float = -math.inf

    @property
    def may_send(self) -> bool:
        is_free = self.acknowledged or not self.sent
        return bool(self.waiting) and is_free and not self.returned and self.not_before_s <= time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """A request has come back. ``response``: the broker's, or a BrokerAnswer where there is none."""

    node: int
    batches: Sequence[Batch]
    response: Any


class BatchDelivery:
    """Sends the batches of one producer. Not thread-safe: answers are taken where more is given, and in ``flush``."""

    def __init__(self, requests: ProducerRequests, topic: str, producer: Producer, leaders: Mapping[int, int]) -> None:
        self._requests, self._topic, self._producer = requests, topic, producer
        self._leaders = dict(leaders)
        self._partitions: dict[int, _Partition] = {}
        self._added: set[int] = set()
        self._in_flight: dict[int, int] = {}
        self._answers: queue.SimpleQueue[_Answered] = queue.SimpleQueue()
        self._queued_bytes = 0
        self._asks_for_leaders = False
        self._asked_at_s = -math.inf

    def give(self, batch: Batch) -> None:
        """Queue a batch and send what may go; waits while too much is queued. Raises as ``flush``."""
        batch.given_at_s = time.monotonic()
        self._partitions.setdefault(batch.partition, _Partition()).waiting.append(batch)
        self._queued_bytes += batch.size
        self._deliver(lambda: self._queued_bytes <= QUEUED_BYTES)

    def flush(self) -> None:
        """Return when every batch is acknowledged.

        Raises Fenced, RecordTooLarge, MissingTopic, Unreachable after the limit, ResourceManagerError.
        """
        self._deliver(lambda: self._queued_bytes == 0)

    def drop(self, limit_s: float) -> None:
        """Send nothing more, and wait for the answers to what is on its way: no request may come after the abort."""
        for partition in self._partitions.values():
            partition.waiting.clear()
        deadline = time.monotonic() + limit_s
        while any(self._in_flight.values()) and (left_s := deadline - time.monotonic()) > 0:
            try:
                self._in_flight[self._answers.get(timeout=left_s).node] -= 1
            except queue.Empty:
                return

    def _deliver(self, is_enough: Callable[[], bool]) -> None:
        while True:
            while not self._answers.empty():
                self._take(self._answers.get())
            self._send_what_may_go()
            if is_enough():
                return
            try:
                self._take(self._answers.get(timeout=self._pause_s()))
            except queue.Empty:
                self._require_in_time()

    def _pause_s(self) -> float:
        """Return how long nothing but an answer can change anything."""
        now = time.monotonic()
        pauses = [p.not_before_s - now for p in self._partitions.values() if p.waiting and not p.returned]
        return max(0.001, min([RETRY.max_s, *(pause for pause in pauses if pause > 0)]))

    def _send_what_may_go(self) -> None:
        if self._asks_for_leaders and time.monotonic() - self._asked_at_s > RETRY.first_s:
            self._ask_for_leaders()
        ready = [number for number, partition in self._partitions.items() if partition.may_send]
        new = [number for number in ready if number not in self._added]
        if new and self._producer.is_transactional:
            self._requests.add_partitions(self._producer, self._topic, new)
            self._added.update(new)
        by_node: dict[int, list[int]] = {}
        for number in ready:
            by_node.setdefault(self._leaders.get(number, -1), []).append(number)
        if by_node.pop(-1, None):
            self._asks_for_leaders = True
        for node, numbers in by_node.items():
            while self._in_flight.get(node, 0) < REQUESTS_IN_FLIGHT and (batches := self._next(numbers)):
                self._send(node, batches)

    def _next(self, numbers: Sequence[int]) -> list[Batch]:
        """Return what the next request takes: a batch of each partition, as far as there is room."""
        found: list[Batch] = []
        room = REQUEST_BYTES
        for number in numbers:
            partition = self._partitions[number]
            if not partition.may_send or (found and partition.waiting[0].size > room):
                continue
            batch = partition.waiting.popleft()
            partition.sent.append(batch)
            found.append(batch)
            room -= batch.size
        return found

    def _send(self, node: int, batches: Sequence[Batch]) -> None:
        request = ProduceBatches(self._requests.transactional_id, self._topic, batches)
        self._in_flight[node] = self._in_flight.get(node, 0) + 1

        def answered(response: Any) -> None:
            self._answers.put(_Answered(node=node, batches=batches, response=response))

        wire(self._requests.connection).post(node, request, REQUEST_LIMIT_MS, answered)

    def _take(self, answered: _Answered) -> None:
        self._in_flight[answered.node] -= 1
        response = answered.response
        rows = {}
        if not isinstance(response, BrokerAnswer):
            rows = {row.index: row for topic in response.responses for row in topic.partition_responses}
        for batch in answered.batches:
            answer = response if isinstance(response, BrokerAnswer) else answer_of(rows.get(batch.partition))
            self._take_one(batch, answer)

    def _take_one(self, batch: Batch, answer: BrokerAnswer) -> None:
        partition = self._partitions[batch.partition]
        partition.sent.remove(batch)
        if answer.is_done or answer.name == _ACKNOWLEDGED_BEFORE:
            self._queued_bytes -= batch.size
            partition.acknowledged, partition.tries = True, 0
        elif self._may_pass(partition, answer):
            if time.monotonic() - batch.given_at_s > CALL_LIMIT_S:
                raise self._failure(answer)
            partition.returned.append(batch)
            self._asks_for_leaders = True
        elif self._producer.producer_id < 0:
            self._queued_bytes -= batch.size
            lost = "%d rows may be missing in topic %r, which the guarantee none allows: %s"
            log.warning(lost, batch.count, self._topic, answer)
        else:
            raise self._failure(answer)
        if partition.returned and not partition.sent:
            partition.waiting.extendleft(sorted(partition.returned, key=lambda b: b.number, reverse=True))
            partition.returned.clear()
            partition.not_before_s = time.monotonic() + RETRY.pause_s(partition.tries)
            partition.tries += 1

    def _may_pass(self, partition: _Partition, answer: BrokerAnswer) -> bool:
        if self._producer.producer_id < 0:
            # Without a producer id a broker does not know what it has written: only what it has not is sent again.
            return answer.kind is AnswerKind.LEADER_MOVED or answer.name == _NOT_SENT
        if answer.name == _OUT_OF_ORDER:
            # Behind one that has come back: it was refused because that one is missing.
            return bool(partition.returned)
        if answer.name == _UNVERIFIED:
            # Kafka 3.6 asks the coordinator at a partition's first batch, and forgets to where the broker became the
            # partition's leader in the middle of the request. The refusal precedes the append, so nothing is written, and
            # the same batch is checked again: it is taken once or not at all. Later it means that the transaction has ended.
            partition.unverified += 1
            return not partition.acknowledged and partition.unverified <= UNVERIFIED_TRIES
        return answer.may_pass

    def _ask_for_leaders(self) -> None:
        self._asked_at_s = time.monotonic()
        try:
            layout = KafkaPartitions(self._requests.connection, "").layout([self._topic])
        except Unreachable:
            # The next answer, or the limit, says so.
            return
        self._leaders = {partition: node for (_, partition), node in layout.leaders.items()}
        self._asks_for_leaders = bool(layout.leaderless)

    def _require_in_time(self) -> None:
        now = time.monotonic()
        oldest = [batch.given_at_s for p in self._partitions.values() for batch in (*p.waiting, *p.sent, *p.returned)]
        if oldest and now - min(oldest) > CALL_LIMIT_S:
            left = sum(len(p.waiting) + len(p.sent) + len(p.returned) for p in self._partitions.values())
            raise Unreachable(
                f"{self._requests.prefix}{left} batches for topic {self._topic!r} were not taken by the brokers in "
                f"{CALL_LIMIT_S:.0f} s"
            )

    def _failure(self, answer: BrokerAnswer) -> ResourceManagerError:
        topic = f"{self._requests.prefix}topic {self._topic!r}"
        if answer.name in _TOO_LARGE:
            return RecordTooLarge(
                f"{topic} refused a batch of records: {answer}; raise its max.message.bytes, or give a smaller batch.size in "
                "producer_properties"
            )
        if answer.name == _UNKNOWN_TOPIC:
            return MissingTopic(f"{topic} does not exist: create it, or name another sink")
        return self._requests.failure(f"not every record was delivered to {self._topic!r}", answer)
