"""The job of Flink that writes orders to a table of Iceberg, in a Hadoop catalog or in one that a SQLite database keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from demo.prerequisites import ROOT
from tests.integration.flink_orders_job import JobSources, OrdersJob

SOURCES = JobSources(
    Path(__file__).with_name("flink_iceberg"),
    "org.apache.iceberg.flink.sink.FlinkIceberg",
    ROOT / ".run" / "test-flink-iceberg",
)
CATALOG, TABLE = "tests", "db.orders"
HADOOP = "hadoop"


def sqlite(database: Path) -> str:
    """Return the catalog that a database in this file keeps."""
    return f"jdbc:sqlite:{database}"


class IcebergJob(OrdersJob):
    """``catalog``: HADOOP or what ``sqlite`` returns; ``warehouse``, ``checkpoints``: a directory each; ``settings``: of Flink."""

    def __init__(
        self, catalog: str, warehouse: Path, checkpoints: Path, log: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(SOURCES, [catalog, f"file://{warehouse}"], checkpoints, log, settings)
