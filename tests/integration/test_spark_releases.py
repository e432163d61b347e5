"""The sink in jobs on other releases of Spark than the one on which all tests run (4.2): each row once, over two runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from demo.prerequisites import ROOT
from demo.python_packages import STORED
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.pipeline_process import make_topics, open_transactions, read_committed
from tests.integration.spark_job import environment

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.last, pytest.mark.timeout(1200)]
KEPT = ROOT / ".run" / "sparks"
INSTALL_LIMIT_S, RUN_LIMIT_S = 600, 400
RUNS, BATCHES, ROWS_OF_A_BATCH = 2, 2, 100
JOB = """
import sys

from pyspark.sql import SparkSession

import indoubt.spark
from indoubt.lifecycle.errors import SettingsError

bootstrap, sink, checkpoint, lines = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.readStream.option("maxFilesPerTrigger", 1).text(lines)
query = indoubt.spark.start(
    rows, sink=sink, bootstrap=bootstrap, checkpoint=checkpoint, prefix=sink, trigger={"availableNow": True}
)
query.awaitTermination()
try:
    indoubt.spark.read(spark, sink, bootstrap=bootstrap)
    print("READS")
except SettingsError as error:
    print(error)
"""


@pytest.fixture(params=["4.1.4", "4.3.0"])
def release(request: pytest.FixtureRequest) -> str:
    """Return a release that is installed in a directory of its own."""
    release: str = request.param
    if not (KEPT / release / "pyspark" / "__init__.py").exists():
        # Without a cache: it would keep 2 GB of each release's build.
        install = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-cache", f"-C={STORED}"]
        given = ["--python", sys.executable, f"pyspark=={release}", "--target", KEPT / release]
        subprocess.run([*install, *given], check=True, timeout=INSTALL_LIMIT_S)
    return release


def test_each_row_of_two_runs_is_written_once(connection: KafkaConnection, release: str, tmp_path: Path) -> None:
    sink = f"spark-{release.replace('.', '-')}"
    make_topics(connection, sink, "transaction_lifecycle")
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "lines").mkdir()
    said, rows = [], []
    for run in range(RUNS):
        for batch in range(BATCHES):
            lines = [f"{run}-{batch}-{number}" for number in range(ROWS_OF_A_BATCH)]
            (tmp_path / "lines" / f"{run}-{batch}.txt").write_text("\n".join(lines))
            rows += lines
        command = [sys.executable, "job.py", connection.bootstrap_servers, sink, f"{tmp_path}/checkpoint", "lines"]
        spark = {"SPARK_HOME": str(KEPT / release / "pyspark"), "PYTHONPATH": f"{KEPT / release}:{ROOT}"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(**spark), capture_output=True, text=True, timeout=RUN_LIMIT_S
        )
        assert done.returncode == 0, done.stderr[-4000:]
        said.append(done.stdout)
    assert read_committed(connection, sink) == dict.fromkeys((row.encode() for row in rows), 1)
    assert open_transactions(connection, sink) == []
    assert all(("needs 4.2" in text) if release.startswith("4.1") else ("READS" in text) for text in said)
