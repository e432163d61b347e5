"""Files as the sink of a pipeline, alone and with a topic under one decision. Judged by Spark, DuckDB and pyarrow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from demo.object_store import BUCKET, ObjectStore
from demo.prerequisites import java_home
from tests.integration.files_fixtures import running_store
from tests.integration.pipeline_process import (
    PipelineProcess,
    make_topics,
    open_transactions,
    produce,
    read_committed,
    wait_until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LIMIT_S = 180.0
BY_DAY = """
import indoubt.spark

def orders(spark, settings):
    rows = indoubt.spark.read(spark, settings.source, bootstrap=settings.bootstrap_servers)
    return rows.selectExpr("cast(value as string) as word", "cast(int(substring(cast(value as string), 5)) % 3 as string) as day")
"""
SPARK_READER = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = getattr(spark.read, sys.argv[1])(sys.argv[2])
print("ROWS", sorted(tuple(row) for row in rows.select(*sys.argv[3:]).collect()))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    yield from running_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def name(connection) -> str:
    name = f"files-{uuid4().hex[:8]}"
    make_topics(connection, f"in-{name}", f"out-{name}")
    return name


def values(start: int, count: int) -> list[bytes]:
    return [b"row %06d" % n for n in range(start, start + count)]


def seen_by_duckdb(directory: Path) -> Counter[bytes]:
    """Return the values in all files that end like Parquet, wherever they are below the directory."""
    if not [*directory.rglob("*.parquet")]:
        return Counter()
    found = duckdb.execute("select value from read_parquet($1)", [f"{directory}/**/*.parquet"]).fetchall()
    return Counter(value for (value,) in found)


def seen_by_pyarrow(directory: str, filesystem: fs.FileSystem | None = None) -> Counter[bytes]:
    """Return the values that a dataset of the directory has."""
    found = ds.dataset(directory, filesystem=filesystem, format="parquet").to_table()
    return Counter(found["value"].to_pylist()) if found.num_rows else Counter()


def seen_by_spark(directory: Path, format_: str, *columns: str) -> list[tuple[object, ...]]:
    """Return the rows that a Spark of its own reads."""
    answer = subprocess.run(
        [sys.executable, "-c", SPARK_READER, format_, str(directory), *columns],
        env={**os.environ, "JAVA_HOME": java_home(), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in answer.stdout.splitlines() if line.startswith("ROWS"))
    rows: list[tuple[object, ...]] = eval(line.removeprefix("ROWS "))
    return rows


def in_doubt(names: list[str]) -> list[str]:
    """Return what is below the directory besides rows, markers and the id."""
    hidden = [name for name in names if name.startswith("_")]
    return [name for name in hidden if not name.startswith(("_indoubt/id", "_indoubt/markers/"))]


def local_names(directory: Path) -> list[str]:
    return [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]


@pytest.mark.long
def test_a_batch_of_files_is_seen_once_it_is_decided_and_only_once(connection, name, tmp_path):
    directory = tmp_path / "orders"
    settings = {"source": f"in-{name}", "sink": f"files:{directory}", "prefix": name, "restart_delay_ms": 3_000}
    with PipelineProcess(connection, tmp_path / "pipeline", **settings, restart_attempts=9) as pipeline:
        produce(connection, f"in-{name}", values(0, 100))
        wait_until("100 rows", lambda: seen_by_duckdb(directory).total() >= 100, LIMIT_S)
        for done, point in enumerate(("slot-prepared", "after-prepare", "after-decision"), start=1):
            pipeline.arm(point, "freeze")
            produce(connection, f"in-{name}", values(done * 100, 100))
            wait_until(f"the driver to stand still at {point}", lambda point=point: pipeline.reached(point), LIMIT_S)
            assert any(name.endswith(".prepared") for name in in_doubt(local_names(directory)))
            for seen in (seen_by_duckdb(directory), seen_by_pyarrow(str(directory))):
                assert seen.total() == done * 100, point
            if point == "after-prepare":
                rows = seen_by_spark(directory, "parquet", "value")
                assert [bytes(row[0]) for row in rows] == values(0, done * 100)
            pipeline.kill_driver()
            expected = Counter(values(0, done * 100 + 100))
            wait_until(
                "all rows", lambda expected=expected: seen_by_duckdb(directory).total() >= expected.total(), LIMIT_S
            )
            assert seen_by_duckdb(directory) == seen_by_pyarrow(str(directory)) == expected, point
        assert " 0 lost" in pipeline.log
    assert pipeline.process.returncode == 0
    assert in_doubt(local_names(directory)) == []


@pytest.mark.long
def test_a_topic_and_files_in_a_store_have_the_same_rows_over_kills_and_503s(connection, name, store, tmp_path):
    directory = f"{BUCKET}/{name}"
    settings = {
        "source": f"in-{name}",
        "sink": f"out-{name},files:s3://{directory}",
        "prefix": name,
        "spark_properties": ",".join("=".join(pair) for pair in store.spark_properties.items()),
        "transaction_timeout_ms": 120_000,
    }

    def names() -> list[str]:
        infos = store.filesystem.get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
        return [info.path.removeprefix(f"{directory}/") for info in infos if info.type is fs.FileType.File]

    def both() -> tuple[Counter[bytes], Counter[bytes]]:
        there = any(name.endswith(".parquet") for name in names())
        return (
            read_committed(connection, f"out-{name}"),
            seen_by_pyarrow(directory, store.filesystem) if there else Counter(),
        )

    with PipelineProcess(connection, tmp_path / "pipeline", **settings, restart_attempts=9) as pipeline:
        produce(connection, f"in-{name}", values(0, 100))
        wait_until("100 rows in both", lambda: min(seen.total() for seen in both()) >= 100, LIMIT_S)
        for done, point in enumerate(("after-flush", "after-prepare", "after-decision", "mid-commit"), start=1):
            pipeline.arm(point, "freeze" if point == "mid-commit" else "kill")
            produce(connection, f"in-{name}", values(done * 100, 100))
            wait_until(f"the driver at {point}", lambda point=point: pipeline.reached(point), LIMIT_S)
            if point == "mid-commit":
                topic, files = both()
                assert (topic.total(), files.total()) == (done * 100 + 100, done * 100), (
                    "the topic's are committed first"
                )
                store.disturb("503")
                pipeline.kill_driver()
                wait_until("the store's answer in the log", lambda: "503" in pipeline.log, LIMIT_S)
                store.heal()
            expected = Counter(values(0, done * 100 + 100))
            wait_until(
                "all rows in both",
                lambda expected=expected: min(seen.total() for seen in both()) >= expected.total(),
                LIMIT_S,
            )
            assert both() == (expected, expected), point
        # That the last batch is seen does not say that a driver runs again.
        produce(connection, f"in-{name}", values(500, 10))
        wait_until("the next batch", lambda: min(seen.total() for seen in both()) >= 510, LIMIT_S)
    assert pipeline.process.returncode == 0
    assert in_doubt(names()) == []
    assert open_transactions(connection, name) == []


@pytest.mark.long
@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_partitions_are_those_that_readers_know(connection, name, tmp_path, monkeypatch, format_):
    (tmp_path / "my_jobs.py").write_text(BY_DAY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    directory = tmp_path / "orders"
    settings = {
        "job": "my_jobs:orders",
        "source": f"in-{name}",
        "sink": f"files:{directory}",
        "prefix": name,
        "files_format": format_,
        "files_partition_by": "day",
    }
    suffix, reads = {"parquet": ("parquet", "read_parquet"), "jsonl": ("jsonl", "read_json")}[format_]
    query = f"select word, cast(day as varchar) from {reads}('{directory}/**/*.{suffix}', hive_partitioning = true)"  # noqa: S608
    with PipelineProcess(connection, tmp_path / "pipeline", **settings):
        produce(connection, f"in-{name}", values(0, 30))
        expected = [(f"row {n:06d}", str(n % 3)) for n in range(30)]
        wait_until(
            "all files",
            lambda: len([*directory.rglob(f"*.{suffix}")]) >= 3 and len(duckdb.sql(query).fetchall()) >= 30,
            LIMIT_S,
        )
    assert sorted(duckdb.sql(query).fetchall()) == expected
    rows = seen_by_spark(directory, "parquet" if format_ == "parquet" else "json", "word", "day")
    assert [(word, str(day)) for word, day in rows] == expected
    assert {path.name for path in directory.iterdir()} == {"_indoubt", "day=0", "day=1", "day=2"}
