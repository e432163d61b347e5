"""The broker requests that no public client offers, pipelined: the one place that touches kafka-python's internals.

Everything answers with an error class per item (``kafka.errors.NoError`` = done) instead of raising, so that one bad id
never hides the answers of the others.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, CoordinatorType
from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest, WriteTxnMarkersRequest

from lifecycle.errors import Unreachable
from resource_managers.kafka.connection import RECONNECT_WITHIN_MS, KafkaConnection

IN_FLIGHT = 200
REQUEST_LIMIT_MS = 10_000
BOOTSTRAP_LIMIT_MS = 15_000
ErrorClass = type[Exception]
END_TXN, END_TXN_WITHOUT_EPOCHS = 5, 4
"""Versions of EndTxn: with 5 the epoch moves up at each end (KIP-890), with 4 it stays."""
FEATURES_KEPT_S = 30.0
FEATURES_LIMIT_MS = 3_000

_COORDINATOR_MOVED = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
_wires: dict[tuple[int, KafkaConnection], KafkaWire] = {}
_wires_lock = threading.Lock()


def wire(connection: KafkaConnection) -> KafkaWire:
    """Return this process's wire to the cluster: made once, because a new admin client costs 50-100 ms."""
    key = (os.getpid(), connection)
    with _wires_lock:
        if key not in _wires:
            _wires[key] = KafkaWire(connection)
        return _wires[key]


class KafkaWire:
    """A warm admin connection. Thread-safe: kafka-python runs the I/O on a thread of its own."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._level, self._features_asked_s = 0, -math.inf
        try:
            self.admin = KafkaAdminClient(
                **connection.for_kafka_python(),
                max_in_flight_requests_per_connection=IN_FLIGHT,
                request_timeout_ms=REQUEST_LIMIT_MS,
                reconnect_backoff_max_ms=RECONNECT_WITHIN_MS,
                bootstrap_timeout_ms=BOOTSTRAP_LIMIT_MS,
            )
        except kafka_errors.KafkaError as error:
            raise Unreachable(f"no Kafka broker answers at {connection.bootstrap_servers}: {error}") from None

    def end_transactions(self, items: Sequence[tuple[str, int, int]], *, commit: bool) -> list[ErrorClass]:
        """Send EndTxn for each (transactional id, producer id, epoch); return an error class each, in order.

        Nothing is sent while the cluster's transaction.version is not known: see ``_transaction_version``.
        """
        level = self._transaction_version()
        if isinstance(level, type):
            return [level] * len(items)
        max_version = END_TXN if level >= 2 else END_TXN_WITHOUT_EPOCHS

        def request(item: tuple[str, int, int]) -> Any:
            return EndTxnRequest(
                transactional_id=item[0],
                producer_id=item[1],
                producer_epoch=item[2],
                committed=commit,
                max_version=max_version,
            )

        answers = self._to_coordinators(items, CoordinatorType.TRANSACTION, lambda item: item[0], request)
        return [answer if isinstance(answer, type) else _error(answer.error_code) for answer in answers]

    def _transaction_version(self) -> int | ErrorClass:
        """Return the cluster's finalized transaction.version, or why it is not known.

        A version of EndTxn that does not fit does harm. Brokers of 4.x offer 5 at level 0 too: one that gets it answers
        UNSUPPORTED_VERSION, and the transaction is stuck, since whatever comes after is answered CONCURRENT_TRANSACTIONS.
        At level 2, what was committed by 4 is answered INVALID_TXN_STATE by 5, as if it were lost, and an abort by 5
        succeeds (both seen on 4.3.1).
        """
        if time.monotonic() - self._features_asked_s >= FEATURES_KEPT_S:
            request = ApiVersionsRequest(client_software_name="indoubt", client_software_version="1", min_version=3)
            (answer,) = self.send([(None, request)], FEATURES_LIMIT_MS)
            error = answer if isinstance(answer, type) else _error(answer.error_code)
            if issubclass(error, kafka_errors.UnsupportedVersionError):
                self._level = 0
            elif error is not kafka_errors.NoError:
                return error
            else:
                found = {feature.name: int(feature.max_version_level) for feature in answer.finalized_features or ()}
                self._level = found.get("transaction.version", 0)
            self._features_asked_s = time.monotonic()
        return self._level

    def init_producer_ids(self, items: Sequence[tuple[str, int, int]], timeout_ms: int) -> list[ErrorClass]:
        """Take each (transactional id, expected producer id, expected epoch; -1, -1: whoever has it).

        Shuts out its producer and aborts what it has open (KIP-360). The broker answers CONCURRENT_TRANSACTIONS while
        the abort is on its way.
        """

        def request(item: tuple[str, int, int]) -> Any:
            return InitProducerIdRequest(
                transactional_id=item[0],
                transaction_timeout_ms=timeout_ms,
                producer_id=item[1],
                producer_epoch=item[2],
                max_version=5,
            )

        answers = self._to_coordinators(items, CoordinatorType.TRANSACTION, lambda item: item[0], request)
        return [answer if isinstance(answer, type) else _error(answer.error_code) for answer in answers]

    def describe_transactions(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return for each id the coordinator's row (transaction_state, producer_id, …), or an error class.

        One DescribeTransactions per coordinator.
        """
        nodes = self._find_coordinators(ids, CoordinatorType.TRANSACTION)
        found: dict[str, Any] = {id_: node for id_, node in nodes.items() if isinstance(node, type)}
        by_node: dict[Any, list[str]] = {}
        for id_, node in nodes.items():
            if not isinstance(node, type):
                by_node.setdefault(node, []).append(id_)
        requests = [(node, DescribeTransactionsRequest(transactional_ids=some)) for node, some in by_node.items()]
        for (_, some), answer in zip(by_node.items(), self.send(requests), strict=True):
            if isinstance(answer, type):
                found |= dict.fromkeys(some, answer)
                for id_ in some:
                    self._forget(id_, CoordinatorType.TRANSACTION)
                continue
            for row in answer.transaction_states:
                error = _error(row.error_code)
                if issubclass(error, _COORDINATOR_MOVED):
                    self._forget(row.transactional_id, CoordinatorType.TRANSACTION)
                found[row.transactional_id] = row if error is kafka_errors.NoError else error
        return found

    def committed_offsets(
        self, groups: Sequence[str], topic: str, partition: int, *, stable: bool
    ) -> list[tuple[ErrorClass, int, str]]:
        """Return (error class, offset, metadata) of each group, in order.

        ``stable``: UNSTABLE while a transaction holds one; else what was committed last.
        """

        def request(group: str) -> Any:
            wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
            return OffsetFetchRequest(
                group_id=group, topics=[wanted], require_stable=stable, min_version=7, max_version=7
            )

        answers = self._to_coordinators(groups, CoordinatorType.GROUP, lambda group: group, request)
        return [_offset(answer) for answer in answers]

    def list_transactions(self, states: Iterable[str]) -> list[Any]:
        """Return the listed transactions (transactional_id, producer_id, state) in these states, or in any; of all brokers."""
        listed = self.admin.list_transactions(state_filters=list(states) or None)
        return [row for rows in listed.values() for row in rows]

    def write_marker(
        self, node: int, partition: tuple[str, int], producer: tuple[int, int], coordinator_epoch: int, *, commit: bool
    ) -> ErrorClass:
        """Write an end marker straight to a partition, past the coordinator (WriteTxnMarkers); return an error class.

        ``node`` leads the partition; ``producer`` is a producer id and the epoch of the marker; ``coordinator_epoch`` is at
        least that of the producer's last marker there, -1 where it has none.
        """
        marker_ = WriteTxnMarkersRequest.WritableTxnMarker
        topic = marker_.WritableTxnMarkerTopic(name=partition[0], partition_indexes=[partition[1]])
        marker = marker_(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=commit,
            topics=[topic],
            coordinator_epoch=max(0, coordinator_epoch),
        )
        (answer,) = self.send([(node, WriteTxnMarkersRequest(markers=[marker]))])
        if isinstance(answer, type):
            return answer
        return _error(answer.markers[0].topics[0].partitions[0].error_code)

    def send(self, requests: Sequence[tuple[Any, Any]], limit_ms: int = REQUEST_LIMIT_MS) -> list[Any]:
        """Send (node id, request) pairs at once, at most IN_FLIGHT on the way; a response or an error class each, in order.

        Node None is any broker. For requests of the public protocol that need a node: see kafka_partitions.py.
        """
        answers: list[Any] = []
        for start in range(0, len(requests), IN_FLIGHT // 2):
            some = requests[start : start + IN_FLIGHT // 2]
            answers += self.admin._manager.run(self._gather, some, limit_ms)
        return answers

    def group_coordinators(self, groups: Sequence[str]) -> dict[str, Any]:
        """Return the node id of each consumer group's coordinator, or an error class; known ones are not asked again."""
        return self._find_coordinators(groups, CoordinatorType.GROUP) if groups else {}

    def forget_group_coordinator(self, group: str) -> None:
        """Have the group's coordinator looked up again: it moved, or did not answer."""
        self._forget(group, CoordinatorType.GROUP)

    def close(self) -> None:
        """End the connections."""
        self.admin.close()

    def _to_coordinators(
        self, items: Sequence[Any], kind: Any, key: Callable[[Any], str], request: Callable[[Any], Any]
    ) -> list[Any]:
        """Send one request per item to its key's coordinator, pipelined; a response or an error class each, in order."""
        nodes = self._find_coordinators([key(item) for item in items], kind)
        answers: list[Any] = [nodes[key(item)] for item in items]
        going = [index for index, node in enumerate(answers) if not isinstance(node, type)]
        sent = self.send([(answers[index], request(items[index])) for index in going])
        for index, answer in zip(going, sent, strict=True):
            answers[index] = answer
            code = answer if isinstance(answer, type) else _error(getattr(answer, "error_code", 0) or 0)
            if issubclass(code, _COORDINATOR_MOVED) or not issubclass(code, kafka_errors.BrokerResponseError):
                self._forget(key(items[index]), kind)
        return answers

    def _find_coordinators(self, keys: Sequence[str], kind: Any) -> dict[str, Any]:
        wanted = list(dict.fromkeys(keys))
        try:
            found: dict[str, Any] = self.admin._manager.run(self.admin._find_coordinator_ids, wanted, kind)
        except kafka_errors.BrokerResponseError as error:
            if len(wanted) == 1:
                return {wanted[0]: type(error)}
            # One key that is refused fails the whole look-up: ask for each alone.
            return {key: node for id_ in wanted for key, node in self._find_coordinators([id_], kind).items()}
        except kafka_errors.KafkaError as error:
            return dict.fromkeys(wanted, type(error))
        return found

    def _forget(self, key: str, kind: Any) -> None:
        self.admin._manager.cluster._coordinators.pop((CoordinatorType.build_from(kind), key), None)

    async def _gather(self, requests: Sequence[tuple[Any, Any]], limit_ms: int) -> list[Any]:
        manager = self.admin._manager
        futures: list[Any] = []
        for node, request in requests:
            try:
                futures.append(manager.send(request, node_id=node, request_timeout_ms=limit_ms))
            except kafka_errors.KafkaError as error:
                # A node that left the cluster, or that refused our credentials, is reported at once.
                futures.append(type(error))
        answers: list[Any] = []
        for future in futures:
            try:
                answers.append(future if isinstance(future, type) else await future)
            except kafka_errors.KafkaError as error:
                answers.append(type(error))
        return answers


def _error(code: int) -> ErrorClass:
    found: ErrorClass = kafka_errors.for_code(code)
    return found


def _offset(answer: Any) -> tuple[ErrorClass, int, str]:
    if isinstance(answer, type):
        return answer, -1, ""
    if answer.error_code:
        return _error(answer.error_code), -1, ""
    row = answer.topics[0].partitions[0]
    return _error(row.error_code), int(row.committed_offset), row.metadata or ""
