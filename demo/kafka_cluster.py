"""A cluster of several brokers and a controller of their own: every partition is on all brokers, so one may be away."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata

from demo.broker import Broker, new_cluster_id
from demo.ports import free_port, listens
from demo.waiting import wait_until

REPLICAS_LIMIT_S = 120.0
ASK_LIMIT_S = 10.0
CONTROLLER = 1
_QUICK = {
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


class KafkaCluster:
    """A context manager: the controller (node 1) and the brokers. ``min_isr``: min.insync.replicas."""

    def __init__(self, directory: Path, brokers: int, min_isr: int) -> None:
        port, cluster = free_port(), new_cluster_id()
        factors = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        settings = {
            **_QUICK,
            **{f"{of}.replication.factor": str(brokers) for of in factors},
            "min.insync.replicas": str(min_isr),
            "transaction.state.log.min.isr": str(min_isr),
        }
        self._controller, *others = (
            Node(directory / f"node-{node}", node, port, cluster, settings)
            for node in range(CONTROLLER, CONTROLLER + brokers + 1)
        )
        self.brokers = tuple(others)

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all brokers."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def others(self, broker: Broker) -> list[Node]:
        """Return the other brokers."""
        return [other for other in self.brokers if other is not broker]

    def await_replicas(self, admin: AdminClient) -> None:
        """Wait until every partition is in sync on all brokers; before that no broker may be lost. Raises DemoFailed."""
        all_ = len(self.brokers)
        self._await(admin, "all brokers in sync on every partition", lambda partition: len(partition.isrs) == all_)

    def await_led_by_others(self, admin: AdminClient, broker: Node) -> None:
        """Wait until this broker leads no partition, so that the cluster knows that it is away. Raises DemoFailed."""
        others = {other.node for other in self.others(broker)}
        self._await(admin, f"partitions led without node {broker.node}", lambda partition: partition.leader in others)

    def _await(self, admin: AdminClient, what: str, holds: Callable[[PartitionMetadata], bool]) -> None:
        def of_each() -> bool:
            with contextlib.suppress(KafkaException):
                topics = admin.list_topics(timeout=ASK_LIMIT_S).topics.values()
                return all(holds(partition) for topic in topics for partition in topic.partitions.values())
            return False

        wait_until(what, of_each, REPLICAS_LIMIT_S)

    @property
    def pid(self) -> int | None:
        """Return the process id of a broker that runs, or None."""
        return next((broker.pid for broker in self.brokers if broker.pid is not None), None)

    @property
    def log_file(self) -> Path:
        """Return the log of the first broker."""
        return self.brokers[0].log_file

    def start(self) -> KafkaCluster:
        """Start the controller and the brokers that do not run. Raises BrokerFailed."""
        for node in (self._controller, *self.brokers):
            if node.pid is None:
                node.start()
        return self

    def stop(self) -> None:
        """End the brokers in order, the controller last; safe to call twice."""
        for node in (*self.brokers, self._controller):
            node.stop()

    def __enter__(self) -> KafkaCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
