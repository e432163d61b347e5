"""Every fault by its name: its points, its sinks, and the server that it needs for itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Sink(Enum):
    """The pipeline's sinks; the value is the description."""

    TOPIC = "topic"
    TOPIC_AND_MYSQL = "topic and MariaDB table, one global transaction"
    TOPIC_AND_POSTGRES = "topic and PostgreSQL table, one global transaction"
    COUNTS_IN_MYSQL = "running counts in a MariaDB table (upserts)"
    FILES = "Parquet files"
    TOPIC_AND_FILES = "topic and Parquet files, one global transaction"

    @property
    def has_topic(self) -> bool:
        """Return whether the pipeline writes to a topic."""
        return self not in (Sink.COUNTS_IN_MYSQL, Sink.FILES)

    @property
    def has_files(self) -> bool:
        """Return whether the pipeline writes files: only seeds that are asked for files have such a sink."""
        return self in (Sink.FILES, Sink.TOPIC_AND_FILES)

    @property
    def database(self) -> str:
        """Return the kind of the database, empty for none."""
        return {Sink.TOPIC_AND_POSTGRES: "postgres", Sink.TOPIC_AND_MYSQL: "mysql", Sink.COUNTS_IN_MYSQL: "mysql"}.get(
            self, ""
        )


TASK_POINTS = ("before-begin", "while-writing", "after-flush", "slot-prepared")
COMMIT_POINTS = ("after-prepare", "before-decision", "after-decision", "mid-commit", "after-commit")
WORKER_POINTS = TASK_POINTS + COMMIT_POINTS
DRIVER_POINTS = (*WORKER_POINTS, "mid-recovery")
UNDECIDED_POINTS = ("after-prepare", "before-decision")
DECIDED_POINTS = ("after-decision", "mid-commit", "after-commit")
OPEN_POINTS = ("after-flush", "slot-prepared", "after-prepare", "before-decision", "after-decision", "mid-commit")
"""The points at which a transaction is open, so that it can time out."""


LOCAL, S3 = "local", "s3"
"""Where a sink's files are."""


class Own(Enum):
    """A server that a seed does not share, because a fault affects it; the value is the description."""

    BROKER = "a broker"
    EXPIRING = "a broker that keeps ids, offsets and segments for seconds"
    CLUSTER = "two brokers"
    WHOLE_CLUSTER = "three brokers, Spark's standalone cluster, checkpoints in an object store"
    DATABASE = "a database"
    STORE = "an object store for its files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault. ``points``: the crash points from which the dice choose; ``sinks``: the sinks for which it makes sense.

    ``own``: the server that the seed needs for itself. ``past_timeout``: it waits for the transaction timeout, so the timeout
    is short. ``two_ways``: it also has a harder variant (SIGKILL of a server instead of a stop, the end of a frozen driver
    instead of waking it). ``hits``: how many signals it sends at random times.
    """

    name: str
    points: tuple[str, ...] = ("",)
    sinks: frozenset[Sink] = frozenset(Sink)
    own: Own | None = None
    past_timeout: bool = False
    two_ways: bool = False
    hits: int = 0

    @property
    def goes_on_cluster(self) -> bool:
        """Return whether the whole cluster has what it takes: no server of another kind, and no disk of the driver's."""
        return self.own in (None, Own.DATABASE, Own.WHOLE_CLUSTER) and self.name != "disk-full"

    def goes_with_files(self, where: str) -> bool:
        """Return whether it makes sense for files that are LOCAL or in S3, beside a broker that others share."""
        return self.own is None or (self.own is Own.STORE and where == S3)


_WITH_TOPIC = frozenset(sink for sink in Sink if sink.has_topic)
_WITH_DATABASE = frozenset(sink for sink in Sink if sink.database)
_WITH_FILES = frozenset(sink for sink in Sink if sink.has_files)
_TOPIC_ALONE = frozenset({Sink.TOPIC})
HITS = 3
PIPELINE_PROCESSES = ("supervisor", "driver", "jvm", "worker")

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *(Fault(name=f"kill-driver-{point}", points=(point,)) for point in DRIVER_POINTS),
        *(Fault(name=f"kill-worker-{point}", points=(point,)) for point in WORKER_POINTS),
        Fault(name="driver-frozen", points=OPEN_POINTS, sinks=_WITH_TOPIC, past_timeout=True),
        Fault(name="worker-frozen", points=OPEN_POINTS, sinks=_WITH_TOPIC, past_timeout=True),
        Fault(name="timed-out-after-decision", points=("after-decision",), sinks=_WITH_TOPIC, past_timeout=True),
        Fault(name="broker-restart", points=OPEN_POINTS, sinks=_TOPIC_ALONE, own=Own.BROKER, two_ways=True),
        Fault(
            name="broker-away",
            points=OPEN_POINTS,
            sinks=_TOPIC_ALONE,
            own=Own.BROKER,
            past_timeout=True,
            two_ways=True,
        ),
        Fault(name="broker-of-two-lost", points=OPEN_POINTS, sinks=_WITH_TOPIC, own=Own.CLUSTER, two_ways=True),
        Fault(
            name="database-restart", points=("after-decision",), sinks=_WITH_DATABASE, own=Own.DATABASE, two_ways=True
        ),
        *(Fault(name=f"random-{process}", hits=HITS) for process in PIPELINE_PROCESSES),
        Fault(name="random-broker", sinks=_TOPIC_ALONE, own=Own.BROKER, hits=HITS),
        Fault(name="random-brokers", sinks=_WITH_TOPIC, own=Own.CLUSTER, hits=HITS),
        Fault(name="random-database", sinks=_WITH_DATABASE, own=Own.DATABASE, hits=HITS),
        Fault(name="stopped-while-busy"),
        Fault(name="stopped-by-force", points=OPEN_POINTS),
        Fault(name="checkpoint-copied", sinks=_WITH_TOPIC),
        Fault(name="checkpoint-deleted", points=(*WORKER_POINTS, ""), sinks=_WITH_TOPIC),
        Fault(name="partitions-added", points=(*WORKER_POINTS, "")),
        Fault(name="empty-batch"),
        Fault(name="large-record", sinks=_WITH_TOPIC),
        Fault(name="disk-full"),
        Fault(name="operator-abort", points=UNDECIDED_POINTS, two_ways=True),
        Fault(name="foreign-fence", points=("after-decision",), sinks=_WITH_TOPIC, two_ways=True),
        Fault(name="log-trimmed", points=WORKER_POINTS, two_ways=True),
        Fault(name="expired-after-stop", sinks=_WITH_TOPIC, own=Own.EXPIRING),
        Fault(
            name="expired-after-crash", points=WORKER_POINTS, sinks=_TOPIC_ALONE, own=Own.EXPIRING, past_timeout=True
        ),
        Fault(name="expired-while-running", points=WORKER_POINTS, sinks=_WITH_TOPIC, own=Own.EXPIRING, two_ways=True),
        Fault(name="node-killed", points=TASK_POINTS, own=Own.WHOLE_CLUSTER),
        Fault(name="executor-killed", points=TASK_POINTS, own=Own.WHOLE_CLUSTER),
        Fault(name="driver-moved", points=OPEN_POINTS, own=Own.WHOLE_CLUSTER, two_ways=True),
        Fault(
            name="coordinator-killed",
            points=("after-decision", "mid-commit"),
            sinks=_WITH_TOPIC,
            own=Own.WHOLE_CLUSTER,
        ),
        Fault(name="brokers-rolled", points=OPEN_POINTS, own=Own.WHOLE_CLUSTER),
        Fault(name="leader-moved", points=OPEN_POINTS, sinks=_WITH_TOPIC, own=Own.WHOLE_CLUSTER),
        Fault(name="broker-frozen", points=OPEN_POINTS, own=Own.WHOLE_CLUSTER),
        Fault(name="replicas-missing", points=OPEN_POINTS, own=Own.WHOLE_CLUSTER, two_ways=True),
        Fault(name="store-unavailable", points=WORKER_POINTS, own=Own.WHOLE_CLUSTER, two_ways=True),
        Fault(name="store-late", points=WORKER_POINTS, own=Own.WHOLE_CLUSTER),
        Fault(name="files-unavailable", points=WORKER_POINTS, sinks=_WITH_FILES, own=Own.STORE, two_ways=True),
        Fault(name="files-late", points=WORKER_POINTS, sinks=_WITH_FILES, own=Own.STORE),
    )
}
"""Every fault by name; docs/faults.md describes what each does and the expected outcome."""
