"""Commits to an Iceberg table that a real Flink left undone, because it was killed: an order does them, and nothing is doubled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from demo.broker import Broker
from tests.integration import flink_iceberg_job
from tests.integration.collector_process import LIMIT_S
from tests.integration.flink_iceberg_job import CATALOG, HADOOP, TABLE, IcebergJob, sqlite
from tests.integration.flink_lake import ORDERS, ROWS, Lake, watched
from tests.integration.flink_orders_job import LAST
from tests.integration.iceberg_rest_catalog import serving
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
NAME = f"chk-{LAST}"


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    flink_iceberg_job.SOURCES.compile_or_skip()


@pytest.fixture
def lake(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    with in_catalog(broker, tmp_path, by_sql(tmp_path)) as made:
        yield made


@pytest.fixture
def lake_by_rest(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    """The collector knows the catalog by its REST address; Flink, and who reads, by the database behind it."""
    with (
        serving(tmp_path / "catalog.db", tmp_path / "warehouse", tmp_path / "rest.log") as address,
        in_catalog(broker, tmp_path, {"type": "rest", "uri": address}) as made,
    ):
        yield made


def by_sql(directory: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }


def orders_in(directory: Path) -> Counter[str]:
    """Return how often each order is in the table, read by PyIceberg."""
    with closing(load_catalog(CATALOG, **by_sql(directory))) as catalog:
        return Counter(catalog.load_table(TABLE).scan().to_arrow()["id"].to_pylist())


def in_catalog(broker: Broker, tmp_path: Path, given: dict[str, str]) -> AbstractContextManager[Lake]:
    """Return a job whose collector is ``given`` these properties of its catalog."""
    named = {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": value for name, value in given.items()}
    return watched(
        broker,
        tmp_path,
        job_in(tmp_path, sqlite(tmp_path / "catalog.db")),
        named,
        "iceberg",
        partial(orders_in, tmp_path),
    )


def job_in(directory: Path, catalog: str) -> IcebergJob:
    return IcebergJob(catalog, directory / "warehouse", directory / "checkpoints", directory / "flink.log")


@pytest.mark.parametrize("of", ["lake", "lake_by_rest"])
def test_a_commit_that_a_killed_job_left_is_done_by_an_order_and_a_restore_repeats_nothing(
    of: str, request: pytest.FixtureRequest
) -> None:
    lake: Lake = request.getfixturevalue(of)
    checkpoint, row = lake.left_undone(may_commit=True)
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
    checkpoint, row = lake.left_undone(may_commit=True)
    lake.job.start(ORDERS, restore=checkpoint)
    lake.collector.wait_for(row["transaction"], state="committed", verdict="settled")
    late = lake.collector.order("commit", row, confirm=NAME)
    assert late.status_code == 409, late.text
    lake.job.wait_for_end()
    assert lake.read() == ROWS


def test_what_an_order_added_and_a_job_writes_again_is_told_of_as_doubled(lake: Lake) -> None:
    checkpoint, row = lake.left_undone(may_commit=True)
    assert lake.collector.order("commit", row, confirm=NAME).json()["outcome"] == "accepted"
    lake.job.start(ORDERS, restore=checkpoint.with_name(f"chk-{LAST - 1}"))
    (loss,) = wait_until(
        "the loss", lambda: [each for each in lake.collector.rows("losses") if each["key"] == row["key"]], LIMIT_S
    )
    assert loss["verdict"] == "duplicated"
    lake.job.wait_for_end()
    assert max(lake.read().values()) == 2, "an independent reader sees them twice"


def test_a_commit_whose_manifest_is_removed_is_lost_as_far_as_is_known(lake: Lake, tmp_path: Path) -> None:
    _, row = lake.left_undone(may_commit=True)
    (manifest,) = (tmp_path / "warehouse").rglob("metadata/*-00003.avro")
    manifest.unlink()
    refused = lake.collector.order("commit", row, confirm=NAME)
    assert refused.status_code == 409
    lake.collector.wait_for(row["transaction"], "its manifests are gone", state="aborted", certainty="likely")
    (loss,) = wait_until(
        "the loss", lambda: [each for each in lake.collector.rows("losses") if each["key"] == row["key"]], LIMIT_S
    )
    assert (loss["verdict"], loss["certainty"]) == ("lost", "likely")


def test_a_table_of_a_hadoop_catalog_is_judged_and_its_order_refused(broker: Broker, tmp_path: Path) -> None:
    job = job_in(tmp_path, HADOOP)
    with watched(broker, tmp_path, job, {}, "iceberg", Counter) as lake:
        checkpoint, row = lake.left_undone(may_commit=True)
        collector = lake.collector
        done = collector.order("commit", row, confirm=NAME).json()
        assert "no catalog that would refuse a second writer: restore the job" in json.dumps(done), done
        job.start(ORDERS, restore=checkpoint)
        collector.wait_for(row["transaction"], state="committed", verdict="settled")
        job.wait_for_end()
