"""In-doubt files in a real collector: seen with their ages, ordered about, and what a reader then finds in the directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from demo.broker import Broker
from demo.object_store import BUCKET, ObjectStore
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.resource_manager import FilesResourceManager
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.database_branches import decide, start_another_run
from tests.integration.files_fixtures import running_store
from tests.integration.kafka_fixtures import wait_until
from tests.integration.protocol_run import ProtocolRun, ProtocolSinks, protocol_sinks

pytestmark = pytest.mark.integration
KINDS = ["local", "store"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    yield from running_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def collector(
    broker: Broker, store: ObjectStore, local: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    settings = {"INDOUBT_COMMIT_OVERDUE_MS": "300", "INDOUBT_FILES_POLLING_MS": "200", **store.environment}
    for where in (str(local), f"s3://{BUCKET}/orders"):
        FilesResourceManager(where, FilesAccess(properties=store.spark_properties)).verify([("value", pa.binary())])
    given = ["--files", str(local), "--files", f"store=s3://{BUCKET}/orders"]
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), given, settings) as process:
        yield process


@pytest.fixture(params=KINDS)
def run(
    request: pytest.FixtureRequest, connection: KafkaConnection, store: ObjectStore, local: Path, tmp_path: Path
) -> Iterator[ProtocolRun]:
    """Return a run that writes to a topic and to files; what it left open is rolled back at the end."""
    sinks = protocol_sinks(connection, tmp_path, [], ["kafka"])
    where = str(local) if request.param == "local" else f"s3://{BUCKET}/orders"
    properties = ",".join("=".join(pair) for pair in store.spark_properties.items())
    run = sinks.run(sink=f"{sinks.sinks.topic},files:{where}", spark_properties=properties)
    run.sinks = sinks  # type: ignore[attr-defined]
    yield run
    run.recovery.sweep()


def of_files(run: ProtocolRun, *values: bytes, slot: int = 0) -> Handle:
    """Prepare a slot; return its handle in the directory."""
    return next(h for h in run.slot(slot, *values).handles if h.resource_manager == "files")


def seen(run: ProtocolRun, store: ObjectStore) -> list[bytes]:
    """Return the values that a dataset of the directory has."""
    where = run.settings.sink.partition("files:")[2]
    filesystem = store.filesystem if "://" in where else fs.LocalFileSystem()
    found = ds.dataset(where.removeprefix("s3://"), filesystem=filesystem, format="parquet").to_table()
    return found["value"].to_pylist() if found.num_rows else []


def test_files_are_listed_with_their_age_and_an_undecided_batch_is_aborted(
    collector: CollectorProcess, store: ObjectStore, run: ProtocolRun
) -> None:
    handle = of_files(run, b"left over")
    row = collector.wait_for(handle.transaction, state="prepared", verdict="in progress")
    assert (row["resource_manager"], row["key"], row["managed"]) == ("files", handle.key, True)
    assert (row["pipeline"], row["batch"], row["slot"]) == (run.options.prefix, 0, 0)
    branch = collector.get(f"transactions/{quote(str(row['key']), safe='')}")["branch"]
    # An object store tells whole seconds.
    assert abs(branch["prepared_at_ms"] - handle.prepared_at_ms) < 2_000
    assert not row["may_abort"]
    start_another_run(run)
    row = collector.wait_for(handle.transaction, verdict="abort it", may_abort=True)
    done = collector.order("abort", row).json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted")
    collector.wait_for(handle.transaction, state="aborted", verdict="settled")
    sinks: ProtocolSinks = run.sinks  # type: ignore[attr-defined]
    counting = sinks.ledger().counting(run.batch_attempt())
    assert counting is not None
    assert (counting.ruling, counting.who) == (Ruling.ABORT, "operator:anna")
    assert b"left over" not in seen(run, store)
    assert all(view.transaction != handle.transaction for view in run.managers.recover(run.options.prefix))


def test_decided_files_are_committed_by_order_and_never_aborted(
    collector: CollectorProcess, store: ObjectStore, run: ProtocolRun
) -> None:
    value = f"decided {run.options.prefix}".encode()
    handles = run.slot(0, value).handles
    handle = next(h for h in handles if h.resource_manager == "files")
    undecided = collector.wait_for(handle.transaction, state="prepared")
    assert collector.order("commit", undecided).status_code == 409
    decide(run, *handles)
    row = collector.wait_for(handle.transaction, verdict="commit it", may_commit=True)
    assert collector.order("abort", row, confirm=row["transaction"]).status_code == 409
    assert value not in seen(run, store)
    done = collector.order("commit", row, reason="its driver is gone").json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "committed")
    assert seen(run, store).count(value) == 1
    collector.wait_for(handle.transaction, state="committed", verdict="settled")
    sinks: ProtocolSinks = run.sinks  # type: ignore[attr-defined]
    outcome = sinks.ledger().outcome(handle.key)
    assert outcome is not None
    assert (outcome.settled, outcome.who) == (Settled.COMMITTED, "operator:anna")
    # Recovery finds it done.
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    run.managers.commit(handles, [marker] * len(handles), LIMIT_S)
    assert seen(run, store).count(value) == 1


def test_files_that_are_gone_are_judged_by_their_marker(
    collector: CollectorProcess, store: ObjectStore, run: ProtocolRun
) -> None:
    first, second = (of_files(run, b"vanished", slot=slot) for slot in (0, 1))
    decide(run, first, second)
    for handle in (first, second):
        collector.wait_for(handle.transaction, verdict="commit it")
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    run.managers.commit([first], [marker], LIMIT_S)
    run.roll_back(second)
    collector.wait_for(first.transaction, state="committed", verdict="settled")
    collector.wait_for(second.transaction, state="lost", verdict="lost")


def test_a_store_that_answers_503_is_reported_and_the_rest_goes_on(
    collector: CollectorProcess, store: ObjectStore, run: ProtocolRun
) -> None:
    handle = of_files(run, b"waits")
    collector.wait_for(handle.transaction, state="prepared")
    store.disturb("503")
    try:
        wait_until("it is down", lambda: collector.observer("database store-files")["state"] == "down", LIMIT_S)
        assert collector.observer("database files")["state"] == "up"
    finally:
        store.heal()
    wait_until("it is up again", lambda: collector.observer("database store-files")["state"] == "up", LIMIT_S)
    collector.wait_for(handle.transaction, state="prepared")
