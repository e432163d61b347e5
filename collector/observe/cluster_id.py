"""The cluster's own id, asked until a broker answers."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaException

from indoubt.collector.observe.topic_reader import SharedClient
from indoubt.resource_managers.kafka.connection import KafkaConnection

ANSWER_LIMIT_S = 5.0
RETRY_S = 2.0


class ClusterName:
    """Asks in a thread of its own, since a broker may be away at start."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.name = ""
        self._connection = connection
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="cluster id", daemon=True)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; returns when the thread has ended, at most the limit of one question later."""
        self._stopping.set()
        self._thread.join(ANSWER_LIMIT_S)

    def _ask(self) -> None:
        while not self._stopping.is_set():
            client = SharedClient.of(self._connection)
            try:
                self.name = client.admin.list_topics(timeout=ANSWER_LIMIT_S).cluster_id or ""
            except KafkaException as error:
                client.failed(self._connection, error)
                self._stopping.wait(RETRY_S)
                continue
            return
