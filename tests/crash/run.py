"""A run: one pipeline with its topics, table, workload and independent readers, for faults to work on and to be judged."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec
from kafka import KafkaAdminClient

from demo.readers import LiveReader, scan
from demo.readers import Record as KafkaRecord
from lifecycle.identity import TransactionalId
from tests.crash import judge
from tests.crash.full_disk import small_disk
from tests.crash.judge import Anomaly, Produced, Record, Reread, TopicRead
from tests.crash.processes import CrashPipeline
from tests.crash.schedule import Schedule, Sink
from tests.crash.servers import Servers
from tests.crash.tables import Table, TableWatch, branches_in_doubt, write_properties
from tests.crash.workload import LARGEST_MESSAGE_BYTES, Workload
from tests.integration.pipeline_process import wait_until

SETTLE_LIMIT_S = 300.0
ADMIN_LIMIT_S = 30.0
ALL_RESTARTS = 1000
BUSY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
# A driver lives for seconds here: what the JVM's second compiler would cost, it never earns back.
QUICK_START = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class FaultMissed(Exception):
    """A fault did not do what it is there for, so a clean verdict would prove nothing; the message says what failed."""


class GivenUp(Exception):
    """Whoever asked for the run does not wait for it any more."""


@dataclass(slots=True)
class Run:
    """What the faults work on: one pipeline with its topics, table, workload and readers."""

    schedule: Schedule
    servers: Servers
    directory: Path
    workload: Workload
    source: str
    sink: str
    table: Table | None
    live: LiveReader | None
    watch: TableWatch | None
    dice: random.Random
    pipeline: CrashPipeline
    checkpoint: Path
    given_up: threading.Event
    notes: list[str] = field(default_factory=list)
    rereads: list[Reread] = field(default_factory=list)
    restarts: int = 0
    lost_rows: int = 0
    _pipelines: int = 0
    _counted: tuple[Any, Any, int] = (None, None, 0)
    """What ``missing`` found last: for which state of the readers, their look (held, so that its id stays its own), how many."""

    @property
    def prefix(self) -> str:
        """Return the pipeline's prefix."""
        return self.source.removeprefix("in-")

    @property
    def produced(self) -> Produced:
        """Return what the judge must expect now."""
        return Produced(counts=dict(self.workload.counts), rereads=tuple(self.rereads))

    def wait_until(self, what: str, holds: Callable[[], Any], limit_s: float) -> Any:
        """Return the first true answer of ``holds``. Raises AssertionError naming what was waited for, and GivenUp."""

        def look() -> Any:
            if self.given_up.is_set():
                raise GivenUp(what)
            return holds()

        return wait_until(what, look, limit_s)

    def start_another(self, checkpoint: Path | None = None) -> CrashPipeline:
        """Start one more supervisor of this very pipeline, on the same checkpoint directory unless told otherwise."""
        self._pipelines += 1
        settings = dict(self.pipeline.settings)
        settings.pop("status_file")
        settings["checkpoint"] = str(checkpoint or self.checkpoint)
        another = CrashPipeline(self.servers.connection, self.directory / f"pipeline-{self._pipelines}", **settings)
        another.start()
        return another

    def take_over(self, successor: CrashPipeline) -> None:
        """Go on with another supervisor; the one before has ended."""
        self.restarts += int(self.pipeline.status.get("restarts", 0)) + 1
        self.pipeline.stop()
        self.pipeline = successor

    def settle(self, what: str) -> None:
        """Wait until the readers see every record that was produced. Raises AssertionError saying how many are missing."""
        try:
            self.wait_until(f"all records in the sink after {what}", self.caught_up, SETTLE_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.missing()} records are missing") from None

    def caught_up(self) -> bool:
        """Say whether the live readers have seen every record as often as it must be there."""
        return self.missing() == 0

    def missing(self) -> int:
        """Return how many records the readers have not seen yet; a record due twice and seen once counts as one."""
        read = self.live.records() if self.live is not None else []
        looked = self.watch.seen() if self.watch is not None else None
        # Most looks find nothing new: two cores have better things to do than to count it again.
        state = (len(read), id(looked), self.workload.counts.total(), len(self.rereads))
        if state != self._counted[0]:
            self._counted = (state, looked, self._missing(read))
        return self._counted[2]

    def _missing(self, read: list[KafkaRecord]) -> int:
        produced = self.produced
        if self.table is not None and self.watch is not None and self.table.counts:
            seen = self.watch.seen()
            return sum(max(0, count - seen[word]) for word, count in produced.counts.items())
        sides: list[Counter[Any]] = []
        if self.live is not None:
            sides.append(Counter(self.workload.record_of(one.key, one.value) for one in read))
        if self.watch is not None:
            sides.append(self.watch.seen())
        return sum(
            max(0, produced.copies(record).start - side[record]) for side in sides for record in produced.records()
        )

    def committed_now(self) -> dict[str, int]:
        """Return how many records of each key a fresh read_committed scan of the sink finds."""
        return dict(Counter(read.record[0] for read in self.read_sink() if read.record is not None))

    def read_sink(self) -> list[TopicRead]:
        """Return what a fresh read_committed reader of the sink topic gets."""
        return self._reads(scan(self.servers.broker.bootstrap_servers, self.sink))

    def _reads(self, records: Any) -> list[TopicRead]:
        return [
            TopicRead(
                partition=read.partition,
                offset=read.offset,
                record=self.workload.record_of(read.key, read.value),
                value=read.value or b"",
            )
            for read in records
        ]

    def open_transactions(self) -> list[str]:
        """Return this prefix's Kafka transactions that are open or being completed, as the brokers list them."""
        admin = KafkaAdminClient(**self.servers.connection.for_kafka_python())
        try:
            listings = [listed for found in admin.list_transactions().values() for listed in found]
        finally:
            admin.close()
        ids = [listed.transactional_id for listed in listings if listed.state.value in BUSY]
        return [id_ for id_ in ids if (parsed := TransactionalId.parse(id_)) and parsed.prefix == self.prefix]

    def verdict(self) -> list[Anomaly]:
        """Judge the run as it stands after the pipeline's end, by fresh readers."""
        produced = self.produced
        if self.table is not None and self.watch is not None and self.table.counts:
            final = dict(self.table.final())
            return [
                *judge.judge_counts(self.table.name, produced.counts, final, self.watch.values),
                *judge.judge_end(self._orphans(), []),
            ]
        reads = self.read_sink()
        assert self.live is not None
        found = judge.judge_topic(self.sink, produced, reads, self._reads(self.live.records()))
        if self.table is not None and self.watch is not None:
            rows = Counter(self._row(key, value) for key, value in self.table.final())
            found += judge.judge_table(f"table {self.table.name}", produced, rows, self.watch.most)
            topic: Counter[Record | bytes] = Counter(read.record or read.value for read in reads)
            found += judge.judge_sides((self.sink, f"table {self.table.name}"), topic, rows)
        return found + judge.judge_end(self._orphans(), self._blocked())

    def _row(self, key: bytes, value: bytes) -> Record | bytes:
        return self.workload.record_of(key, value) or value

    def _orphans(self) -> list[str]:
        found = [f"kafka {id_}" for id_ in self.open_transactions()]
        if self.servers.database is not None:
            found += branches_in_doubt(self.servers.database.administrator, self.prefix)
        return found

    def _blocked(self) -> list[str]:
        """Return the sink's partitions whose last stable offset is not their end."""
        admin = self.servers.admin
        partitions = admin.list_topics(self.sink, timeout=ADMIN_LIMIT_S).topics[self.sink].partitions

        def ends(isolation: IsolationLevel) -> dict[int, int]:
            asked = {TopicPartition(self.sink, number): OffsetSpec.latest() for number in partitions}
            answers = admin.list_offsets(asked, isolation_level=isolation)
            return {where.partition: answer.result(ADMIN_LIMIT_S).offset for where, answer in answers.items()}

        stable, end = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
        return [f"partition {n} ends at {end[n]}, readable to {stable[n]}" for n in end if stable[n] < end[n]]


@contextlib.contextmanager
def running(schedule: Schedule, servers: Servers, directory: Path, given_up: threading.Event) -> Iterator[Run]:
    """Yield a run whose pipeline has been started; on the way out everything of it ends."""
    dice = random.Random(f"run {schedule.seed}")
    prefix = f"crash-{schedule.seed}"
    source, sink, words = f"in-{prefix}", f"out-{prefix}", not schedule.sink.has_topic
    large = {"max.message.bytes": str(LARGEST_MESSAGE_BYTES)}
    topics = [NewTopic(source, schedule.partitions, 1, config=large), NewTopic(sink, 2, 1, config=large)]
    admin = servers.admin
    for made in admin.create_topics(topics).values():
        made.result(ADMIN_LIMIT_S)
    workload = Workload(
        servers.connection, source, partitions=schedule.partitions, keys=schedule.keys, dice=dice, words=words
    )
    workload.produce(schedule.first_records)
    settings: dict[str, Any] = {
        "job": "word_count" if words else "passthrough",
        "source": source,
        "sink": sink,
        "prefix": prefix,
        "transaction_timeout_ms": schedule.timeout_ms,
        "trigger_interval_ms": schedule.trigger_ms,
        "restart_delay_ms": 300,
        "restart_attempts": ALL_RESTARTS,
        "producer_properties": f"message.max.bytes={LARGEST_MESSAGE_BYTES}",
        # Two tasks at once; one that fails is tried again twice, as on a cluster.
        "spark_master": "local[2,3]",
        "spark_properties": QUICK_START,
    }
    table = _table(schedule, servers, directory, settings)
    disk = directory / "disk"
    with contextlib.ExitStack() as stack:
        if any(strike.fault == "disk-full" for strike in schedule.strikes):
            stack.enter_context(small_disk(disk))
        settings["checkpoint"] = str(disk / "checkpoint")
        pipeline = CrashPipeline(servers.connection, directory / "pipeline-0", **settings)
        live = LiveReader(servers.broker.bootstrap_servers, sink) if schedule.sink.has_topic else None
        watch = TableWatch(table, _head_reader(workload)) if table else None
        for reader in (live, watch):
            if reader is not None:
                stack.enter_context(reader)
        run = Run(
            schedule=schedule,
            servers=servers,
            directory=directory,
            workload=workload,
            source=source,
            sink=sink,
            table=table,
            live=live,
            watch=watch,
            dice=dice,
            pipeline=pipeline,
            checkpoint=disk / "checkpoint",
            given_up=given_up,
        )
        pipeline.start()
        stack.callback(lambda: run.pipeline.stop())
        yield run


def _table(schedule: Schedule, servers: Servers, directory: Path, settings: dict[str, Any]) -> Table | None:
    """Make the schedule's table, and name it in the pipeline's settings."""
    if servers.database is None:
        return None
    connection = servers.database.connection
    table = Table(connection, settings["prefix"].replace("-", "_"), counts=schedule.sink is Sink.COUNTS_IN_MYSQL)
    table.create()
    write_properties(directory / "database.properties", connection)
    settings["database_properties"] = str(directory / "database.properties")
    written = f"{connection.kind}:{table.name}"
    settings["sink"] = f"{settings['sink']},{written}" if schedule.sink.has_topic else written
    return table


def _head_reader(workload: Workload) -> Callable[[bytes, bytes], Record | bytes]:
    """Return how a look during the run names a row: by the head of its value, which holds key and serial."""

    def record_of(key: bytes, head: bytes) -> Record | bytes:
        name, _, serial = head[:40].rpartition(b":")[0].partition(b":")
        return (key.decode(), int(serial)) if name == key and serial.isdigit() else head

    return record_of
