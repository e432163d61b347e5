"""A real Flink that writes orders to a table, the collector that watches it, and the commit left undone when Flink was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.broker import Broker
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.flink_orders_job import LAST, OrdersJob
from tests.integration.kafka_fixtures import wait_until

ORDERS = 400
ROWS = Counter({f"order {number}": 1 for number in range(ORDERS)})
_SETTINGS = {
    "INDOUBT_FLINK_POLLING_MS": "200",
    "INDOUBT_REMOTE_CHECKPOINT_POLLING_MS": "500",
    # A JobManager that died is waited for so long before a commit is to be done.
    "INDOUBT_DRIVER_SILENT_MS": "3000",
}


@dataclass
class Lake:
    """``read``: how often each order is in the table, by a reader that knows neither job nor collector."""

    job: OrdersJob
    collector: CollectorProcess
    resource_manager: str
    read: Callable[[], Counter[str]]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the commits to the table."""
        return self.collector.rows(f"transactions?all=true&resource_manager={self.resource_manager}")

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

    def left_undone(self, **fields: Any) -> tuple[Path, dict[str, Any]]:
        """Have the job killed between checkpoint 3 and its commit; return the checkpoint and the commit, which is to be done."""
        self.job.start(ORDERS, last=LAST)
        checkpoint = self.job.checkpoint(LAST)
        self.commit(rule=23, verdict="in progress", pipeline="shop/orders", checkpoint=LAST)
        self.job.kill()
        return checkpoint, self.commit(rule=23, verdict="commit it", may_abort=False, **fields)


@contextmanager
def watched(
    broker: Broker,
    directory: Path,
    job: OrdersJob,
    environment: Mapping[str, str],
    resource_manager: str,
    read: Callable[[], Counter[str]],
) -> Iterator[Lake]:
    """Watch a job with checkpoints in ``directory``; it is killed at the end."""
    arguments = ["--flink", f"shop=http://127.0.0.1:{job.port}", "--flink-checkpoints", f"shop={directory}/checkpoints"]
    settings = {**_SETTINGS, **environment}
    (directory / "checkpoints").mkdir()
    with running(broker.bootstrap_servers, directory / "collector", arguments, settings) as collector:
        yield Lake(job, collector, resource_manager, read)
        job.kill()
