"""A broker that seems to lead many more partitions: a proxy before a real one answers for those, and passes on all else.

It answers Metadata of all topics, ListOffsets and DescribeProducers. Every simulated partition is up to date but those that are
told to hide records. What a real broker would need for them, files and memory, is not there.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import uuid
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kafka.protocol.admin.transactions import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer.offsets import IsolationLevel, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from demo.broker import Broker
from demo.ports import free_port

TOPIC, PER_TOPIC = "sim_", 1_000
END, STABLE = 10, 5
"""Offsets of a partition that hides records; of every other both are END."""
START_LIMIT_S = 60.0


class _Answers:
    """What is answered for the simulated partitions."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._ids = {name: uuid.uuid4() for name in self._names()}
        self._metadata: dict[int, bytes] = {}
        self.hiding: set[tuple[str, int]] = set()

    def _names(self) -> list[str]:
        return [f"{TOPIC}{number:04}" for number in range(-(-self._partitions // PER_TOPIC))]

    def to(self, request: bytes) -> bytes | None:
        """Return the answer to a request that is about simulated partitions alone; None: the broker is to answer."""
        key, version, correlation = struct.unpack_from(">hhi", request)
        answer: Any = None
        if key == ListOffsetsRequest.API_KEY:
            answer = self._offsets(ListOffsetsRequest.decode(request, version=version, header=True))
        elif key == DescribeProducersRequest.API_KEY:
            answer = self._producers(DescribeProducersRequest.decode(request, version=version, header=True))
        if answer is None:
            return None
        return _encoded(answer, version, correlation)

    def with_topics(self, request: bytes, answer: bytes) -> bytes:
        """Return the broker's answer; where it is about all topics, with the simulated ones."""
        key, version, correlation = struct.unpack_from(">hhi", request)
        if key != MetadataRequest.API_KEY:
            return answer
        if MetadataRequest.decode(request, version=version, header=True).topics not in (None,):
            return answer
        if version not in self._metadata:
            found = MetadataResponse.decode(answer, version=version, header=True)
            node = found.brokers[0].node_id
            topic = MetadataResponse.MetadataResponseTopic
            for name in self._names():
                first = int(name.removeprefix(TOPIC)) * PER_TOPIC
                numbers = range(min(PER_TOPIC, self._partitions - first))
                partitions = [_partition(topic.MetadataResponsePartition, number, node) for number in numbers]
                found.topics.append(topic(error_code=0, name=name, topic_id=self._ids[name], partitions=partitions))
            self._metadata[version] = _encoded(found, version, 0)
        return struct.pack(">i", correlation) + self._metadata[version][4:]

    def _offsets(self, request: Any) -> Any:
        if not all(topic.name.startswith(TOPIC) for topic in request.topics):
            return None
        is_stable = request.isolation_level == IsolationLevel.READ_COMMITTED.value
        topic_ = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                topic_(
                    name=topic.name,
                    partitions=[
                        topic_.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=0,
                            timestamp=-1,
                            offset=STABLE if is_stable and (topic.name, each.partition_index) in self.hiding else END,
                            leader_epoch=0,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def _producers(self, request: Any) -> Any:
        if not all(topic.name.startswith(TOPIC) for topic in request.topics):
            return None
        topic_ = DescribeProducersResponse.TopicResponse
        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                topic_(
                    name=topic.name,
                    partitions=[
                        topic_.PartitionResponse(
                            partition_index=number, error_code=0, error_message=None, active_producers=[]
                        )
                        for number in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ],
        )


def _encoded(answer: Any, version: int, correlation: int) -> bytes:
    # One that was read has a header, and then takes no version.
    answer._header = None
    answer.API_VERSION = version
    answer.with_header(correlation_id=correlation)
    return bytes(answer.encode(header=True))


def _partition(made: Any, number: int, node: int) -> Any:
    return made(
        error_code=0,
        partition_index=number,
        leader_id=node,
        leader_epoch=0,
        replica_nodes=[node],
        isr_nodes=[node],
        offline_replicas=[],
    )


def _serve(listening: socket.socket, broker_port: int, partitions: int, parent: Connection) -> None:
    """Answer until the parent ends the process; it sends the partitions that are to hide records from then on."""
    answers = _Answers(partitions)

    def accept() -> None:
        while True:
            client, _ = listening.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_pass, args=(client, broker_port, answers), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with contextlib.suppress(EOFError):
        while True:
            answers.hiding.add(parent.recv())
            parent.send(None)


def _pass(client: socket.socket, broker_port: int, answers: _Answers) -> None:
    # One request after the other, as a broker answers those of one connection.
    with client, contextlib.suppress(OSError, EOFError), socket.create_connection(("127.0.0.1", broker_port)) as broker:
        broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            request = _frame(client)
            answer = answers.to(request)
            if answer is None:
                broker.sendall(struct.pack(">i", len(request)) + request)
                answer = answers.with_topics(request, _frame(broker))
            client.sendall(struct.pack(">i", len(answer)) + answer)


def _frame(peer: socket.socket) -> bytes:
    return _read(peer, struct.unpack(">i", _read(peer, 4))[0])


def _read(peer: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        piece = peer.recv(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


class SimulatedPartitions:
    """The address to ask, and how to have a partition hide records."""

    def __init__(self, address: str, to_server: Connection) -> None:
        self.address, self._to_server = address, to_server

    def hide(self, number: int) -> str:
        """Have the partition of this number hide records from now on; return its name."""
        topic, index = f"{TOPIC}{number // PER_TOPIC:04}", number % PER_TOPIC
        self._to_server.send((topic, index))
        self._to_server.recv()
        return f"{topic}-{index}"


@contextlib.contextmanager
def simulating(directory: Path, partitions: int) -> Iterator[SimulatedPartitions]:
    """Run a broker that seems to lead so many partitions."""
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        ours, theirs = get_context("fork").Pipe()
        process = get_context("fork").Process(target=_serve, args=(listening, port, partitions, theirs), daemon=True)
        process.start()
        try:
            with Broker(directory, port, {"advertised.listeners": f"PLAINTEXT://{address}"}):
                yield SimulatedPartitions(address, ours)
        finally:
            process.terminate()
            process.join()
