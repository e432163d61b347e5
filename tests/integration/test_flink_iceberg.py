"""Commits to an Iceberg table that a real Flink left undone, because it was killed: an order does them, and nothing is doubled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from demo.broker import Broker
from tests.integration import flink_iceberg_job
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.flink_iceberg_job import CATALOG, HADOOP, TABLE, IcebergJob, sqlite
from tests.integration.flink_orders_job import LAST
from tests.integration.iceberg_rest_catalog import serving
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
ORDERS = 400
NAME = f"chk-{LAST}"
ROWS = Counter({f"order {number}": 1 for number in range(ORDERS)})
SETTINGS = {
    "INDOUBT_FLINK_POLLING_MS": "200",
    "INDOUBT_REMOTE_CHECKPOINT_POLLING_MS": "500",
    # A JobManager that died is waited for so long before a commit is to be done.
    "INDOUBT_DRIVER_SILENT_MS": "3000",
}


@dataclass
class Lake:
    """A job, the collector that watches it, and a reader of the table that knows neither."""

    job: IcebergJob
    collector: CollectorProcess
    catalog: Catalog

    def commit(self, **fields: Any) -> dict[str, Any]:
        """Return the row of the commit that the killed job left undone, once it has these values."""

        def found() -> dict[str, Any] | None:
            (row,) = self.rows() or [None]
            return row if row is not None and all(row[name] == value for name, value in fields.items()) else None

        try:
            row: dict[str, Any] = wait_until(f"a commit with {fields}", found, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {self.rows()}") from None
        return row

    def rows(self) -> list[dict[str, Any]]:
        return self.collector.rows("transactions?all=true&resource_manager=iceberg")

    def read(self) -> Counter[str]:
        """Return how often each order is in the table, read by PyIceberg."""
        return Counter(self.catalog.load_table(TABLE).scan().to_arrow()["id"].to_pylist())


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    flink_iceberg_job.SOURCES.compile_or_skip()


@pytest.fixture
def lake(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    with watched(broker, tmp_path, by_sql(tmp_path)) as made:
        yield made


@pytest.fixture
def lake_by_rest(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    """The collector knows the catalog by its REST address; Flink, and who reads, by the database behind it."""
    with (
        serving(tmp_path / "catalog.db", tmp_path / "warehouse", tmp_path / "rest.log") as address,
        watched(broker, tmp_path, {"type": "rest", "uri": address}) as made,
    ):
        yield made


def by_sql(directory: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }


@contextmanager
def watched(broker: Broker, tmp_path: Path, given: dict[str, str]) -> Iterator[Lake]:
    """Yield a job whose collector is ``given`` these properties of its catalog."""
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    job = IcebergJob(sqlite(tmp_path / "catalog.db"), tmp_path / "warehouse", checkpoints, tmp_path / "flink.log")
    named = {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": value for name, value in given.items()}
    arguments = ["--flink", f"shop=http://127.0.0.1:{job.port}", "--flink-checkpoints", f"shop={checkpoints}"]
    with running(broker.bootstrap_servers, tmp_path / "collector", arguments, {**SETTINGS, **named}) as collector:
        catalog = load_catalog(CATALOG, **by_sql(tmp_path))
        yield Lake(job, collector, catalog)
        job.kill()
        catalog.close()


def left_undone(lake: Lake) -> tuple[Path, dict[str, Any]]:
    """Have the job killed between checkpoint 3 and its commit; return the checkpoint and the commit, which is to be done."""
    lake.job.start(ORDERS, last=LAST)
    checkpoint = lake.job.checkpoint(LAST)
    lake.commit(rule=23, verdict="in progress", pipeline="shop/orders", checkpoint=LAST)
    lake.job.kill()
    return checkpoint, lake.commit(rule=23, verdict="commit it", may_commit=True, may_abort=False)


@pytest.mark.parametrize("of", ["lake", "lake_by_rest"])
def test_a_commit_that_a_killed_job_left_is_done_by_an_order_and_a_restore_repeats_nothing(
    of: str, request: pytest.FixtureRequest
) -> None:
    lake: Lake = request.getfixturevalue(of)
    checkpoint, row = left_undone(lake)
    before = lake.read()
    assert "no snapshot of the table adds them" in json.dumps(row["evidence"])
    unconfirmed = lake.collector.order("commit", row)
    assert unconfirmed.status_code == 409
    assert f"Repeat {NAME!r} in 'confirm'" in unconfirmed.json()["detail"]
    assert lake.read() == before

    done = lake.collector.order("commit", row, confirm=NAME, reason="the job manager is gone").json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "committed"), done
    after = lake.read()
    assert after.total() > before.total()
    assert max(after.values()) == 1
    lake.collector.wait_for(row["transaction"], "a snapshot of the table adds it", state="committed", verdict="settled")
    audit = lake.collector.rows("audit")[0]
    assert (audit["outcome"], audit["keys"]) == ("accepted", [row["key"]])
    assert f"{checkpoint}/_metadata lists exactly this commit" in json.dumps(audit["evidence"])

    lake.job.start(ORDERS, restore=checkpoint)
    lake.job.wait_for_end()
    assert lake.read() == ROWS


def test_a_restored_job_does_it_itself_and_an_order_comes_too_late(lake: Lake) -> None:
    checkpoint, row = left_undone(lake)
    lake.job.start(ORDERS, restore=checkpoint)
    lake.collector.wait_for(row["transaction"], state="committed", verdict="settled")
    late = lake.collector.order("commit", row, confirm=NAME)
    assert late.status_code == 409, late.text
    lake.job.wait_for_end()
    assert lake.read() == ROWS


def test_what_an_order_added_and_a_job_writes_again_is_told_of_as_doubled(lake: Lake) -> None:
    checkpoint, row = left_undone(lake)
    assert lake.collector.order("commit", row, confirm=NAME).json()["outcome"] == "accepted"
    lake.job.start(ORDERS, restore=checkpoint.with_name(f"chk-{LAST - 1}"))
    (loss,) = wait_until(
        "the loss", lambda: [each for each in lake.collector.rows("losses") if each["key"] == row["key"]], LIMIT_S
    )
    assert loss["verdict"] == "duplicated"
    lake.job.wait_for_end()
    assert max(lake.read().values()) == 2, "an independent reader sees them twice"


def test_a_commit_whose_manifest_is_removed_is_lost_as_far_as_is_known(lake: Lake) -> None:
    _, row = left_undone(lake)
    table = lake.catalog.load_table(TABLE)
    (manifest,) = Path(table.location().removeprefix("file:").replace("///", "/")).glob("metadata/*-00003.avro")
    manifest.unlink()
    refused = lake.collector.order("commit", row, confirm=NAME)
    assert refused.status_code == 409
    lake.collector.wait_for(row["transaction"], "its manifests are gone", state="aborted", certainty="likely")
    (loss,) = wait_until(
        "the loss", lambda: [each for each in lake.collector.rows("losses") if each["key"] == row["key"]], LIMIT_S
    )
    assert (loss["verdict"], loss["certainty"]) == ("lost", "likely")


def test_a_table_of_a_hadoop_catalog_is_judged_and_its_order_refused(broker: Broker, tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    job = IcebergJob(HADOOP, tmp_path / "warehouse", checkpoints, tmp_path / "flink.log")
    arguments = ["--flink", f"shop=http://127.0.0.1:{job.port}", "--flink-checkpoints", f"shop={checkpoints}"]
    with running(broker.bootstrap_servers, tmp_path / "collector", arguments, SETTINGS) as collector:
        lake = Lake(job, collector, load_catalog("none", type="in-memory"))
        checkpoint, row = left_undone(lake)
        done = collector.order("commit", row, confirm=NAME).json()
        assert "no catalog that would refuse a second writer: restore the job" in json.dumps(done), done
        job.start(ORDERS, restore=checkpoint)
        collector.wait_for(row["transaction"], state="committed", verdict="settled")
        job.wait_for_end()
