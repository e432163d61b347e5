"""The cluster's own id, asked until a broker answers."""

from __future__ import annotations

import logging
import threading

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from resource_managers.kafka.connection import KafkaConnection

ANSWER_LIMIT_S = 5.0
RETRY_S = 2.0
log = logging.getLogger(__name__)


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
        client = AdminClient(self._connection.for_librdkafka(), logger=log)
        while not self._stopping.is_set():
            try:
                self.name = client.list_topics(timeout=ANSWER_LIMIT_S).cluster_id or ""
            except KafkaException:
                self._stopping.wait(RETRY_S)
                continue
            return
