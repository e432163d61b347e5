"""Claim: the job over archived history takes time in proportion to its records, on Spark's standalone cluster.

    python -m benchmarks.history_rollup [--records 2000000,10000000,50000000] [--days 30] [--directory DIR] [--json]

It writes an archive for each number of records (archived_history.py), starts a master and two workers on this machine, and runs the
job as a user does. The time is that of the whole process: Spark's start, reading, computing, writing. Each run's commits and aborts
are compared with what DuckDB counts in the same files. With ``--directory`` archives are kept there, and used again;
``--only-write`` writes them and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks import machine
from benchmarks.archived_history import write_archive
from benchmarks.figures import row, slope
from demo.prerequisites import ROOT, java_home
from demo.spark_cluster import SparkCluster
from indoubt.resource_managers.history_archive import HistoryArchive

LIMIT_S = 3_600.0
_ENDS = """
select count(*) filter (status = 'COMPLETE_COMMIT'), count(*) filter (status = 'COMPLETE_ABORT')
from read_parquet('{archive}/v1/transaction_records/**/*.parquet', hive_partitioning = false)"""
_RESULTS = """
select coalesce(sum(committed), 0)::bigint, coalesce(sum(aborted), 0)::bigint
from read_parquet('{archive}/v1/trends/**/*.parquet', hive_partitioning = false)"""


def made(directory: Path, records: int, days: int) -> int:
    """Return how many records the archive in a directory has, which is written where it is missing."""
    if not directory.exists():
        unfinished = directory.with_name(f"{directory.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        write_archive(unfinished, records, days)
        unfinished.rename(directory)
    archive = HistoryArchive.open(str(directory))
    manifests = [archive.manifest(cluster) for cluster in archive.clusters()]
    return sum(file.rows for manifest in manifests if manifest is not None for file in manifest.files)


def run_job(archive: Path, master: str) -> float:
    """Return how long the job took (s). Raises AssertionError where it counted something else than DuckDB."""
    environment = {
        **os.environ,
        "JAVA_HOME": java_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [
        sys.executable,
        "-m",
        "indoubt.pipeline",
        "history-rollup",
        "--archive",
        str(archive),
        "--spark-master",
        master,
    ]
    command += ["--days", "366", "--spark-property", "spark.log.level=ERROR"]
    shutil.rmtree(archive / "v1" / "trends", ignore_errors=True)
    began_s = time.monotonic()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    took_s = time.monotonic() - began_s
    with duckdb.connect() as reader:
        wanted = reader.execute(_ENDS.format(archive=archive)).fetchall()
        found = reader.execute(_RESULTS.format(archive=archive)).fetchall()
    assert found == wanted, f"the job counted {found}, DuckDB {wanted}"
    return took_s


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default="2000000,10000000,50000000")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--directory", type=Path, help="keep the archives here, and use them again")
    parser.add_argument("--only-write", action="store_true", help="write the archives, and run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args()
    sizes = [int(text) for text in given.records.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        directory = given.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        archives = {size: directory / f"archive-{size}-{given.days}" for size in sizes}
        records = {size: made(path, size, given.days) for size, path in archives.items()}
        if given.only_write:
            return 0
        print(machine.describe())
        print(row("records", "MB of Parquet", "s", "million/s"))
        points = []
        with SparkCluster(Path(temporary) / "spark") as cluster:
            for size, path in archives.items():
                took_s = run_job(path, cluster.master)
                megabytes = sum(file.stat().st_size for file in path.rglob("*.parquet")) / 1e6
                points.append({"records": records[size], "megabytes": megabytes, "seconds": took_s})
                columns = f"{megabytes:.0f}", f"{took_s:.1f}", f"{records[size] / took_s / 1e6:.2f}"
                print(row(f"{records[size]:,}", *columns), flush=True)
    if len(points) > 1:
        each = slope([(point["records"] / 1e6, point["seconds"]) for point in points])
        print(f"each further million records takes {each:.2f} s")
    if given.json:
        print(json.dumps({"points": points}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
