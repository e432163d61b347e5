"""An idle collector by consumer groups: each has read all of a topic and is without members, so nobody else asks the broker.

The fact is that a group falls behind: its committed offset is set back, and GET /blocked?all=true lists it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.growth import idle
from benchmarks.growth.curve import Curve, Options, Point
from benchmarks.running_collector import RunningCollector
from benchmarks.topics import fill, make_topic
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection

TOPIC = "growth_read"
RECORDS = 10
AT_ONCE = 100
COMMIT_LIMIT_S = 60.0
GROUP_DISK_BYTES = 2_000


def commit(admin: AdminClient, groups: Sequence[str], offset: int) -> None:
    """Commit this offset for groups without members, which makes those that are not there. Raises KafkaException."""
    left = iter(groups)
    while part := list(islice(left, AT_ONCE)):
        asked: list[Future[ConsumerGroupTopicPartitions]] = []
        for group in part:
            place = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0, offset)])
            asked += admin.alter_consumer_group_offsets([place]).values()
        for future in asked:
            future.result(COMMIT_LIMIT_S)


def behind_to_api(
    admin: AdminClient, collector: RunningCollector, groups: Sequence[str], facts: int
) -> dict[str, float]:
    """Set groups back that are spread over all; return the times until GET /blocked?all=true lists them as behind."""
    chosen = groups[:: max(1, len(groups) // facts)][:facts]
    commit(admin, chosen, 0)
    started = time.monotonic()

    def shown() -> list[str]:
        rows = collector.get(f"blocked?all=true&limit=1000&topic={TOPIC}")["rows"]
        return [group["group"] for row in rows for group in row["groups"] if group["offset"] == 0]

    return idle.to_api(dict.fromkeys(chosen, started), shown)


def measure(work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    """Measure one collector for each size, each with a broker of its own."""
    for size in sizes:
        directory = work / str(size)
        with Broker(directory / "broker") as broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            make_topic(connection, TOPIC, 1)
            fill(connection, TOPIC, RECORDS)
            admin = AdminClient(connection.for_librdkafka(log_level=2))
            groups = [f"reader-{number:05}" for number in range(size)]
            commit(admin, groups, RECORDS)
            with idle.collector(broker.bootstrap_servers, directory / "collector") as collector:
                figures, threads = idle.at_rest(collector, broker.pid or 0, options)
                figures |= behind_to_api(admin, collector, groups, options.facts)
            figures |= idle.broker_alone(broker.pid or 0, options)
        yield Point(size=size, figures=figures, parts=threads)


CURVE = Curve(
    name="groups",
    title="an idle collector by consumer groups; fact: a group falls behind",
    sizes=(10, 100, 1_000, 2_500, 5_000),
    cost=idle.COST,
    columns={**idle.COLUMNS, idle.BROKER_ALONE: ".2f"},
    parts=idle.PARTS,
    measure=measure,
    disk_bytes=lambda size, _: size * GROUP_DISK_BYTES,
)
