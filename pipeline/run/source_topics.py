"""What the offsets of a query count in: the ids of its source topics, asked of the clusters that its sources read.

For Spark's Kafka source they are asked in Spark's JVM, by the Kafka client and with the options of the source itself: it may
read another cluster than the sink's.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from indoubt.lifecycle.errors import Unreachable
from indoubt.pipeline.jobs.job import SPARKS_SOURCE, options_of
from indoubt.pipeline.source.topic_options import NAME, TopicOptions
from indoubt.resource_managers.kafka.connection import KafkaConnection

OF_KAFKA = "kafka."
NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""A topic's id at a broker that has no such ids (before 2.8)."""
ANSWER_LIMIT_MS = 30_000


class SourceTopics:
    """The topics that the streams of ``rows`` read; asks again with the same clients until ``close``."""

    def __init__(self, rows: DataFrame) -> None:
        self._jvm: Any = rows.sparkSession._jvm
        self._sources = [
            (self._admin(options), options)
            for options in options_of(rows, SPARKS_SOURCE)
            if "kafka.bootstrap.servers" in options
        ]
        self._committed = [TopicOptions.read(options) for options in options_of(rows, NAME)]

    def ids(self) -> dict[str, set[str]]:
        """Return the ids of each topic by its name, several where sources read topics of one name in several clusters.

        A topic of a broker without such ids is left out. Raises Unreachable, ResourceManagerError.
        """
        found: dict[str, set[str]] = {}
        for read in self._committed:
            for topic, topic_id in (
                KafkaConnection.from_json(read.kafka_secret).topic_ids(read.topics.split(",")).items()
            ):
                if topic_id:
                    found.setdefault(topic, set()).add(topic_id)
        for admin, options in self._sources:
            try:
                listed = admin.listTopics().names().get()
                names = [name for name in listed if self._is_read(name, options)]
                topics = admin.describeTopics(self._jvm.java.util.ArrayList(names)).allTopicNames().get()
                for name in names:
                    id_ = str(topics[name].topicId().toString())
                    if id_ != NONE:
                        found.setdefault(name, set()).add(id_)
            except Py4JJavaError as error:
                cause = str(error.java_exception.toString())
                raise Unreachable(f"the source's topics cannot be asked for: {cause}") from None
        return found

    def close(self) -> None:
        """End the clients, unless their JVM has ended."""
        with contextlib.suppress(Py4JError):
            for admin, _ in self._sources:
                admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _admin(self, options: Mapping[str, str]) -> Any:
        properties = self._jvm.java.util.HashMap()
        for name, value in options.items():
            if name.startswith(OF_KAFKA):
                properties[name.removeprefix(OF_KAFKA)] = value
        properties["default.api.timeout.ms"] = properties["request.timeout.ms"] = str(ANSWER_LIMIT_MS)
        return self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)

    def _is_read(self, topic: str, options: Mapping[str, str]) -> bool:
        if "subscribepattern" in options:
            return bool(self._jvm.java.util.regex.Pattern.matches(options["subscribepattern"], topic))
        if "assign" in options:
            return topic in json.loads(options["assign"])
        return topic in [name.strip() for name in options.get("subscribe", "").split(",")]
