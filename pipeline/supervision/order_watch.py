"""Operators' orders to this pipeline, read from their topic in a thread: the supervisor takes what is meant for its run."""

from __future__ import annotations

import logging
import threading

from indoubt.lifecycle import pipeline_orders
from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import IndoubtError, MalformedRecord, Unreachable
from indoubt.lifecycle.pipeline_orders import PipelineOrder, Run
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.pipeline_order_topic import reader

log = logging.getLogger(__name__)

READ_LIMIT_S = 0.5
RETRY = Backoff(first_s=5.0, max_s=300.0)
"""Pause after a failure, and the longest: a topic that may not be made is not worth a line every few seconds."""
STOP_LIMIT_S = 10.0


class OrderWatch:
    """Holds the orders for one prefix until the supervisor takes them; an empty topic takes none.

    The topic is read from its beginning: what names an earlier run is dropped, so nothing is done twice, and an order that
    was written while the supervisor could not read is not missed.
    """

    def __init__(self, connection: KafkaConnection, topic: str, prefix: str) -> None:
        self._connection, self._topic, self._prefix = connection, topic, prefix
        self._waiting: list[PipelineOrder] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeline orders", daemon=True)

    def start(self) -> None:
        """Start reading."""
        if self._topic:
            self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_LIMIT_S)

    def has_any(self) -> bool:
        """Say whether an order waits, for whichever run."""
        with self._lock:
            return bool(self._waiting)

    def take(self, run: Run) -> PipelineOrder | None:
        """Return the first order that is meant for this run, and drop every other one up to it: it can hit no later run."""
        with self._lock:
            while self._waiting:
                order = self._waiting.pop(0)
                if order.run == run:
                    return order
                log.warning(
                    "order %s (%s by %s) is ignored: it is meant for run %d, and this is run %d",
                    order.id,
                    order.action.value,
                    order.who,
                    order.run.attempt,
                    run.attempt,
                )
        return None

    def offer(self, value: bytes | None) -> None:
        """Note a record of the topic; what is for other pipelines or cannot be understood is passed over."""
        try:
            order = pipeline_orders.decode(value)
        except MalformedRecord as error:
            log.warning("a record of %s is passed over: %s", self._topic, error)
            return
        if order.run.prefix == self._prefix:
            with self._lock:
                self._waiting.append(order)

    def _run(self) -> None:
        pauses = RETRY.pauses()
        while not self._stopping.is_set():
            try:
                self._connection.ensure_topic(self._topic)
                with reader(self._connection, self._topic) as orders:
                    with self._lock:
                        self._waiting.clear()
                    pauses = RETRY.pauses()
                    while not self._stopping.is_set():
                        message = orders.read(READ_LIMIT_S)
                        if message is not None:
                            self.offer(message.value())
            except IndoubtError as error:
                pause_s = next(pauses)
                log.warning("operators' orders cannot be read, again in %.0f s: %s", pause_s, error)
                self._stopping.wait(pause_s)
                if isinstance(error, Unreachable):
                    pauses = RETRY.pauses()
