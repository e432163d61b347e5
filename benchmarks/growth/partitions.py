"""An idle collector by partitions of the sink's topics.

The fact is a record that hides others on a partition and that no coordinator tells of: only the round through all partitions
finds it. One broker holds what the kernel lets it map: two files for each partition.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.growth import idle
from benchmarks.growth.curve import Curve, Options, Point
from benchmarks.growth.late_record import LATE_RECORDS, write_late_record
from benchmarks.machine import NotEnoughRoom
from benchmarks.running_collector import RunningCollector
from demo.broker import Broker
from demo.prerequisites import ARCHIVE_LOG_OFF, BROKER_CLASSES
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Partition

TOPIC, PER_TOPIC = "sink_", 1_000
CREATE_LIMIT_S = 300.0
HEAP_FLAG = "-Xmx3g"
"""After the broker's own flag for its heap, so that it counts: ten thousands of partitions do not fit into that."""
MAPS_PER_PARTITION, OTHER_MAPS = 2, 2_000
FILES_PER_PARTITION, OTHER_FILES = 1, 2_000
PARTITION_DISK_BYTES = 40_000
SETTINGS = {
    **LATE_RECORDS,
    # Else each index file is 10 MiB of address space.
    "log.index.size.max.bytes": "4096",
    "num.recovery.threads.per.data.dir": "1",
}
MAX_MAPS = Path("/proc/sys/vm/max_map_count")


def require_kernel(partitions: int) -> None:
    """Raise NotEnoughRoom when one process may not map or open the files of so many partitions; else raise the limit of files."""
    maps = int(MAX_MAPS.read_text())
    if partitions * MAPS_PER_PARTITION + OTHER_MAPS > maps:
        raise NotEnoughRoom(
            f"a broker maps {MAPS_PER_PARTITION} files a partition, and vm.max_map_count is {maps:,}: it holds "
            f"{(maps - OTHER_MAPS) // MAPS_PER_PARTITION:,} partitions, not {partitions:,}"
        )
    wanted = partitions * FILES_PER_PARTITION + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted <= soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (ValueError, OSError):
        raise NotEnoughRoom(
            f"{partitions:,} partitions need {wanted:,} open files, and the limit is {hard:,} (ulimit -Hn)"
        ) from None


def make_topics(connection: KafkaConnection, partitions: int) -> None:
    """Create topics of at most PER_TOPIC partitions, of so many in all, and wait until each partition has a leader.

    Raises KafkaException, TimeoutError.
    """
    admin = AdminClient(connection.for_librdkafka(log_level=2))
    for start in range(0, partitions, PER_TOPIC):
        name = _topic(start)
        count = min(PER_TOPIC, partitions - start)
        created = admin.create_topics([NewTopic(name, count, 1)], operation_timeout=CREATE_LIMIT_S)
        created[name].result(CREATE_LIMIT_S)
    layout = KafkaPartitions(connection, "").layout
    idle.wait_until(f"{partitions} leaders", lambda: _leaders(layout().leaders) >= partitions, CREATE_LIMIT_S)


def _leaders(leaders: Mapping[Partition, int]) -> int:
    return sum(partition[0].startswith(TOPIC) for partition in leaders)


def hidden_to_api(connection: KafkaConnection, collector: RunningCollector, size: int, facts: int) -> dict[str, float]:
    """Hide records on partitions that are spread over all; return the times until GET /blocked lists them."""
    leaders = KafkaPartitions(connection, "").layout().leaders
    expected: dict[str, float] = {}
    for number in range(min(facts, size)):
        at = number * size // min(facts, size)
        partition = (_topic(at), at % PER_TOPIC)
        write_late_record(connection, partition, leaders[partition])
        expected[f"{partition[0]}-{partition[1]}"] = time.monotonic()

    def shown() -> list[str]:
        rows = collector.get("blocked?limit=1000")["rows"]
        return [f"{row['topic']}-{row['partition']}" for row in rows if row["hidden"] > 0]

    return idle.to_api(expected, shown)


def measure(work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    """Measure one collector for each size, each with a broker of its own."""
    require_kernel(max(sizes))
    for size in sizes:
        directory = work / str(size)
        flags = (f"-XX:SharedArchiveFile={BROKER_CLASSES}", ARCHIVE_LOG_OFF, HEAP_FLAG)
        with Broker(directory / "broker", settings=SETTINGS, classes=flags) as broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            make_topics(connection, size)
            with idle.collector(broker.bootstrap_servers, directory / "collector") as collector:
                figures, threads = idle.at_rest(collector, broker.pid or 0, options)
                figures |= hidden_to_api(connection, collector, size, options.facts)
            figures |= idle.broker_alone(broker.pid or 0, options)
        yield Point(size=size, figures=figures, parts=threads)


def _topic(partition: int) -> str:
    return f"{TOPIC}{partition // PER_TOPIC:03}"


CURVE = Curve(
    name="partitions",
    title="an idle collector by partitions; fact: a record hides others, and only a look at its partition tells",
    sizes=(100, 1_000, 5_000, 10_000, 15_000),
    cost=idle.COST,
    columns={**idle.COLUMNS, idle.BROKER_ALONE: ".2f"},
    parts=idle.PARTS,
    measure=measure,
    disk_bytes=lambda size, _: size * PARTITION_DISK_BYTES,
)
