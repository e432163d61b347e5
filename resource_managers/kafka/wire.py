"""The broker requests that no public client offers, pipelined: the one place that touches kafka-python's internals.

Everything answers with a BrokerAnswer per item instead of raising, so that one bad id never hides the answers of the others.
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
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, CoordinatorType
from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest, WriteTxnMarkersRequest

from indoubt.lifecycle.errors import Unreachable
from indoubt.resource_managers.kafka import oauth_properties
from indoubt.resource_managers.kafka.answers import MISSING_ROW, AnswerKind, BrokerAnswer, answer_of, answer_of_error
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.descriptions import Described, TransactionDescription
from indoubt.resource_managers.kafka.large_answers import receive_in_large_pieces
from indoubt.resource_managers.kafka.lost_connections import LostConnections

IN_FLIGHT = 200
REQUEST_LIMIT_MS = 10_000
BOOTSTRAP_LIMIT_S = 15.0
END_TXN, END_TXN_WITHOUT_EPOCHS = 5, 4
"""Versions of EndTxn: with 5 the epoch moves up at each end (KIP-890), with 4 it stays."""
FEATURES_KEPT_S = 30.0
FEATURES_LIMIT_MS = 3_000
CLOCK_LIMIT_MS = 2_000

_wires: dict[tuple[int, KafkaConnection], KafkaWire] = {}
_wires_lock = threading.Lock()


def wire(connection: KafkaConnection, limit_s: float = BOOTSTRAP_LIMIT_S) -> KafkaWire:
    """Return this process's wire to the cluster: made once, because a new admin client costs 50-100 ms.

    Raises Unreachable when no broker answers within ``limit_s``, or BOOTSTRAP_LIMIT_S if that is less; SettingsError.
    """
    key = (os.getpid(), connection)
    with _wires_lock:
        if key not in _wires:
            _wires[key] = KafkaWire(connection, min(limit_s, BOOTSTRAP_LIMIT_S))
        return _wires[key]


class KafkaWire:
    """A warm admin connection. Thread-safe: kafka-python runs the I/O on a thread of its own."""

    def __init__(self, connection: KafkaConnection, bootstrap_limit_s: float = BOOTSTRAP_LIMIT_S) -> None:
        self._level, self._features_asked_s = 0, -math.inf
        self.lost = LostConnections()
        if oauth_properties.is_oauth(connection.properties):
            # kafka-python would only say that it could not connect.
            connection.token_provider().current()
        try:
            self.admin = KafkaAdminClient(
                max_in_flight_requests_per_connection=IN_FLIGHT,
                bootstrap_timeout_ms=int(bootstrap_limit_s * 1000),
                **{
                    "request_timeout_ms": REQUEST_LIMIT_MS,
                    "reconnect_backoff_max_ms": connection.reconnect_within_ms,
                    **connection.for_kafka_python(),
                },
            )
        except kafka_errors.KafkaError as error:
            raise Unreachable(f"no Kafka broker answers at {connection.bootstrap_servers}: {error}") from None
        receive_in_large_pieces(self.admin._manager)
        self._remember_losses()

    def _remember_losses(self) -> None:
        """Have it remembered why a connection could not be made: an answer only says that there is none."""
        connect = self.admin._manager._build_transport

        async def remembering(node: Any, timeout_at: float | None = None) -> Any:
            try:
                return await connect(node, timeout_at=timeout_at)
            except Exception as error:
                is_unresolved = "DNS Resolution failure" in str(error)
                self.lost.note_broker(
                    str(node.node_id), f"{node.host}:{node.port}", str(error), is_unresolved=is_unresolved
                )
                raise

        self.admin._manager._build_transport = remembering

    def end_transactions(self, items: Sequence[tuple[str, int, int]], *, commit: bool) -> list[BrokerAnswer]:
        """Send EndTxn for each (transactional id, producer id, epoch); return an answer each, in order.

        Nothing is sent while the cluster's transaction.version is not known: see ``_transaction_version``.
        """
        level = self._transaction_version()
        if isinstance(level, BrokerAnswer):
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

        responses = self._to_coordinators(items, CoordinatorType.TRANSACTION, lambda item: item[0], request)
        return [answer_of(response) for response in responses]

    def _transaction_version(self) -> int | BrokerAnswer:
        """Return the cluster's finalized transaction.version, or why it is not known.

        A version of EndTxn that does not fit does harm. Brokers of 4.x offer 5 at level 0 too: one that gets it answers
        UNSUPPORTED_VERSION, and the transaction is stuck, since whatever comes after is answered CONCURRENT_TRANSACTIONS.
        At level 2, what was committed by 4 is answered INVALID_TXN_STATE by 5, as if it were lost, and an abort by 5
        succeeds (both seen on 4.3.1).
        """
        if time.monotonic() - self._features_asked_s >= FEATURES_KEPT_S:
            request = ApiVersionsRequest(client_software_name="indoubt", client_software_version="1", min_version=3)
            (response,) = self.send([(None, request)], FEATURES_LIMIT_MS)
            answer = answer_of(response)
            if answer.kind is AnswerKind.UNSUPPORTED:
                self._level = 0
            elif not answer.is_done:
                return answer
            else:
                found = {feature.name: int(feature.max_version_level) for feature in response.finalized_features or ()}
                self._level = found.get("transaction.version", 0)
            self._features_asked_s = time.monotonic()
        return self._level

    def init_producer_ids(self, items: Sequence[tuple[str, int, int]], timeout_ms: int) -> list[BrokerAnswer]:
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

        responses = self._to_coordinators(items, CoordinatorType.TRANSACTION, lambda item: item[0], request)
        return [answer_of(response) for response in responses]

    def describe_transactions(self, ids: Sequence[str]) -> dict[str, Described]:
        """Return for each id the coordinator's description, or why there is none. One DescribeTransactions per coordinator."""
        nodes = self._find_coordinators(ids, CoordinatorType.TRANSACTION)
        found: dict[str, Described] = dict.fromkeys(ids, MISSING_ROW)
        by_node: dict[int, list[str]] = {}
        for id_, node in nodes.items():
            if isinstance(node, BrokerAnswer):
                found[id_] = node
            else:
                by_node.setdefault(node, []).append(id_)
        requests = [(node, DescribeTransactionsRequest(transactional_ids=own)) for node, own in by_node.items()]
        for own, response in zip(by_node.values(), self.send(requests), strict=True):
            if isinstance(response, BrokerAnswer):
                found |= dict.fromkeys(own, response)
                for id_ in own:
                    self._forget(id_, CoordinatorType.TRANSACTION)
                continue
            for row in response.transaction_states:
                answer = answer_of(row)
                if answer.kind is AnswerKind.COORDINATOR_MOVED:
                    self._forget(row.transactional_id, CoordinatorType.TRANSACTION)
                found[row.transactional_id] = TransactionDescription.of(row) if answer.is_done else answer
        return found

    def committed_offsets(
        self, groups: Sequence[str], topic: str, *, stable: bool
    ) -> list[tuple[BrokerAnswer, int, str]]:
        """Return (answer, offset, metadata) of each group on the topic's partition 0, in order.

        ``stable``: UNSTABLE while a transaction holds one; else what was committed last.
        """

        def request(group: str) -> Any:
            wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
            return OffsetFetchRequest(
                group_id=group, topics=[wanted], require_stable=stable, min_version=7, max_version=7
            )

        responses = self._to_coordinators(groups, CoordinatorType.GROUP, lambda group: group, request)
        return [_offset(response) for response in responses]

    def list_transactions(self, states: Iterable[str]) -> list[Any]:
        """Return the listed transactions (transactional_id, producer_id, state) in these states, or in any; of all brokers."""
        listed = self.admin.list_transactions(state_filters=list(states) or None)
        return [row for rows in listed.values() for row in rows]

    def is_older(self, node: int, transaction: str, producer_id: int, than_ms: int) -> bool | BrokerAnswer:
        """Say whether a transactional id's transaction began more than ``than_ms`` ago by the clock of its coordinator.

        UNSUPPORTED before Kafka 3.8 (KIP-994). Whether it has ended does not matter. An id without a transaction, and one that
        this node does not coordinate, is none that is older.
        """
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[producer_id], duration_filter=than_ms, min_version=1
        )
        (response,) = self.send([(node, request)], CLOCK_LIMIT_MS)
        answer = answer_of(response)
        if not answer.is_done:
            return answer
        return any(row.transactional_id == transaction for row in response.transaction_states)

    def transaction_coordinators(self, ids: Sequence[str]) -> dict[str, int | BrokerAnswer]:
        """Return the node id of each transactional id's coordinator, or why not; known ones are not asked again."""
        return self._find_coordinators(ids, CoordinatorType.TRANSACTION) if ids else {}

    def write_marker(
        self, node: int, partition: tuple[str, int], producer: tuple[int, int], coordinator_epoch: int, *, commit: bool
    ) -> BrokerAnswer:
        """Write an end marker straight to a partition, past the coordinator (WriteTxnMarkers); return its leader's answer.

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
        (response,) = self.send([(node, WriteTxnMarkersRequest(markers=[marker]))])
        if isinstance(response, BrokerAnswer):
            return response
        return answer_of(response.markers[0].topics[0].partitions[0])

    def send(self, requests: Sequence[tuple[Any, Any]], limit_ms: int = REQUEST_LIMIT_MS) -> list[Any]:
        """Send (node id, request) pairs at once, at most IN_FLIGHT on the way; return a response each, in order.

        A BrokerAnswer stands where there is no response.

        Node None is any broker. For requests of the public protocol that need a node: see partitions.py.
        """
        responses: list[Any] = []
        for start in range(0, len(requests), IN_FLIGHT // 2):
            bundle = requests[start : start + IN_FLIGHT // 2]
            responses += self.admin._manager.run(self._gather, bundle, limit_ms)
        return responses

    def post(self, node: int, request: Any, limit_ms: int, answered: Callable[[Any], None]) -> None:
        """Send a request without waiting; ``answered`` is called with the response, or a BrokerAnswer, on the I/O thread.

        Requests to one node leave in the order in which they are posted.
        """
        future = self.admin._manager.call_soon(self.admin._manager.send, request, node, limit_ms)
        future.add_callback(answered)
        future.add_errback(lambda error: answered(answer_of_error(type(error))))

    def to_coordinator(
        self, key: str, kind: CoordinatorType, request: Any, read: Callable[[Any], BrokerAnswer] = answer_of
    ) -> Any:
        """Send one request to the coordinator of a transactional id or a group; return its response or a BrokerAnswer.

        ``read``: what a response says, where its error code is not its own: a coordinator that moved is looked up again.
        """
        (response,) = self._to_coordinators([key], kind, lambda item: item, lambda _: request, read)
        return response

    def group_coordinators(self, groups: Sequence[str]) -> dict[str, int | BrokerAnswer]:
        """Return the node id of each consumer group's coordinator, or why not; known ones are not asked again."""
        return self._find_coordinators(groups, CoordinatorType.GROUP) if groups else {}

    def forget_group_coordinator(self, group: str) -> None:
        """Have the group's coordinator looked up again: it moved, or did not answer."""
        self._forget(group, CoordinatorType.GROUP)

    def close(self) -> None:
        """End the connections."""
        self.admin.close()

    def _to_coordinators(
        self,
        items: Sequence[Any],
        kind: Any,
        key: Callable[[Any], str],
        request: Callable[[Any], Any],
        read: Callable[[Any], BrokerAnswer] = answer_of,
    ) -> list[Any]:
        """Send one request per item to its key's coordinator, pipelined; as ``send``, in order."""
        nodes = self._find_coordinators([key(item) for item in items], kind)
        responses: list[Any] = [nodes[key(item)] for item in items]
        going = [index for index, node in enumerate(responses) if not isinstance(node, BrokerAnswer)]
        sent = self.send([(responses[index], request(items[index])) for index in going])
        for index, response in zip(going, sent, strict=True):
            responses[index] = response
            if read(response).kind in (AnswerKind.COORDINATOR_MOVED, AnswerKind.NO_ANSWER):
                self._forget(key(items[index]), kind)
        return responses

    def _find_coordinators(self, keys: Sequence[str], kind: Any) -> dict[str, int | BrokerAnswer]:
        wanted = list(dict.fromkeys(keys))
        try:
            found: dict[str, int | BrokerAnswer] = self.admin._manager.run(
                self.admin._find_coordinator_ids, wanted, kind
            )
        except kafka_errors.BrokerResponseError as error:
            if len(wanted) == 1:
                return {wanted[0]: answer_of_error(type(error))}
            # One key that is refused fails the whole look-up: ask for each alone.
            return {key: node for id_ in wanted for key, node in self._find_coordinators([id_], kind).items()}
        except kafka_errors.KafkaError as error:
            return dict.fromkeys(wanted, answer_of_error(type(error)))
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
                futures.append(answer_of_error(type(error)))
        responses: list[Any] = []
        for future in futures:
            try:
                responses.append(future if isinstance(future, BrokerAnswer) else await future)
            except kafka_errors.KafkaError as error:
                responses.append(answer_of_error(type(error)))
        return responses


def _offset(response: Any) -> tuple[BrokerAnswer, int, str]:
    answer = answer_of(response)
    if not answer.is_done:
        return answer, -1, ""
    row = response.topics[0].partitions[0]
    return answer_of(row), int(row.committed_offset), row.metadata or ""
