"""The servers of a run of seeds: shared ones, started once, and ones of its own for a seed that restarts them."""

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
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka_connection import KafkaConnection
from tests.crash.schedule import Schedule
from tests.integration.pipeline_process import make_topics, wait_until

ID_EXPIRY_MS = 10_000
_SHORT_LIVED_IDS = {
    "transactional.id.expiration.ms": str(ID_EXPIRY_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
"""For the seed whose markers expire: ids expire after 7 days by default."""
DATABASES: Mapping[str, type[DatabaseServer]] = {"mysql": MariaDbServer, "postgres": PostgresServer}
ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers that one seed uses; ``database`` is None for a sink that is a topic alone."""

    broker: Broker
    database: DatabaseServer | None

    @property
    def connection(self) -> KafkaConnection:
        """Return a connection to the broker."""
        return KafkaConnection(self.broker.bootstrap_servers)

    @property
    def admin(self) -> AdminClient:
        """Return a new admin client, to be kept while it works; its reconnects while the broker is down are no news to anybody."""
        return AdminClient(self.connection.for_librdkafka(log_level=0))

    def await_broker(self) -> None:
        """Return when the broker answers with its topics, after a restart."""
        admin = self.admin
        wait_until("the broker's answer after its restart", lambda: _answers(admin), ANSWER_LIMIT_S)


class SharedServers:
    """A context manager that ends what it started. Enter it in a thread that lives as long as the servers must."""

    def __init__(self, directory: Path, broker: Broker | None = None, **databases: DatabaseServer) -> None:
        """``broker`` and ``databases`` (by kind) that run already are used and not ended."""
        self._directory, self._broker, self._databases = directory, broker, dict(databases)
        self._stack = contextlib.ExitStack()
        self._making_topics = threading.Lock()

    def __enter__(self) -> SharedServers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start_for(self, schedule: Schedule) -> None:
        """Start what the schedule shares with others and what does not run yet."""
        if "broker" not in schedule.owns and self._broker is None:
            self._broker = self._stack.enter_context(Broker(self._directory / "broker"))
        kind = schedule.sink.database
        if kind and "database" not in schedule.owns and kind not in self._databases:
            self._databases[kind] = self._stack.enter_context(DATABASES[kind](self._directory / kind))

    @contextlib.contextmanager
    def of(self, schedule: Schedule, directory: Path) -> Iterator[Servers]:
        """Yield the Servers of one seed; its own end with it, the shared ones stay."""
        with contextlib.ExitStack() as own:
            broker = self._broker
            if "broker" in schedule.owns:
                expires = any(strike.fault == "marker-expired" for strike in schedule.strikes)
                broker = own.enter_context(Broker(directory / "broker", settings=_SHORT_LIVED_IDS if expires else None))
            kind = schedule.sink.database
            database = self._databases.get(kind)
            if "database" in schedule.owns:
                database = own.enter_context(DATABASES[kind](directory / kind))
            assert broker is not None, "start_for was not called for this schedule"
            servers = Servers(broker=broker, database=database if kind else None)
            servers.await_broker()
            with self._making_topics:
                DecisionLog(servers.connection).ensure_topic()
                make_topics(servers.connection, "transaction_lifecycle")
            yield servers


def _answers(admin: AdminClient) -> bool:
    with contextlib.suppress(Exception):
        return bool(admin.list_topics(timeout=5).brokers)
    return False
