"""Branches in real databases: seen with their ages, ordered about, and what an independent connection then finds there."""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from demo.broker import Broker
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.mysql.resource_manager import MySqlResourceManager
from indoubt.resource_managers.postgres.resource_manager import PostgresResourceManager
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.database_branches import (
    by_kind,
    decide,
    foreign_branch,
    start_another_run,
    waiting_for_the_table,
)
from tests.integration.database_fixtures import ask
from tests.integration.kafka_fixtures import wait_until
from tests.integration.protocol_run import ProtocolRun, ProtocolSinks, protocol_sinks
from tests.integration.three_sinks import VALUES, make_sinks

pytestmark = pytest.mark.integration
MANAGERS = {"mysql": MySqlResourceManager, "postgres": PostgresResourceManager}


@pytest.fixture(scope="module")
def collector(
    broker: Broker,
    connection: KafkaConnection,
    mariadb: MariaDbServer,
    postgres: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CollectorProcess]:
    file = make_sinks(connection, tmp_path_factory.mktemp("access"), [mariadb, postgres], VALUES).properties_file
    settings = {"INDOUBT_COMMIT_OVERDUE_MS": "300", "INDOUBT_DATABASE_POLLING_MS": "200"}
    given = ["--database-properties", str(file)]
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), given, settings) as process:
        yield process


@pytest.fixture
def sinks(
    connection: KafkaConnection, mariadb: MariaDbServer, postgres: PostgresServer, tmp_path: Path
) -> Iterator[ProtocolSinks]:
    """Return a topic and tables of its own; what is left prepared, whosever it is, is rolled back at the end."""
    yield protocol_sinks(connection, tmp_path, [mariadb, postgres], ["kafka", "mysql", "postgres"])
    for server in (mariadb, postgres):
        manager = MANAGERS[server.kind](server.connection)
        assert not any(manager.fence(manager.list_transactions(), LIMIT_S))


@pytest.fixture
def run(sinks: ProtocolSinks) -> Iterator[ProtocolRun]:
    """Return a run; what it left open in the topic is rolled back at the end."""
    run = sinks.run()
    yield run
    run.recovery.sweep()


def detail(collector: CollectorProcess, row: dict[str, object]) -> dict[str, object]:
    return dict(collector.get(f"transactions/{quote(str(row['key']), safe='')}"))


@pytest.mark.long
def test_branches_appear_and_their_ages_outlive_the_collector(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun
) -> None:
    managed = by_kind(run.slot(0, b"managed").handles)
    foreign = {kind: foreign_branch(sinks.sinks, kind) for kind in MANAGERS}
    seen = {}
    for kind in MANAGERS:
        row = collector.wait_for(managed[kind].transaction, state="prepared", verdict="in progress")
        assert (row["resource_manager"], row["key"], row["managed"]) == (kind, managed[kind].key, True)
        assert (row["pipeline"], row["batch"], row["slot"]) == (sinks.prefix, 0, 0)
        assert (row["checkpoint_id"], row["attempt"]) == (run.options.checkpoint_id, run.options.attempt)
        assert not row["may_abort"]
        seen[kind] = row
        row = collector.wait_for(foreign[kind], verdict="foreign", may_abort=True, loses_data=True)
        assert row["key"] == f"{kind}:{foreign[kind]}@{kind}"
        seen[f"foreign {kind}"] = row
        assert collector.observer(f"database {kind}")["state"] == "up"
    branch = detail(collector, seen["foreign postgres"])["branch"]
    assert (branch["owner"], branch["database"]) == ("indoubt", "indoubt")
    assert branch["prepared_at_ms"] == seen["foreign postgres"]["opened_at_ms"]
    assert branch["transaction_age"] >= 1
    assert min(collector.numbers("indoubt_prepared_branches").values()) >= 2
    assert min(collector.numbers("indoubt_oldest_prepared_branch_seconds").values()) > 0
    assert collector.numbers("indoubt_prepared_branch_xmin_age").keys() == {"postgres"}
    assert {"relation": sinks.sinks.table, "mode": "RowExclusiveLock"} in branch["locks"]

    ages = {
        name: (row["opened_at_ms"], detail(collector, row)["branch"]["first_seen_at_ms"]) for name, row in seen.items()
    }
    wait_until("the branches are in history", lambda: collector.observer("database mysql")["records"] >= 2)
    assert collector.stop() == 0
    collector.start()
    for name, row in seen.items():
        again = collector.wait_for(row["transaction"], state="prepared")
        assert (again["opened_at_ms"], detail(collector, again)["branch"]["first_seen_at_ms"]) == ages[name], name


def test_a_foreign_branch_is_aborted_by_a_typed_order(collector: CollectorProcess, sinks: ProtocolSinks) -> None:
    table = sinks.sinks.table
    names = {kind: foreign_branch(sinks.sinks, kind) for kind in MANAGERS}
    rows = {kind: collector.wait_for(name, verdict="foreign") for kind, name in names.items()}
    with waiting_for_the_table(sinks.sinks.databases["postgres"].connection, table) as got:

        def waiters() -> list[dict[str, object]]:
            return list(detail(collector, rows["postgres"])["branch"]["waiting"])

        (waiter,) = wait_until("the session that waits is told", waiters)
        assert (waiter["application"], waiter["relation"], waiter["mode"]) == (
            "nightly-job",
            table,
            "AccessExclusiveLock",
        )
        assert not got.is_set()
        for row in rows.values():
            unconfirmed = collector.order("abort", row)
            assert unconfirmed.status_code == 409
            assert "'confirm'" in unconfirmed.json()["detail"]
            dry = collector.order("abort", row, confirm=row["transaction"], dry_run=True).json()
            assert (dry["outcome"], dry["steps"][0]["detail"]) == ("dry_run", "open now")
            done = collector.order("abort", row, confirm=row["transaction"]).json()
            assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted"), done
        assert got.wait(LIMIT_S), "the session that waited has its lock"
    for name in names.values():
        collector.wait_for(name, state="aborted", verdict="settled")
    for kind in MANAGERS:
        assert sinks.sinks.in_table(kind)[b"foreign"] == 0
    aborts = {row["transaction"]: row["cause"] for row in collector.rows("aborts?limit=10000")}
    assert {aborts[name] for name in names.values()} == {"operator"}


def test_a_decided_branch_is_committed_by_order_and_never_aborted(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun
) -> None:
    handles = by_kind(run.slot(0, b"decided").handles)
    undecided = collector.wait_for(handles["mysql"].transaction, state="prepared")
    assert collector.order("commit", undecided).status_code == 409
    offset = decide(run, *handles.values())
    for kind in MANAGERS:
        row = collector.wait_for(handles[kind].transaction, verdict="commit it", may_commit=True)
        assert collector.order("abort", row, confirm=row["transaction"]).status_code == 409
        done = collector.order("commit", row, reason="its driver is gone").json()
        assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "committed")
        assert sinks.sinks.in_table(kind)[b"decided"] == 1
        collector.wait_for(handles[kind].transaction, state="committed", verdict="settled")
        outcome = sinks.ledger().outcome(handles[kind].key)
        assert outcome is not None
        assert (outcome.settled, outcome.who) == (Settled.COMMITTED, "operator:anna")
        audit = collector.rows("audit")[0]
        assert (audit["keys"], audit["outcome"]) == ([handles[kind].key], "accepted")
        assert any(str(offset) in fact["fact"] for one in audit["evidence"] for fact in one["evidence"])


def test_an_undecided_branch_is_aborted_after_an_abort_decision(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun
) -> None:
    handles = by_kind(run.slot(0, b"left over").handles)
    start_another_run(run)
    rows = [collector.wait_for(handles[kind].transaction, verdict="abort it", may_abort=True) for kind in MANAGERS]
    done = collector.order("abort", *rows).json()
    assert (done["outcome"], [step["outcome"] for step in done["steps"]]) == ("accepted", ["aborted", "aborted"])
    counting = sinks.ledger().counting(run.batch_attempt())
    assert counting is not None
    assert (counting.ruling, counting.who) == (Ruling.ABORT, "operator:anna")
    for kind in MANAGERS:
        collector.wait_for(handles[kind].transaction, state="aborted", verdict="settled")
        assert sinks.sinks.in_table(kind)[b"left over"] == 0
    assert sinks.sinks.prepared("mysql") == sinks.sinks.prepared("postgres") == 0


def test_a_branch_that_vanished_is_judged_by_its_marker(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun
) -> None:
    """No lifecycle event tells of these runs: only the list, the markers and the decision log do."""
    first, second = (by_kind(run.slot(slot, b"vanished").handles) for slot in (0, 1))
    handles = [*first.values(), *second.values()]
    decide(run, *handles)
    for kind in MANAGERS:
        collector.wait_for(first[kind].transaction, verdict="commit it")
        collector.wait_for(second[kind].transaction, verdict="commit it")
    run.roll_back(*second.values())
    for kind in MANAGERS:
        row = collector.wait_for(second[kind].transaction, verdict="unknown", rule=10)
        assert any("no marker row proves a commit" in fact["fact"] for fact in row["evidence"])
        assert not row["may_commit"]
    # The pipeline's own way to finish: it commits what is there, and puts a tombstone where it finds no marker.
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    run.managers.commit(handles, [marker] * len(handles), LIMIT_S)
    for kind in MANAGERS:
        row = collector.wait_for(first[kind].transaction, state="committed", verdict="settled")
        assert any("its marker row is there" in fact["fact"] for fact in row["evidence"])
        assert detail(collector, row)["branch"]["marker"] == "committed"
        row = collector.wait_for(second[kind].transaction, state="lost", verdict="lost")
        assert detail(collector, row)["branch"]["marker"] == "tombstone"


def test_a_batch_on_one_side_only_stands_out_and_settle_completes_it(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun
) -> None:
    handles = [handle for slot in (0, 1) for handle in run.slot(slot, b"slot %d" % slot).handles]
    offset = decide(run, *handles)
    mysql = [handle for handle in handles if handle.resource_manager == "mysql"]
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    run.managers.commit(mysql, [marker] * len(mysql), LIMIT_S)

    def one_sided() -> dict[str, object] | None:
        first = next(iter(collector.rows("batches")), None)
        if first is None or first["pipeline"] != sinks.prefix or first["settle"] != "commit":
            return None
        return first if first["committed_on"] == ["mysql"] else None

    batch = wait_until("the batch comes first", one_sided, LIMIT_S)
    assert (batch["verdict"], batch["missing_on"]) == ("one side only", ["kafka", "postgres"])
    assert (batch["decision"], batch["decision_offset"], batch["rows"]) == ("commit", offset, 2)
    assert len(batch["transactions"]) == 6
    assert batch["explanation"].startswith("Committed on mysql, not on kafka and postgres (kafka: 2 open of 2")
    dry = collector.order("settle", batch, dry_run=True).json()
    assert (dry["outcome"], {step["outcome"] for step in dry["steps"]}) == ("dry_run", {"dry run"})
    assert (sinks.sinks.in_topic().total(), sinks.sinks.prepared("postgres")) == (0, 2)

    done = collector.order("settle", batch, reason="one side only").json()
    ends = {step["key"]: step["outcome"] for step in done["steps"]}
    assert done["outcome"] == "accepted"
    assert ends.keys() == {one["key"] for one in batch["transactions"]}
    assert Counter(ends.values()) == {"committed": 4, "already committed": 2}
    sinks.expect(b"slot 0", b"slot 1", pending=0)
    audit = collector.rows("audit")[0]
    assert (audit["audit"], audit["action"], audit["keys"]) == (done["audit"], "settle", [batch["key"], *ends])
    assert [step["outcome"] for step in json.loads(audit["detail"])] == list(ends.values())

    def verdict() -> str:
        return next(row["verdict"] for row in collector.rows("batches") if row["key"] == batch["key"])

    wait_until("the batch is complete", lambda: verdict() == "complete", LIMIT_S)
    stale = collector.order("settle", batch)
    assert stale.status_code == 409


def test_settle_aborts_all_of_an_undecided_batch(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun
) -> None:
    """Its transaction in Kafka is known by its prepared handle only, which no event told here: the databases' parts are settled."""
    handles = by_kind(run.slot(0, b"undecided").handles)
    start_another_run(run)

    def to_abort() -> dict[str, object] | None:
        rows = [
            row for row in collector.rows("batches") if row["pipeline"] == sinks.prefix and row["settle"] == "abort"
        ]
        return rows[0] if rows and len(rows[0]["transactions"]) == len(MANAGERS) else None

    batch = wait_until("the batch may be aborted", to_abort, LIMIT_S)
    assert batch["verdict"] == "undecided"
    done = collector.order("settle", batch).json()
    assert (done["outcome"], [step["outcome"] for step in done["steps"]]) == ("accepted", ["aborted", "aborted"])
    counting = sinks.ledger().counting(run.batch_attempt())
    assert counting is not None
    assert counting.ruling is Ruling.ABORT
    assert {handle.key for handle in counting.handles} == {handles[kind].key for kind in MANAGERS}
    assert sinks.sinks.prepared("mysql") == sinks.sinks.prepared("postgres") == 0


def test_a_database_that_is_gone_is_reported_and_the_rest_goes_on(
    collector: CollectorProcess, sinks: ProtocolSinks, run: ProtocolRun, mariadb: MariaDbServer
) -> None:
    handles = by_kind(run.slot(0, b"gone").handles)
    decide(run, *handles.values())
    rows = {kind: collector.wait_for(handles[kind].transaction, verdict="commit it") for kind in MANAGERS}
    mariadb.kill()
    try:
        wait_until("it is down", lambda: collector.observer("database mysql")["state"] == "down", LIMIT_S)
        assert "is the server up" in collector.observer("database mysql")["error"]
        assert collector.observer("database postgres")["state"] == "up"
        both = collector.order("commit", rows["mysql"], rows["postgres"]).json()
        ends = [step["outcome"] for step in both["steps"]]
        assert (both["outcome"], ends) == ("pending", ["retry later", "committed"])
        assert sinks.sinks.in_table("postgres")[b"gone"] == 1
        assert collector.wait_for(handles["mysql"].transaction, state="decided")["verdict"] == "commit it"
    finally:
        mariadb.start()
    wait_until("it is up again", lambda: collector.observer("database mysql")["state"] == "up", LIMIT_S)
    # The order is followed up: its other half is done once the database answers.
    collector.wait_for(handles["mysql"].transaction, state="committed", verdict="settled")
    assert sinks.sinks.in_table("mysql")[b"gone"] == 1

    def followed_up() -> list[str]:
        return [row["outcome"] for row in collector.rows("audit") if row["refers_to"] == both["audit"]]

    wait_until("an audit row tells how it ended", lambda: followed_up() == ["accepted"], LIMIT_S)


def test_no_password_is_in_the_log(
    collector: CollectorProcess, mariadb: MariaDbServer, postgres: PostgresServer
) -> None:
    for server in (mariadb, postgres):
        assert server.connection.password not in collector.log.read_text()


@pytest.mark.parametrize("kind", MANAGERS)
def test_a_database_tells_its_clock_between_question_and_answer(kind: str, sinks: ProtocolSinks) -> None:
    watch = MANAGERS[kind](sinks.sinks.databases[kind].connection).watch(LIMIT_S)
    try:
        for _ in range(2):
            asked_ms = time.time_ns() // 1_000_000
            told_ms = watch.clock_ms()
            assert asked_ms - 1 <= told_ms <= time.time_ns() // 1_000_000 + 1
    finally:
        watch.close()


@pytest.mark.parametrize("kind", MANAGERS)
def test_the_least_right_is_enough_to_watch(kind: str, sinks: ProtocolSinks, run: ProtocolRun) -> None:
    """What docs/databases.md grants: to connect, and to read the markers."""
    handle = by_kind(run.slot(0, b"watched").handles)[kind]
    server = sinks.sinks.databases[kind]
    database, watcher = server.connection.database, f"watcher_{uuid.uuid4().hex[:8]}"
    grants = {
        "mysql": [
            f"create user {watcher} identified by 'w'",
            f"grant select on {database}.indoubt_markers to {watcher}",
        ],
        "postgres": [f"create role {watcher} login password 'w'"],
    }
    for statement in grants[kind]:
        ask(server.administrator, statement)
    if kind == "postgres":
        ask(server.connection, f"grant select on indoubt_markers to {watcher}")
    watch = MANAGERS[kind](dataclasses.replace(server.connection, user=watcher, password="w")).watch(LIMIT_S)
    try:
        assert handle.transaction in {branch.transaction for branch in watch.list_branches().branches}
        assert watch.proofs([handle.transaction]) == {}
        marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
        run.managers.commit([handle], [marker], LIMIT_S)
        assert handle.transaction not in {branch.transaction for branch in watch.list_branches().branches}
        assert watch.proofs([handle.transaction]) == {handle.transaction: MarkerState.COMMITTED}
    finally:
        watch.close()
