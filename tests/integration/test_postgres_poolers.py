"""PostgreSQL through PgBouncer, which lends a session of the server for one transaction, or keeps one for each client."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg
import pytest

from demo.postgres_server import PostgresServer
from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.postgres.resource_manager import PostgresResourceManager
from tests.integration.database_addresses import LIMIT_S, pooled
from tests.integration.database_fixtures import COLUMNS, ask, connect

pytestmark = pytest.mark.integration
LOOKS = 40
GIDS = ["orders 1", "orders 2"]
SETTINGS = "select current_setting('lock_timeout'), current_setting('synchronous_commit'), current_setting('timezone')"


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    ask(postgres.connection, "create table pooled (word varchar(100) primary key, count bigint not null)")
    yield postgres
    for gid in ask(postgres.connection, "select gid from pg_prepared_xacts where gid like 'orders %'"):
        ask(postgres.connection, f"rollback prepared '{gid[0]}'")
    ask(postgres.connection, "drop table pooled")


def prepare(server: PostgresServer, gid: str) -> None:
    with contextlib.closing(connect(server.connection)) as driver:
        driver.execute("begin")
        driver.execute("insert into pooled values (%s, 1)", (gid,))
        driver.execute(f"prepare transaction '{gid}'")


@contextlib.contextmanager
def another_program(connection: DatabaseConnection) -> Iterator[None]:
    """Let a program share the pool that prepares its statements, as its driver does unless it is told not to."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            with contextlib.suppress(psycopg.Error), contextlib.closing(connect(connection)) as driver:
                while not ended.wait(0.01):
                    driver.execute("select %s::int, 'x'::name", (1,))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(LIMIT_S)


def test_branches_are_watched_and_ended_through_sessions_that_are_lent(server: PostgresServer) -> None:
    for gid in GIDS:
        prepare(server, gid)
    before = ask(server.connection, SETTINGS)
    with pooled(server, "transaction") as lent, another_program(lent):
        manager = PostgresResourceManager(lent)
        watch = manager.watch(5.0)
        listings = [watch.list_branches() for _ in range(LOOKS)]
        watch.close()
        assert [sorted(b.transaction for b in listing.branches) for listing in listings] == [GIDS] * LOOKS
        (name,) = {listing.server for listing in listings}
        assert name.startswith("system ")
        first, second = sorted(manager.list_transactions(), key=lambda view: view.transaction)
        assert manager.at(name).fence([first], LIMIT_S) == [""]
        assert manager.at(name).commit_open([second], LIMIT_S) == [""]
        assert [ask(lent, SETTINGS) for _ in range(5)] == [before] * 5, "the settings of others' sessions"
    assert ask(server.connection, "select word from pooled") == [(GIDS[1],)]


def test_a_pool_that_lends_its_only_session_is_refused_as_quickly(server: PostgresServer) -> None:
    with pooled(server, "transaction", size=1) as lent, pytest.raises(SettingsError, match="pool_mode = session"):
        PostgresResourceManager(lent, table="pooled").verify(COLUMNS)


def test_a_pipeline_takes_no_pool_that_lends_sessions(server: PostgresServer) -> None:
    PostgresResourceManager(server.connection, table="pooled").verify(COLUMNS)
    with pooled(server, "session") as kept:
        PostgresResourceManager(kept, table="pooled").verify(COLUMNS)
    with pooled(server, "transaction") as lent:
        alone = PostgresResourceManager(lent, table="pooled")
        with pytest.raises(SettingsError, match="pool_mode = session"):
            alone.verify(COLUMNS)
        with another_program(lent):
            for _ in range(5):
                with pytest.raises(SettingsError, match="pool_mode = session"):
                    alone.verify(COLUMNS)
