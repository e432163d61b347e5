"""The job of Flink that writes orders to an append table of Paimon in a warehouse on this machine."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from demo.prerequisites import ROOT
from tests.integration.flink_orders_job import LIMIT_S, JobSources, OrdersJob

SOURCES = JobSources(
    Path(__file__).with_name("flink_paimon"), "flink_job.FlinkPaimon", ROOT / ".run" / "test-flink-paimon"
)


class PaimonJob(OrdersJob):
    """``warehouse``, ``checkpoints``: a directory each; ``settings``: of Flink."""

    def __init__(
        self, warehouse: Path, checkpoints: Path, log: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(SOURCES, [f"file://{warehouse}"], checkpoints, log, settings)


def orders_in(warehouse: Path) -> Counter[str]:
    """Return how often each order is in the table, read by Paimon itself."""
    command = [*SOURCES.command, f"file://{warehouse}"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    return Counter(line for line in printed.splitlines() if line.startswith("order "))
