"""Commits to a Paimon table that a real Flink left undone, because it was killed: a restored job does them, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.broker import Broker
from tests.integration import flink_paimon_job
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.flink_orders_job import LAST
from tests.integration.flink_paimon_job import PaimonJob, orders_in
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
ORDERS = 400
ROWS = Counter({f"order {number}": 1 for number in range(ORDERS)})
SETTINGS = {
    "INDOUBT_FLINK_POLLING_MS": "200",
    "INDOUBT_REMOTE_CHECKPOINT_POLLING_MS": "500",
    # A JobManager that died is waited for so long before a commit is to be done.
    "INDOUBT_DRIVER_SILENT_MS": "3000",
}


@dataclass
class Lake:
    """A job, its warehouse, and the collector that watches it."""

    job: PaimonJob
    warehouse: Path
    collector: CollectorProcess

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
        return self.collector.rows("transactions?all=true&resource_manager=paimon")


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    flink_paimon_job.SOURCES.compile_or_skip()


@pytest.fixture
def lake(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    checkpoints, warehouse = tmp_path / "checkpoints", tmp_path / "warehouse"
    checkpoints.mkdir()
    job = PaimonJob(warehouse, checkpoints, tmp_path / "flink.log")
    arguments = ["--flink", f"shop=http://127.0.0.1:{job.port}", "--flink-checkpoints", f"shop={checkpoints}"]
    settings = {**SETTINGS, "INDOUBT_PAIMON_WAREHOUSES": str(warehouse)}
    with running(broker.bootstrap_servers, tmp_path / "collector", arguments, settings) as collector:
        yield Lake(job, warehouse, collector)
        job.kill()


def left_undone(lake: Lake) -> tuple[Path, dict[str, Any]]:
    """Have the job killed between checkpoint 3 and its commit; return the checkpoint and the commit, which is to be done."""
    lake.job.start(ORDERS, last=LAST)
    checkpoint = lake.job.checkpoint(LAST)
    lake.commit(rule=23, verdict="in progress", pipeline="shop/orders", checkpoint=LAST)
    lake.job.kill()
    return checkpoint, lake.commit(rule=23, verdict="commit it", may_commit=False, may_abort=False)


def test_a_commit_that_a_killed_job_left_is_done_by_a_restored_job_and_by_no_order(lake: Lake) -> None:
    checkpoint, row = left_undone(lake)
    before = orders_in(lake.warehouse)
    evidence = json.dumps(row["evidence"])
    assert f"{checkpoint}/_metadata lists exactly this commit" in evidence
    assert "no snapshot of the table adds them" in evidence
    assert f"no order adds its files: restart the job from chk-{LAST} or from a later one" in evidence
    for action in ("commit", "abort"):
        assert lake.collector.order(action, row, confirm=f"chk-{LAST}").status_code == 409
    assert orders_in(lake.warehouse) == before

    lake.job.start(ORDERS, restore=checkpoint)
    lake.collector.wait_for(row["transaction"], "a snapshot of the table adds it", state="committed", verdict="settled")
    lake.job.wait_for_end()
    assert orders_in(lake.warehouse) == ROWS


def test_a_job_that_is_set_back_uses_the_number_again_and_is_not_taken_for_the_commit(lake: Lake) -> None:
    checkpoint, row = left_undone(lake)
    lake.job.start(ORDERS, restore=checkpoint.with_name(f"chk-{LAST - 1}"))
    lake.collector.wait_for(row["transaction"], rule=21, state="prepared")
    lake.job.wait_for_end()
    snapshots = [json.loads(path.read_text()) for path in lake.warehouse.glob("db.db/orders/snapshot/snapshot-*")]
    assert LAST in [each["commitIdentifier"] for each in snapshots], "another commit bears its number"
    (told,) = lake.rows()
    assert (told["transaction"], told["state"]) == (row["transaction"], "prepared")
    assert orders_in(lake.warehouse) == ROWS
