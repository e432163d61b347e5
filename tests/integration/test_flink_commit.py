"""A Flink job's transactions on a real broker, committed by an order.

A recorded checkpoint lists them: the producer ids and epochs in it are replaced by those that they have on this broker.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.collector.history.store import Store
from indoubt.collector.observe.flink_committables import FlinkCommittablesReader
from indoubt.collector.observe.flink_metadata_files import filesystem_of
from indoubt.collector.records.formats.flink_records import Committable
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.command_line_process import command
from tests.integration.flink_transactions import NAME, RECORDING, Prepared, prepare, write_checkpoint
from tests.integration.kafka_fixtures import connection_to, running_broker
from tests.integration.pipeline_process import read_committed, wait_until
from tests.unit.collector.records.flink_metadata_recordings import coordinator, metadata_bytes

pytestmark = pytest.mark.integration
# Orders here mean whatever the cluster has open: what other tests left there would be committed too.
own_broker = pytest.fixture(running_broker, scope="module", name="broker")
own_connection = pytest.fixture(connection_to, scope="module", name="connection")


@pytest.fixture
def prepared(connection: KafkaConnection) -> Prepared:
    return prepare(connection)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flink")


@pytest.fixture(scope="module")
def collector(
    broker: Broker, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    arguments = ["--flink-checkpoints", f"shop={checkpoints}"]
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), arguments) as process:
        yield process


def test_checkpoints_in_an_object_store_are_read(object_store: str, tmp_path: Path) -> None:
    bucket = object_store.partition("://")[2]
    filesystem, _ = filesystem_of(f"{object_store}/flink")
    job = uuid.uuid4().hex
    with filesystem.open_output_stream(f"{bucket}/flink/{job}/{NAME}/_metadata") as stream:
        stream.write(metadata_bytes(RECORDING))
    store = Store(tmp_path / "history.duckdb")
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    reader = FlinkCommittablesReader(current, "shop", [f"{object_store}/flink"], interval_ms=10, remote_interval_ms=10)
    row = next(row for row in coordinator(RECORDING) if row["state"] == "ONGOING")
    committable = Committable(row["transactional_id"], row["producer_id"], row["producer_epoch"])

    def jobs_that_list_it() -> list[str]:
        reader.read_new()
        with current.reading() as state:
            return [listing.job for listing in state.flink.lists.listings(committable)]

    assert wait_until("its list", jobs_that_list_it) == [job]
    store.close()


def test_what_a_checkpoint_lists_is_committed_and_its_rows_are_seen(
    collector: CollectorProcess, connection: KafkaConnection, prepared: Prepared, checkpoints: Path
) -> None:
    rows = [collector.wait_for(id_, verdict="foreign", may_commit=False) for id_ in prepared.ids]
    directory = write_checkpoint(checkpoints, prepared.metadata)
    rows = [collector.wait_for(id_, verdict="commit it", may_commit=True) for id_ in prepared.ids]
    assert {row["commit_confirmation"] for row in rows} == {NAME}, "its end was not seen"
    assert any(f"{directory}/_metadata lists exactly" in fact["fact"] for fact in rows[0]["evidence"])

    dry = command(collector, "commit", "--verdict", "commit it")
    assert dry.code == 0
    assert "--confirm takes 'chk-3'" in dry.err
    unconfirmed = collector.order("commit", *rows)
    assert unconfirmed.status_code == 409
    assert "Repeat 'chk-3' in 'confirm'" in unconfirmed.json()["detail"]
    assert read_committed(connection, prepared.sink.topic).total() == 0

    words = ("--yes", "--reason", "the job manager is gone", "--confirm", "chk-3", "--json")
    done = command(collector, "commit", "--verdict", "commit it", *words)
    assert (done.code, [step["outcome"] for step in done.answer["steps"]]) == (0, ["committed", "committed"])
    expected = {b"of " + id_.encode(): 1 for id_ in prepared.ids}
    wait_until("the rows are seen", lambda: dict(read_committed(connection, prepared.sink.topic)) == expected, LIMIT_S)
    for id_ in prepared.ids:
        collector.wait_for(id_, state="committed", verdict="settled")
    audit = collector.rows("audit")[0]
    assert (audit["outcome"], audit["reason"]) == ("accepted", "the job manager is gone")
    assert "lists exactly" in json.dumps(audit["evidence"])


def test_a_checkpoint_that_is_gone_or_damaged_commits_nothing(
    collector: CollectorProcess, connection: KafkaConnection, prepared: Prepared, checkpoints: Path
) -> None:
    directory = write_checkpoint(checkpoints, prepared.metadata)
    row = collector.wait_for(prepared.ids[0], verdict="commit it")
    (directory / "_metadata").unlink()
    refused = collector.order("commit", row, confirm=NAME)
    assert refused.status_code == 409
    assert "chk-3 is gone" in refused.json()["detail"]

    (directory / "_metadata").write_bytes(prepared.metadata[: len(prepared.metadata) // 2])
    row = collector.wait_for(prepared.ids[0], verdict="foreign", may_commit=False)
    status = collector.observer("flink checkpoints of shop")
    assert status["state"] == "up"
    assert NAME in status["error"], "what cannot be read is said"
    assert collector.order("commit", row, confirm=NAME).status_code == 409

    (directory / "_metadata").write_bytes(prepared.metadata)
    row = collector.wait_for(prepared.ids[0], verdict="commit it")
    # The job takes its id again, as it does after a restore from an earlier checkpoint.
    again = Producer(connection.for_librdkafka(**{"transactional.id": prepared.ids[0]}))
    again.init_transactions(LIMIT_S)
    refused = collector.order("commit", row, confirm=NAME)
    assert refused.status_code == 409
    assert read_committed(connection, prepared.sink.topic).total() == 0
