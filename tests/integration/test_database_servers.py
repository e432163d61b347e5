"""The address of a database leads to another server: its silence ends nothing, and no order reaches it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from demo.broker import Broker
from demo.database_server import DatabaseServer
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from tests.integration.collector_process import CollectorProcess, running
from tests.integration.database_addresses import LIMIT_S, MovingAddress, Standby
from tests.integration.database_fixtures import ask, connect
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
SETTINGS = {"INDOUBT_DATABASE_POLLING_MS": "200"}
GID, XID = "payment 4711", "'payment','4711',9"
TABLE = "create table t (id int primary key)"


def prepare(server: DatabaseServer, name: str, number: int = 1) -> None:
    """Prepare somebody else's transaction that writes one row."""
    xid = name if server.kind == "mysql" else ""
    insert = f"insert into t values ({number})"  # noqa: S608 (a number made here)
    begin, end = (
        (f"xa start {xid}", [f"xa end {xid}", f"xa prepare {xid}"])
        if xid
        else ("begin", [f"prepare transaction '{name}'"])
    )
    driver = connect(server.connection)
    with driver.cursor() as cursor:
        for statement in (begin, insert, *end):
            cursor.execute(statement)
    driver.close()


@contextmanager
def watching(broker: Broker, address: MovingAddress, server: DatabaseServer, home: Path) -> Iterator[CollectorProcess]:
    """Run a collector that reaches the server by this address."""
    to, file = server.connection, home / "database.properties"
    values = {
        "host": "127.0.0.1",
        "port": address.port,
        "user": to.user,
        "password": to.password,
        "database": to.database,
    }
    file.write_text("".join(f"{to.kind}.{name}={value}\n" for name, value in values.items()))
    with running(
        broker.bootstrap_servers, home / "collector", ["--database-properties", str(file)], SETTINGS
    ) as process:
        yield process


def wait_for_observer(collector: CollectorProcess, name: str, state: str, says: str) -> None:
    def holds() -> bool:
        found = collector.observer(f"database {name}")
        return found["state"] == state and says in found["error"]

    wait_until(f"database {name} is {state} and says {says!r}", holds, LIMIT_S)


def polls(collector: CollectorProcess, name: str) -> None:
    """Return when the database was polled several times since now: two polls in a row used to end a branch."""
    seen: list[int] = []

    def again() -> bool:
        delay = collector.observer(f"database {name}")["delay_ms"]
        if not seen or delay < seen[-1]:
            seen.append(delay)
        else:
            seen[-1] = delay
        return len(seen) > 5

    wait_until(f"database {name} is polled again and again", again, LIMIT_S)


def detail(collector: CollectorProcess, row: dict[str, Any]) -> dict[str, Any]:
    return dict(collector.get(f"transactions/{quote(str(row['key']), safe='')}"))


def refused(collector: CollectorProcess, row: dict[str, Any], because: str) -> None:
    answer = collector.order("abort", row, confirm=row["transaction"])
    assert answer.status_code >= 400, answer.text
    assert because in json.dumps(answer.json())


def test_what_a_standby_does_not_list_has_not_ended(broker: Broker, tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "primary", settings={"max_wal_senders": "5"}) as primary:
        ask(primary.connection, TABLE)
        prepare(primary, GID)
        with (
            Standby(tmp_path / "standby", primary) as standby,
            MovingAddress(primary) as address,
            watching(broker, address, primary, tmp_path) as collector,
        ):
            seen = collector.wait_for(GID, verdict="foreign", may_abort=True)
            address.lead_to(standby)
            wait_for_observer(collector, "postgres", "down", "a standby answers")
            assert ask(standby.connection, "select gid from pg_prepared_xacts") == []
            row = collector.wait_for(GID, "a standby answers", verdict="foreign", state="prepared")
            refused(collector, row, "a standby answers")
            # It takes over: the branch goes on there, and the old primary, which nobody stopped, is another server.
            standby.promote()
            wait_for_observer(collector, "postgres", "up", "")
            promoted = collector.wait_for(GID, verdict="foreign", may_abort=True)
            assert (promoted["opened_at_ms"], promoted["key"]) == (seen["opened_at_ms"], seen["key"])
            prepare(standby, "payment 4712", number=2)
            collector.wait_for("payment 4712", verdict="foreign")
            address.lead_to(primary)
            wait_for_observer(collector, "postgres", "up", "another server had listed 1 branch")
            polls(collector, "postgres")
            row = collector.wait_for("payment 4712", "timeline 1", "timeline 2", verdict="foreign", state="prepared")
            refused(collector, row, "nothing was sent")
            assert ask(standby.connection, "select count(*) from pg_prepared_xacts") == [(2,)]
            address.lead_to(standby)
            ask(standby.connection, "rollback prepared 'payment 4712'")
            collector.wait_for("payment 4712", verdict="settled", certainty="certain")


def test_a_branch_that_a_promoted_standby_lacks_has_likely_ended(broker: Broker, tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "primary", settings={"max_wal_senders": "5"}) as primary:
        ask(primary.connection, TABLE)
        with Standby(tmp_path / "standby", primary) as standby:
            standby.promote()
            # The old primary prepares what no standby receives.
            prepare(primary, GID)
            with MovingAddress(primary) as address, watching(broker, address, primary, tmp_path) as collector:
                collector.wait_for(GID, verdict="foreign")
                address.lead_to(standby)
                row = collector.wait_for(GID, "has all that the one had", verdict="settled")
                assert (row["certainty"], row["rule"]) == ("likely", 1)


def test_what_another_mariadb_server_does_not_list_has_not_ended(broker: Broker, tmp_path: Path) -> None:
    with MariaDbServer(tmp_path / "first") as first, MariaDbServer(tmp_path / "second") as second:
        password = first.connection.password
        for server in (first, second):
            ask(server.connection, TABLE)
            ask(server.administrator, f"alter user {server.connection.user} identified by '{password}'")
        prepare(first, XID)
        with MovingAddress(first) as address, watching(broker, address, first, tmp_path) as collector:
            collector.wait_for(XID, verdict="foreign")
            address.lead_to(second)
            wait_for_observer(collector, "mysql", "up", "another server had listed 1 branch")
            # Which server listed it is in history.
            assert collector.stop() == 0
            collector.start()
            wait_for_observer(collector, "mysql", "up", "another server had listed 1 branch")
            polls(collector, "mysql")
            ports = f"port {first.port}", f"port {second.port}"
            row = collector.wait_for(XID, *ports, verdict="foreign", state="prepared")
            refused(collector, row, "nothing was sent")
            address.lead_to(first)
            wait_for_observer(collector, "mysql", "up", "")
            row = collector.wait_for(XID, verdict="foreign", may_abort=True)
            assert collector.order("abort", row, confirm=XID).json()["outcome"] == "accepted"
            collector.wait_for(XID, verdict="settled", certainty="certain")
            assert ask(first.connection, "xa recover") == () or ask(first.connection, "xa recover") == []


def test_a_mysql_server_that_is_read_only_is_no_witness(broker: Broker, tmp_path: Path) -> None:
    with MariaDbServer(tmp_path / "server") as server:
        ask(server.connection, TABLE)
        prepare(server, XID)
        with MovingAddress(server) as address, watching(broker, address, server, tmp_path) as collector:
            collector.wait_for(XID, verdict="foreign")
            ask(server.administrator, "set global read_only = on")
            wait_for_observer(collector, "mysql", "down", "read_only")
            collector.wait_for(XID, "does not answer", verdict="foreign", state="prepared")
            ask(server.administrator, "set global read_only = off")
            wait_for_observer(collector, "mysql", "up", "")
