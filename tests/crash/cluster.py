"""A cluster of two brokers and a controller of their own: every partition is on both, so either may be away."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from demo.broker import Broker, new_cluster_id
from demo.ports import free_port, listens
from tests.integration.pipeline_process import wait_until

REPLICAS_LIMIT_S = 120.0
ASK_LIMIT_S = 10.0
CONTROLLER = 1
_ON_BOTH = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    # A missing broker loses its leadership after 2 s; a returned broker gets its partitions back within seconds.
    "leader.imbalance.check.interval.seconds": "5",
    "replica.lag.time.max.ms": "5000",
}


class Node(Broker):
    """A process of a cluster: a broker, or the controller."""

    def __init__(
        self, directory: Path, node: int, controller_port: int, cluster: str, settings: dict[str, str]
    ) -> None:
        super().__init__(directory, controller_port if node == CONTROLLER else free_port(), settings)
        self.node = node
        self._controller_port, self._cluster_id = controller_port, cluster

    def _configuration(self) -> dict[str, str]:
        configuration = super()._configuration() | {
            "node.id": str(self.node),
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self._controller_port}",
        }
        if self.node == CONTROLLER:
            configuration |= {
                "process.roles": "controller",
                "listeners": f"CONTROLLER://127.0.0.1:{self._controller_port}",
            }
            del configuration["advertised.listeners"]
        else:
            configuration |= {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{self.port}"}
        return configuration

    def _answers(self) -> bool:
        return listens(self.port) if self.node == CONTROLLER else super()._answers()


class Cluster:
    """A context manager: the controller (node 1) and two brokers. ``min_isr``: min.insync.replicas."""

    def __init__(self, directory: Path, min_isr: int = 1) -> None:
        port, cluster = free_port(), new_cluster_id()
        settings = {**_ON_BOTH, "min.insync.replicas": str(min_isr), "transaction.state.log.min.isr": str(min_isr)}
        self._controller, *brokers = (
            Node(directory / f"node-{node}", node, port, cluster, settings) for node in (CONTROLLER, 2, 3)
        )
        self.brokers = tuple(brokers)

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of both brokers."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def other(self, broker: Broker) -> Node:
        """Return the other broker."""
        (other,) = (candidate for candidate in self.brokers if candidate is not broker)
        return other

    def await_replicas(self, admin: AdminClient) -> None:
        """Wait until every partition is in sync on both brokers; before that no broker may be lost."""

        def complete() -> bool:
            with contextlib.suppress(KafkaException):
                topics = admin.list_topics(timeout=ASK_LIMIT_S).topics.values()
                return all(len(partition.isrs) == 2 for topic in topics for partition in topic.partitions.values())
            return False

        wait_until("both brokers in sync on every partition", complete, REPLICAS_LIMIT_S)

    def await_leader(self, admin: AdminClient, broker: Node) -> None:
        """Wait until this broker leads every partition, so that the cluster knows that the other is away."""

        def leads_all() -> bool:
            with contextlib.suppress(KafkaException):
                topics = admin.list_topics(timeout=ASK_LIMIT_S).topics.values()
                return all(p.leader == broker.node for topic in topics for p in topic.partitions.values())
            return False

        wait_until(f"node {broker.node} leading every partition", leads_all, REPLICAS_LIMIT_S)

    def __enter__(self) -> Cluster:
        with contextlib.ExitStack() as stack:
            for node in (self._controller, *self.brokers):
                stack.enter_context(node)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
