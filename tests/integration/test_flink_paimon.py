"""Commits to a Paimon table that a real Flink left undone, because it was killed: a restored job does them, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from demo.broker import Broker
from tests.integration import flink_paimon_job
from tests.integration.flink_lake import ORDERS, ROWS, Lake, watched
from tests.integration.flink_orders_job import LAST
from tests.integration.flink_paimon_job import PaimonJob, orders_in

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    flink_paimon_job.SOURCES.compile_or_skip()


@pytest.fixture
def lake(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    warehouse = tmp_path / "warehouse"
    job = PaimonJob(warehouse, tmp_path / "checkpoints", tmp_path / "flink.log")
    named = {"INDOUBT_PAIMON_WAREHOUSES": str(warehouse)}
    with watched(broker, tmp_path, job, named, "paimon", partial(orders_in, warehouse)) as made:
        yield made


def test_a_commit_that_a_killed_job_left_is_done_by_a_restored_job_and_by_no_order(lake: Lake) -> None:
    checkpoint, row = lake.left_undone(may_commit=False)
    before = lake.read()
    evidence = json.dumps(row["evidence"])
    assert f"{checkpoint}/_metadata lists exactly this commit" in evidence
    assert "no snapshot of the table adds them" in evidence
    assert f"no order adds its files: restart the job from chk-{LAST} or from a later one" in evidence
    for action in ("commit", "abort"):
        assert lake.collector.order(action, row, confirm=f"chk-{LAST}").status_code == 409
    assert lake.read() == before

    lake.job.start(ORDERS, restore=checkpoint)
    lake.collector.wait_for(row["transaction"], "a snapshot of the table adds it", state="committed", verdict="settled")
    lake.job.wait_for_end()
    assert lake.read() == ROWS


def test_a_job_that_is_set_back_uses_the_number_again_and_is_not_taken_for_the_commit(
    lake: Lake, tmp_path: Path
) -> None:
    checkpoint, row = lake.left_undone(may_commit=False)
    lake.job.start(ORDERS, restore=checkpoint.with_name(f"chk-{LAST - 1}"))
    lake.collector.wait_for(row["transaction"], rule=21, state="prepared")
    lake.job.wait_for_end()
    snapshots = [json.loads(path.read_text()) for path in tmp_path.glob("warehouse/db.db/orders/snapshot/snapshot-*")]
    assert LAST in [each["commitIdentifier"] for each in snapshots], "another commit bears its number"
    (told,) = lake.rows()
    assert (told["transaction"], told["state"]) == (row["transaction"], "prepared")
    assert lake.read() == ROWS
