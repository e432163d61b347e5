"""The job over archived history, on Spark, against DuckDB over the same files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from benchmarks.archived_history import write_archive
from indoubt.pipeline.config.settings import ROOT
from indoubt.resource_managers.history_archive import HistoryArchive
from tests.integration.spark_job import LIMIT_S, environment

pytestmark = [pytest.mark.integration, pytest.mark.long]

DAYS, CLUSTERS, RECORDS = 10, 2, 160_000
# Said once more in other words; percentiles exactly.
_BY_DUCKDB = """
with records as (
    select *, greatest(update_ms - start_ms, 0) as open_ms
    from read_parquet('{archive}/v1/transaction_records/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)
    where starts_with(status, 'COMPLETE_')),
used as (
    select cluster, application, day, transaction_id, not exists (
        from records e where e.cluster = r.cluster and e.transaction_id = r.transaction_id
            and e.day::date < r.day::date and e.day::date >= r.day::date - 7) as is_new
    from records r group by all),
ids as (select cluster, application, day, count(*) as ids, count(*) filter (is_new) as new_ids from used group by all)
select cluster, day, application, count(*) filter (status = 'COMPLETE_COMMIT') as committed,
       count(*) filter (status = 'COMPLETE_ABORT') as aborted, count(*) filter (lost) as lost,
       {causes}, max(open_ms) as open_longest_ms,
       min(timeout_ms - open_ms) filter (status = 'COMPLETE_COMMIT') as margin_least_ms,
       quantile_disc(open_ms, 0.5) as p50, quantile_disc(open_ms, 0.99) as p99, any_value(ids) as ids,
       any_value(new_ids) as new_ids
from records join ids using (cluster, day, application) group by all order by all"""
CAUSES = ("timeout", "fenced", "client", "operator", "unknown")


def run_job(archive: Path, *words: str) -> list[str]:
    """Return the files that the job says it wrote."""
    command = [sys.executable, "-m", "indoubt.pipeline", "history-rollup", "--archive", str(archive), *words]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def results(archive: Path) -> list[dict[str, Any]]:
    with duckdb.connect() as reader:
        reader.execute(
            f"select * exclude (made_at_ms) from read_parquet('{archive}/v1/trends/**/*.parquet', hive_partitioning = true, "  # noqa: S608
            "hive_types_autocast = false) order by cluster, day, application"
        )
        return reader.to_arrow_table().to_pylist()


def expected(archive: Path) -> list[dict[str, Any]]:
    causes = ", ".join(f"count(*) filter (cause = '{cause}') as aborted_{cause}" for cause in CAUSES)
    with duckdb.connect() as reader:
        reader.execute(_BY_DUCKDB.format(archive=archive, causes=causes))
        return reader.to_arrow_table().to_pylist()


def test_it_counts_what_duckdb_counts_and_computes_a_day_again(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    write_archive(archive, RECORDS, DAYS, CLUSTERS)
    written = run_job(archive, "--spark-master", "local[2]")
    assert len(written) == DAYS * CLUSTERS
    wanted, found = expected(archive), [row for row in results(archive) if row["application"] != "xa"]
    assert len(found) == len(wanted) == DAYS * CLUSTERS * 20
    for row, other in zip(found, wanted, strict=True):
        for name in other.keys() - {"p50", "p99"}:
            assert row[name] == other[name], (name, row, other)
        assert abs(row["open_p50_ms"] - other["p50"]) <= 0.02 * other["p50"]
        assert abs(row["open_p99_ms"] - other["p99"]) <= 0.05 * other["p99"]
        assert row["branches"] is None
    assert {row["new_ids"] for row in found if row["day"] != found[0]["day"]} == {2}, "two new ids a day"
    assert sum(row["lost"] for row in found) > 0
    branches = [row for row in results(archive) if row["application"] == "xa"]
    assert sum(row["branches"] for row in branches) == 200 * DAYS * CLUSTERS
    assert all(300 <= row["branch_p50_ms"] <= row["branch_longest_ms"] < 1_000 for row in branches)
    told = pq.read_metadata(archive / written[0]).metadata
    assert (told[b"indoubt.schema_version"], told[b"indoubt.table"]) == (b"1", b"trends")

    # Three days of one cluster again, beside a file that no list has: nothing changes, and nothing is doubled.
    before = results(archive)
    folder = next((archive / "v1" / "transaction_records" / "cluster=cluster-1").iterdir())
    (folder / "99.parquet").write_bytes(next(folder.glob("*.parquet")).read_bytes())
    again = run_job(archive, "--spark-master", "local[2]", "--cluster", "cluster-1", "--days", "3")
    assert [path.split("/")[2:4] for path in again] == [
        ["cluster=cluster-1", f"day=2026-09-{day}"] for day in ("11", "12", "13")
    ]
    assert results(archive) == before


def test_an_unknown_cluster_is_said(tmp_path: Path) -> None:
    HistoryArchive.open(str(tmp_path)).begin("here")
    command = [
        sys.executable,
        "-m",
        "indoubt.pipeline",
        "history-rollup",
        "--archive",
        str(tmp_path),
        "--cluster",
        "there",
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2
    assert "has no cluster 'there'; it has here" in done.stderr
