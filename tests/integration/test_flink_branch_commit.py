"""Branches of Flink's JDBC sink in real databases, committed by an order.

Recorded checkpoints list them: the job id in the recorded xid is replaced by one of this test.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.broker import Broker
from demo.database_server import DatabaseServer
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import read_checkpoint_metadata
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.mysql.resource_manager import MySqlResourceManager
from indoubt.resource_managers.mysql.xa_xid import XaXid
from indoubt.resource_managers.postgres.resource_manager import PostgresResourceManager
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.database_fixtures import ask, connect
from tests.integration.flink_job_manager import JobManager
from tests.integration.kafka_fixtures import wait_until
from tests.integration.three_sinks import VALUES, make_sinks
from tests.unit.collector.records.flink_metadata_recordings import metadata_bytes, opener

pytestmark = [pytest.mark.integration, pytest.mark.long]
KINDS = ("mysql", "postgres")
RECORDINGS = {"mysql": "1.20-jdbc-function-mariadb", "postgres": "1.20-jdbc-function-postgres"}
MANAGERS = {"mysql": MySqlResourceManager, "postgres": PostgresResourceManager}
NAME = "chk-3"
"""The recorded checkpoint's."""


@dataclass
class Branch:
    """A branch that a job of Flink has prepared and not committed, with one row, and the ``_metadata`` that lists it."""

    server: DatabaseServer
    job: str
    name: str
    """As its database lists it."""
    table: str
    metadata: bytes

    def seen(self) -> list[int]:
        """Return the rows that another connection sees."""
        return [row[0] for row in ask(self.server.connection, f"select n from {self.table}")]  # noqa: S608 (a name made here)

    def write_checkpoint(self, checkpoints: Path) -> Path:
        """Put the ``_metadata`` where a job of Flink puts it, as Flink does: written beside and renamed."""
        directory = checkpoints / self.job / NAME
        directory.mkdir(parents=True)
        (directory / "_draft").write_bytes(self.metadata)
        (directory / "_draft").rename(directory / "_metadata")
        return directory


def prepare(server: DatabaseServer) -> Branch:
    """Prepare a branch as the driver of Flink's sink does: XA statements in MariaDB, its text of an xid in PostgreSQL."""
    recording = RECORDINGS[server.kind]
    data, job = metadata_bytes(recording), uuid.uuid4()
    (recorded,) = read_checkpoint_metadata(data, opener(recording)).branches
    xid = XaXid(format_id=201, gtrid=job.bytes + recorded.gtrid[16:], bqual=recorded.bqual)
    assert data.count(recorded.gtrid) == 1
    table = f"flink_{job.hex[:8]}"
    ask(server.connection, f"create table {table} (n bigint)")
    insert = f"insert into {table} values (42)"  # noqa: S608 (a name made here)
    if server.kind == "mysql":
        name = xid.literal
        statements = [f"xa start {name}", insert, f"xa end {name}", f"xa prepare {name}"]
    else:
        name = "_".join(["201", base64.b64encode(xid.gtrid).decode(), base64.b64encode(xid.bqual).decode()])
        statements = ["begin", insert, f"prepare transaction '{name}'"]
    driver = connect(server.connection)
    with driver.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    driver.close()
    metadata = data.replace(recorded.gtrid, xid.gtrid)
    return Branch(server=server, job=job.hex, name=name, table=table, metadata=metadata)


@pytest.fixture(scope="module")
def servers(mariadb: MariaDbServer, postgres: PostgresServer) -> dict[str, DatabaseServer]:
    return {"mysql": mariadb, "postgres": postgres}


@pytest.fixture
def branches(servers: dict[str, DatabaseServer]) -> Iterator[dict[str, Branch]]:
    yield {kind: prepare(servers[kind]) for kind in KINDS}
    for kind, server in servers.items():
        manager = MANAGERS[kind](server.connection)
        assert not any(manager.fence(manager.list_transactions(), LIMIT_S))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flink")


@pytest.fixture(scope="module")
def manager() -> Iterator[JobManager]:
    manager = JobManager()
    yield manager
    manager.die()


@pytest.fixture(scope="module")
def collector(
    broker: Broker,
    manager: JobManager,
    connection: KafkaConnection,
    servers: dict[str, DatabaseServer],
    checkpoints: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CollectorProcess]:
    file = make_sinks(connection, tmp_path_factory.mktemp("access"), list(servers.values()), VALUES).properties_file
    given = ["--database-properties", str(file), "--flink-checkpoints", f"shop={checkpoints}"]
    given += ["--flink", f"shop={manager.url}"]
    settings = {"INDOUBT_DATABASE_POLLING_MS": "200", "INDOUBT_FLINK_POLLING_MS": "100"}
    # A JobManager that died is waited for so long before a branch is to be committed.
    settings |= {"INDOUBT_DRIVER_SILENT_MS": "3000"}
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), given, settings) as process:
        yield process


def test_what_a_checkpoint_lists_is_committed_and_its_rows_are_seen(
    collector: CollectorProcess, branches: dict[str, Branch], checkpoints: Path
) -> None:
    for branch in branches.values():
        row = collector.wait_for(branch.name, verdict="foreign", may_commit=False)
        assert f"Flink's JDBC sink (job {branch.job}, subtask 0, number 3)" in json.dumps(row["evidence"])
        assert row["pipeline"] == f"Flink's JDBC sink job {branch.job}", "nothing is known of the job yet"
    directories = {kind: branch.write_checkpoint(checkpoints) for kind, branch in branches.items()}
    for kind, branch in branches.items():
        row = collector.wait_for(branch.name, verdict="commit it", may_commit=True)
        assert (row["rule"], row["commit_confirmation"]) == (25, NAME), "its end was not seen"
        assert (row["pipeline"], row["application"]["task"]) == (f"shop/{branch.job}", "0"), (
            "REST does not know the job"
        )
        assert f"{directories[kind]}/_metadata lists exactly this xid" in json.dumps(row["evidence"])
        unconfirmed = collector.order("commit", row)
        assert unconfirmed.status_code == 409
        assert "Repeat 'chk-3' in 'confirm'" in unconfirmed.json()["detail"]
        assert branch.seen() == []

        done = collector.order("commit", row, confirm=NAME, reason="the job manager is gone").json()
        assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "committed"), done
        assert branch.seen() == [42]
        collector.wait_for(branch.name, state="committed", verdict="settled")
        audit = collector.rows("audit")[0]
        assert (audit["keys"], audit["outcome"]) == ([row["key"]], "accepted")
        assert "lists exactly this xid" in json.dumps(audit["evidence"])


def test_what_is_not_listed_any_more_or_ended_meanwhile_is_not_committed(
    collector: CollectorProcess, branches: dict[str, Branch], checkpoints: Path
) -> None:
    for kind, branch in branches.items():
        directory = branch.write_checkpoint(checkpoints)
        row = collector.wait_for(branch.name, verdict="commit it")
        (directory / "_metadata").unlink()
        refused = collector.order("commit", row, confirm=NAME)
        assert refused.status_code == 409
        assert "chk-3 is gone" in refused.json()["detail"]
        assert branch.seen() == []

        (directory / "_metadata").write_bytes(branch.metadata)
        row = collector.wait_for(branch.name, verdict="commit it")
        rollback = f"xa rollback {branch.name}" if kind == "mysql" else f"rollback prepared '{branch.name}'"
        ask(branch.server.connection, rollback)
        refused = collector.order("commit", row, confirm=NAME)
        assert refused.status_code == 409, refused.text
        collector.wait_for(branch.name, verdict="settled")
        assert branch.seen() == []


def test_what_is_rolled_back_although_its_checkpoint_counts_is_lost(
    collector: CollectorProcess, manager: JobManager, branches: dict[str, Branch], checkpoints: Path
) -> None:
    branch = branches["mysql"]
    manager.take(branch.write_checkpoint(checkpoints), triggered_ms=round(time.time() * 1000))
    collector.wait_for(branch.name, verdict="in progress", rule=23, pipeline="shop/orders")
    manager.die()
    # MariaDB refuses the commit that Flink sends after a restore, so a rollback is offered too.
    row = collector.wait_for(branch.name, verdict="commit it", rule=23, may_abort=True, commit_confirmation=NAME)
    assert "still runs is not known: commit it only if the job is gone" in json.dumps(row["evidence"])
    done = collector.order("abort", row, confirm=row["transaction"], reason="it is written again by hand").json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted"), done
    assert branch.seen() == []
    collector.wait_for(branch.name, state="aborted")
    (loss,) = [each for each in collector.rows("losses") if each["transaction"] == branch.name]
    assert (loss["verdict"], loss["certainty"], loss["checkpoint"]) == ("lost", "certain", 3)
    assert "checkpoint 3 of shop/orders lists it, and counts" in loss["why"]
    wait_until("A7 fires", lambda: [each for each in collector.rows("alerts") if each["rule"] == "A7"], LIMIT_S)
