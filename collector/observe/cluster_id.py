"""The cluster's own id, asked until a broker answers."""

from __future__ import annotations

from confluent_kafka import KafkaException

from indoubt.collector.observe.topic_reader import SharedClient
from indoubt.collector.runtime.background import Background
from indoubt.resource_managers.kafka.connection import KafkaConnection

ANSWER_LIMIT_S = 5.0
RETRY_S = 2.0


class ClusterName(Background):
    """Asks in a thread of its own, since a broker may be away at start."""

    def __init__(self, connection: KafkaConnection) -> None:
        super().__init__("cluster id", ANSWER_LIMIT_S)
        self.name = ""
        self._connection = connection

    def _run(self) -> None:
        while not self.stopping.is_set():
            client = SharedClient.of(self._connection)
            try:
                self.name = client.admin.list_topics(timeout=ANSWER_LIMIT_S).cluster_id or ""
            except KafkaException as error:
                client.failed(self._connection, error)
                self.stopping.wait(RETRY_S)
                continue
            return
