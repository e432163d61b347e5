"""A run: a pipeline with its topics, table, workload and independent readers, for faults and for the judge."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import KafkaAdminClient

from demo.checkpoint_directory import CheckpointDirectory
from demo.readers import LiveReader, scan
from demo.readers import Record as KafkaRecord
from indoubt.lifecycle.identity import TransactionalId
from indoubt.resource_managers.kafka.answers import AnswerKind
from indoubt.resource_managers.kafka.wire import wire
from tests.crash import judge
from tests.crash.files import Files
from tests.crash.judge import Anomaly, Produced, Record, Reread, TopicRead
from tests.crash.processes import CrashPipeline
from tests.crash.schedule import Schedule
from tests.crash.servers import Servers
from tests.crash.tables import Table, TableWatch, branches_in_doubt
from tests.crash.workload import Workload
from tests.integration.pipeline_process import wait_until

SETTLE_LIMIT_S = 300.0
ADMIN_LIMIT_S = 30.0
COMPLETION_LIMIT_S = 15.0
DECISIONS = "transaction_decisions"
BUSY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class GivenUp(Exception):
    """The caller no longer waits for the run."""


@dataclass(slots=True)
class Run:
    """A pipeline with its topics, table, workload and readers, for the faults."""

    schedule: Schedule
    servers: Servers
    directory: Path
    workload: Workload
    source: str
    sink: str
    table: Table | Files | None
    live: LiveReader | None
    watch: TableWatch | None
    dice: random.Random
    pipeline: CrashPipeline
    checkpoint: CheckpointDirectory
    given_up: threading.Event
    signals: Counter[str]
    """The number of sent signals by signal and process."""
    notes: list[str] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    """Anomalies that were seen during the run."""
    rows_checked: int = 0
    """How many rows the final readers got, in all sinks."""
    rereads: list[Reread] = field(default_factory=list)
    restarts: int = 0
    lost_rows: int = 0
    _pipelines: int = 0
    _counted: tuple[Any, Any, int] = (None, None, 0)
    """The last result of ``missing``: the readers' state, the object behind it (kept so that its id stays unique), the number."""

    @property
    def prefix(self) -> str:
        """Return the pipeline's prefix."""
        return self.source.removeprefix("in-")

    @property
    def produced(self) -> Produced:
        """Return the records that the judge must expect now."""
        return Produced(counts=dict(self.workload.counts), rereads=tuple(self.rereads))

    def wait_until(self, what: str, holds: Callable[[], Any], limit_s: float) -> Any:
        """Return the first true answer of ``holds``. Raises AssertionError, naming ``what``, and GivenUp."""

        def check() -> Any:
            if self.given_up.is_set():
                raise GivenUp(what)
            return holds()

        return wait_until(what, check, limit_s)

    def start_another(
        self, checkpoint: CheckpointDirectory | None = None, environment: Mapping[str, str] | None = None
    ) -> CrashPipeline:
        """Start another supervisor of this pipeline, by default on the same checkpoint directory."""
        self._pipelines += 1
        settings = dict(self.pipeline.settings)
        settings.pop("status_file")
        settings["checkpoint"] = (checkpoint or self.checkpoint).setting
        directory = self.directory / f"pipeline-{self._pipelines}"
        another = CrashPipeline(self.servers.connection, directory, self.signals, **settings)
        another.environment = environment or self.pipeline.environment
        another.start()
        return another

    def take_over(self, successor: CrashPipeline) -> None:
        """Continue with another supervisor; the earlier one has ended."""
        self.restarts += int(self.pipeline.status.get("restarts", 0)) + 1
        self.pipeline.stop()
        self.pipeline = successor

    def settle(self, what: str) -> None:
        """Wait until the readers see every produced record. Raises AssertionError with the number of missing records."""
        try:
            self.wait_until(f"all records in the sink after {what}", self.caught_up, SETTLE_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.missing()} records are missing") from None

    def caught_up(self) -> bool:
        """Return whether the live readers have seen every record as often as expected."""
        return self.missing() == 0

    def missing(self) -> int:
        """Return how many records the readers have not seen yet; a record expected twice and seen once counts as one."""
        read = self.live.records() if self.live is not None else []
        seen = self.watch.seen() if self.watch is not None else None
        # Most polls bring nothing new, so the count is repeated only after a change.
        state = (len(read), id(seen), self.workload.counts.total(), len(self.rereads))
        if state != self._counted[0]:
            self._counted = (state, seen, self._missing(read))
        return self._counted[2]

    def _missing(self, read: list[KafkaRecord]) -> int:
        produced = self.produced
        if self.table is not None and self.watch is not None and self.table.counts:
            seen = self.watch.seen()
            return sum(max(0, count - seen[word]) for word, count in produced.counts.items())
        sides: list[Counter[Any]] = []
        if self.live is not None:
            sides.append(Counter(self.workload.record_of(record.key, record.value) for record in read))
        if self.watch is not None:
            sides.append(self.watch.seen())
        return sum(
            max(0, produced.copies(record).start - side[record]) for side in sides for record in produced.records()
        )

    def committed_now(self) -> dict[str, int]:
        """Return how many records of each key a fresh read_committed scan of the sink returns."""
        return dict(Counter(read.record[0] for read in self.read_sink() if read.record is not None))

    def read_sink(self) -> list[TopicRead]:
        """Return the sink topic's records from a fresh read_committed reader."""
        return self._reads(scan(self.servers.bootstrap_servers, self.sink))

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

    def transactional_ids(self) -> dict[str, str]:
        """Return the state of every transactional id of this prefix, as the brokers list them."""
        admin = KafkaAdminClient(**self.servers.connection.for_kafka_python())
        try:
            listings = [listed for of_broker in admin.list_transactions().values() for listed in of_broker]
        finally:
            admin.close()
        states = {listed.transactional_id: str(listed.state.value) for listed in listings}
        return {id_: state for id_, state in states.items() if self._is_ours(id_)}

    def _is_ours(self, transactional_id: str) -> bool:
        parsed = TransactionalId.parse(transactional_id)
        return parsed is not None and parsed.prefix == self.prefix

    def open_transactions(self) -> list[str]:
        """Return this prefix's Kafka transactions that are open or being completed, as the brokers list them."""
        return [id_ for id_, state in self.transactional_ids().items() if state in BUSY]

    def marker_groups(self) -> list[str]:
        """Return the consumer groups that keep the markers of this prefix's slots."""
        # Keep the client until the answer has arrived: a collected client cancels its request.
        admin = self.servers.admin
        listed = admin.list_consumer_groups().result(ADMIN_LIMIT_S)
        assert not listed.errors, f"the consumer groups could not be listed: {listed.errors}"
        return [group.group_id for group in listed.valid if self._is_ours(f"{group.group_id}-0")]

    def require_nothing_in_doubt(self, after: str) -> None:
        """Note an anomaly for each transaction that is still open in any resource manager after the pipeline's end.

        The broker may take a moment to complete a transaction, but this does not wait for a timeout to end one.
        """
        kafka = self.transactional_ids()
        with contextlib.suppress(AssertionError):
            self.wait_until("the end of what is being completed", lambda: not self._completing(), COMPLETION_LIMIT_S)
        left = [f"kafka {id_}" for id_, state in kafka.items() if state == "Ongoing"]
        left += [f"kafka {id_}, {COMPLETION_LIMIT_S:.0f} s being completed" for id_ in self._completing()]
        left += self._branches()
        self.anomalies += judge.judge_end([f"{orphan} after {after}" for orphan in left], [])

    def _completing(self) -> list[str]:
        return [id_ for id_, state in self.transactional_ids().items() if state in BUSY - {"Ongoing"}]

    def _branches(self) -> list[str]:
        if isinstance(self.table, Files):
            return self.table.in_doubt()
        database = self.servers.database
        return [] if database is None else branches_in_doubt(database.administrator, self.prefix)

    def verdict(self) -> list[Anomaly]:
        """Judge the run after the pipeline's end, with fresh readers."""
        produced = self.produced
        if self.table is not None and self.watch is not None and self.table.counts:
            final = dict(self.table.final())
            self.rows_checked = len(final)
            counts = judge.judge_counts(self.table.name, produced.counts, final, self.watch.values)
            return [*self.anomalies, *counts, *judge.judge_end([], self._pending_markers())]
        anomalies: list[Anomaly] = []
        reads: list[TopicRead] = []
        if self.live is not None:
            reads = self.read_sink()
            self.rows_checked = len(reads)
            anomalies += judge.judge_topic(self.sink, produced, reads, self._reads(self.live.records()))
        if self.table is not None and self.watch is not None:
            rows = Counter(self._row(key, value) for key, value in self.table.final())
            self.rows_checked += rows.total()
            anomalies += judge.judge_table(f"table {self.table.name}", produced, rows, self.watch.most)
            if self.live is not None:
                topic: Counter[Record | bytes] = Counter(read.record or read.value for read in reads)
                anomalies += judge.judge_sides((self.sink, f"table {self.table.name}"), topic, rows)
        return [*self.anomalies, *anomalies, *judge.judge_end([], [*self._blocked(), *self._pending_markers()])]

    def _row(self, key: bytes, value: bytes) -> Record | bytes:
        return self.workload.record_of(key, value) or value

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

    def _pending_markers(self) -> list[str]:
        """Return this prefix's groups with a marker that is still neither committed nor aborted after a wait."""
        left = self.marker_groups()

        def settled() -> bool:
            left[:] = [group for group in left if self._is_pending(group)]
            return not left

        with contextlib.suppress(AssertionError):
            self.wait_until("stable markers", settled, COMPLETION_LIMIT_S)
        return [f"group {group} has a pending marker" for group in left]

    def _is_pending(self, group: str) -> bool:
        # Not by confluent-kafka's admin client: librdkafka 2.16 crashes where the group's coordinator has moved.
        ((answer, _, _),) = wire(self.servers.connection).committed_offsets([group], DECISIONS, stable=True)
        return not answer.is_done and answer.kind is not AnswerKind.UNKNOWN_GROUP
