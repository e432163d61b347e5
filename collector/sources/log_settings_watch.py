"""Asks now and then for the configuration of the decision log's topic, and never waits for the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from collector.records.log_settings import LogSettings
from collector.runtime.clock import now_ms

ASK_EVERY_S = 300.0
ASK_AGAIN_S = 10.0
"""After a question that had no answer."""
ANSWER_LIMIT_S = 30.0


class LogSettingsWatch:
    """For one thread, which calls ``read`` often; each call returns at once."""

    def __init__(
        self, admin: Callable[[], AdminClient], topic: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin, self._topic, self._clock = admin, topic, clock
        self._asked: Future[Mapping[str, Any]] | None = None
        self._due_s = clock()
        self.denied = ""
        """Why the configuration may not be read; empty where it may."""

    def read(self) -> LogSettings | None:
        """Return the settings where an answer has come, and ask where a question is due."""
        if self._asked is not None:
            return self._heard(self._asked) if self._asked.done() else None
        if self._clock() >= self._due_s:
            resource = ConfigResource(ResourceType.TOPIC, self._topic)
            self._asked = self._admin().describe_configs([resource], request_timeout=ANSWER_LIMIT_S)[resource]
        return None

    def _heard(self, answer: Future[Mapping[str, Any]]) -> LogSettings | None:
        self._asked, self._due_s = None, self._clock() + ASK_AGAIN_S
        try:
            entries = answer.result()
        except KafkaException as error:
            self.denied = (
                f"whether {self._topic} forgets by itself is unknown: its configuration cannot be read "
                f"({error.args[0].str()}): allow DescribeConfigs on it"
            )
            return None
        self._due_s, self.denied = self._clock() + ASK_EVERY_S, ""
        return LogSettings.of(self._topic, {name: str(entry.value) for name, entry in entries.items()}, now_ms())
