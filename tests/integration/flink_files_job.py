"""The job of Flink that writes orders to files, on this machine or in S3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from demo.prerequisites import ROOT
from tests.integration.flink_orders_job import JobSources, OrdersJob

SOURCES = JobSources(Path(__file__).with_name("flink_files"), "FlinkFiles", ROOT / ".run" / "test-flink")


class FilesJob(OrdersJob):
    """``files``, ``checkpoints``: a directory each, as Flink names it; ``settings``: of Flink."""

    def __init__(self, files: str, checkpoints: Path, log: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(SOURCES, [files], checkpoints, log, settings)
