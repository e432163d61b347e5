"""The servers of a run of seeds: shared servers, and own servers for a seed that restarts them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient

from demo.broker import Broker
from demo.database_server import DatabaseServer
from demo.kafka_cluster import KafkaCluster
from demo.mariadb_server import MariaDbServer
from demo.object_store import ObjectStore
from demo.postgres_server import PostgresServer
from demo.whole_cluster import WholeCluster
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.crash.catalogue import S3, Own
from tests.crash.schedule import Schedule
from tests.integration.pipeline_process import make_topics, wait_until

_DAYS_ARE_SECONDS = {
    "transactional.id.expiration.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "15000",
    "producer.id.expiration.check.interval.ms": "1000",
    # Kafka's minimum is a minute.
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "log.retention.ms": "15000",
    "log.roll.ms": "5000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}
"""By default Kafka keeps ids, committed offsets and segments for 7 days, and producer ids for one day."""
DATABASES: Mapping[str, type[DatabaseServer]] = {"mysql": MariaDbServer, "postgres": PostgresServer}
ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers of a seed: one broker, or those of ``cluster``; ``database`` is None if the sink is only a topic.

    ``whole``: what the pipeline runs on where its tasks run on executors.
    """

    brokers: tuple[Broker, ...]
    cluster: KafkaCluster | None
    database: DatabaseServer | None
    whole: WholeCluster | None
    store: ObjectStore | None = None
    """Where the sink's files are; None: on this machine, or there are none."""

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all brokers."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def connection(self) -> KafkaConnection:
        """Return a connection to the brokers."""
        return KafkaConnection(self.bootstrap_servers)

    @property
    def admin(self) -> AdminClient:
        """Return a new admin client without log lines; keep it while its requests run."""
        return AdminClient(self.connection.for_librdkafka(log_level=0))

    def await_broker(self) -> None:
        """Wait until a restarted broker answers with its topics, and until all brokers of a cluster have every partition."""
        admin = self.admin
        wait_until("the broker's answer after its restart", lambda: _answers(admin), ANSWER_LIMIT_S)
        if self.cluster is not None:
            self.cluster.await_replicas(admin)


class SharedServers:
    """A context manager that ends the servers that it started. Enter it in a thread that lives as long as they must."""

    def __init__(self, directory: Path, broker: Broker | None = None, **databases: DatabaseServer) -> None:
        """Use ``broker`` and ``databases`` (by kind) that run already, and do not end them."""
        self._directory, self._broker, self._databases = directory, broker, dict(databases)
        self._stack = contextlib.ExitStack()
        self._making_topics = threading.Lock()
        self._whole: WholeCluster | None = None
        self._one_at_a_time = threading.Lock()
        """A fault of the whole cluster concerns everything on it."""

    def __enter__(self) -> SharedServers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start_for(self, schedule: Schedule) -> None:
        """Start the shared servers of this schedule that do not run yet."""
        if schedule.on_cluster and self._whole is None:
            self._whole = self._stack.enter_context(WholeCluster(self._directory / "cluster"))
        if schedule.broker is None and self._broker is None:
            self._broker = self._stack.enter_context(Broker(self._directory / "broker"))
        kind = schedule.sink.database
        if kind and Own.DATABASE not in schedule.owns and kind not in self._databases:
            self._databases[kind] = self._stack.enter_context(DATABASES[kind](self._directory / kind))

    @contextlib.contextmanager
    def of(self, schedule: Schedule, directory: Path) -> Iterator[Servers]:
        """Yield the Servers of a seed; its own servers end with the context, the shared ones stay."""
        with contextlib.ExitStack() as own:
            cluster: KafkaCluster | None = None
            brokers: tuple[Broker, ...]
            if schedule.on_cluster:
                assert self._whole is not None, "start_for was not called for this schedule"
                own.enter_context(self._one_at_a_time)
                # A schedule that failed may have left something dead or disturbed.
                self._whole.store.heal()
                _ = [*self._whole.keep()]
                cluster = self._whole.kafka
                brokers = cluster.brokers
            elif schedule.broker is Own.CLUSTER:
                cluster = own.enter_context(KafkaCluster(directory / "cluster", brokers=2, min_isr=schedule.min_isr))
                brokers = cluster.brokers
            elif schedule.broker is not None:
                settings = _DAYS_ARE_SECONDS if schedule.broker is Own.EXPIRING else None
                brokers = (own.enter_context(Broker(directory / "broker", settings=settings)),)
            else:
                assert self._broker is not None, "start_for was not called for this schedule"
                brokers = (self._broker,)
            kind = schedule.sink.database
            database = self._databases.get(kind)
            if Own.DATABASE in schedule.owns:
                database = own.enter_context(DATABASES[kind](directory / kind))
            servers = Servers(
                brokers=brokers,
                cluster=cluster,
                database=database if kind else None,
                whole=self._whole if schedule.on_cluster else None,
                store=own.enter_context(ObjectStore(directory / "store")) if schedule.files == S3 else None,
            )
            servers.await_broker()
            with self._making_topics:
                make_topics(servers.connection, "transaction_lifecycle")
            yield servers


def _answers(admin: AdminClient) -> bool:
    with contextlib.suppress(Exception):
        return bool(admin.list_topics(timeout=5).brokers)
    return False
