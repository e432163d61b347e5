"""``indoubt pipeline history-rollup``: what the archives of any number of collectors amount to, by cluster, day and application.

A batch job. It reads the files that the archive lists, and writes one file of results for each cluster and day, in the place of an
earlier one: computed again, a day is the same. Columns: docs/history.md.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.durations import NO_TIMEOUT_MS
from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.lifecycle.verdicts import AbortCause
from indoubt.lifecycle.visible_text import visible
from indoubt.resource_managers.history_archive import (
    BRANCHES,
    ROOT,
    TRANSACTIONS,
    TRENDS,
    ArchivedFile,
    HistoryArchive,
    metadata_of,
    trend_path,
)

DAYS = 90
ID_DAYS = 7
"""An id is new where the seven days before had it not: a coordinator forgets one after so long by default."""
ACCURACY = 10_000
"""A percentile is at most a ten-thousandth of the transactions off."""
KEYS = ["cluster", "day", "application"]
RESULT = pa.schema(
    [
        pa.field("application", pa.string()),
        pa.field("day_ms", pa.int64()),
        pa.field("made_at_ms", pa.int64()),
        *(
            pa.field(name, pa.int64())
            for name in (
                "committed",
                "aborted",
                "lost",
                *(f"aborted_{cause.value}" for cause in AbortCause),
                "open_p50_ms",
                "open_p95_ms",
                "open_p99_ms",
                "open_longest_ms",
                "timeout_ms",
                "margin_least_ms",
                "margin_p1_ms",
                "ids",
                "new_ids",
                "branches",
                "branch_p50_ms",
                "branch_p99_ms",
                "branch_longest_ms",
            )
        ),
    ]
)
"""Of one cluster and day, which are in the path; ``day_ms`` is its begin, ``made_at_ms`` when it was computed (epoch ms)."""
_ENDED = "status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT') and start_ms is not null"
_HAS_TIMEOUT = f"timeout_ms > 0 and timeout_ms < {NO_TIMEOUT_MS}"


def by_application(transactions: DataFrame) -> DataFrame:
    """Return how transactions ended, how long they were open, and how near they came to their timeout, by the day of their end.

    ``transactions``: rows of ``transaction_records`` with their cluster and day.
    """
    ended = transactions.where(_ENDED).withColumn("open_ms", F.expr("greatest(update_ms - start_ms, 0)"))
    committed, aborted = F.col("status") == "COMPLETE_COMMIT", F.col("status") == "COMPLETE_ABORT"
    margin = F.when(committed & F.expr(_HAS_TIMEOUT), F.col("timeout_ms") - F.col("open_ms"))
    causes = [
        F.count_if(aborted & (F.col("cause") == cause.value)).alias(f"aborted_{cause.value}") for cause in AbortCause
    ]
    counted = ended.groupBy(*KEYS).agg(
        F.count_if(committed).alias("committed"),
        F.count_if(aborted).alias("aborted"),
        F.count_if(F.col("lost")).alias("lost"),
        *causes,
        _percentiles("open_ms", 0.5, 0.95, 0.99).alias("open"),
        F.max("open_ms").alias("open_longest_ms"),
        F.min(F.when(F.expr(_HAS_TIMEOUT), F.col("timeout_ms"))).alias("timeout_ms"),
        F.min(margin).alias("margin_least_ms"),
        F.percentile_approx(margin, 0.01, ACCURACY).alias("margin_p1_ms"),
    )
    return _named(counted, "open", "open_p50_ms", "open_p95_ms", "open_p99_ms")


def ids_by_application(transactions: DataFrame) -> DataFrame:
    """Return how many ids each application used on a day, and how many of them the seven days before did not have."""
    used = transactions.where(_ENDED).select(*KEYS, "transaction_id").distinct()
    by_day = "partition by cluster, application, transaction_id order by day"
    before = F.expr(f"lag(day) over ({by_day})")
    is_new = before.isNull() | (F.date_diff(F.to_date("day"), F.to_date(before)) > ID_DAYS)
    return (
        used.withColumn("is_new", is_new)
        .groupBy(*KEYS)
        .agg(F.count("*").alias("ids"), F.count_if("is_new").alias("new_ids"))
    )


def branches_by_application(branches: DataFrame) -> DataFrame:
    """Return how many branches of databases left their lists on a day, and how long they had been in doubt."""
    each = branches.groupBy("cluster", "application", "instance", "transaction_id").agg(
        F.min(F.coalesce("prepared_ms", "at_ms")).alias("prepared_ms"),
        F.max(F.when(F.col("what") == "gone", F.col("at_ms"))).alias("gone_ms"),
        F.max(F.when(F.col("what") == "gone", F.col("day"))).alias("day"),
    )
    counted = (
        each.where("gone_ms is not null")
        .withColumn("doubt_ms", F.expr("greatest(gone_ms - prepared_ms, 0)"))
        .groupBy(*KEYS)
        .agg(
            F.count("*").alias("branches"),
            _percentiles("doubt_ms", 0.5, 0.99).alias("doubt"),
            F.max("doubt_ms").alias("branch_longest_ms"),
        )
    )
    return _named(counted, "doubt", "branch_p50_ms", "branch_p99_ms")


def trends(spark: SparkSession, archive: HistoryArchive, clusters: Sequence[str], first: str, last: str) -> DataFrame:
    """Return one row for each cluster, day from ``first`` to ``last`` (YYYY-MM-DD), and application. Raises ArchiveFailed."""
    before = str(date.fromisoformat(first) - timedelta(days=ID_DAYS))
    files = [file for cluster in clusters if (known := archive.manifest(cluster)) for file in known.files]
    records = _read(spark, archive, TRANSACTIONS, files, lambda day: before <= day <= last)
    branches = _read(spark, archive, BRANCHES, files, lambda day: day <= last)
    parts = []
    if records is not None:
        parts += [by_application(records.where(F.col("day") >= first)), ids_by_application(records)]
    if branches is not None:
        parts.append(branches_by_application(branches))
    if not parts:
        return spark.createDataFrame([], "cluster string, day string, application string")
    return reduce(lambda left, right: left.join(right, KEYS, "full_outer"), parts).where(F.col("day") >= first)


def write(archive: HistoryArchive, rows: pa.Table) -> list[str]:
    """Write a file for each cluster and day of rows; return their paths below the archive. Raises ArchiveFailed."""
    written, made_at_ms = [], now_ms()
    places = rows.group_by(["cluster", "day"]).aggregate([]).to_pylist()
    for place in sorted(places, key=lambda place: (place["cluster"], place["day"])):
        cluster, day = place["cluster"], place["day"]
        of_day = rows.filter(pc.and_(pc.equal(rows["cluster"], cluster), pc.equal(rows["day"], day)))
        day_ms = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000
        same = {"day_ms": day_ms, "made_at_ms": made_at_ms}
        columns = [_column(of_day, field, same.get(field.name)) for field in RESULT]
        table = pa.table(columns, schema=RESULT.with_metadata(metadata_of(TRENDS, cluster))).sort_by("application")
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd")
        path = trend_path(cluster, day)
        archive.put_bytes(path, content.getvalue())
        written.append(path)
    return written


def run(spark: SparkSession, archive: HistoryArchive, clusters: Sequence[str], days: int, until: str = "") -> list[str]:
    """Compute and write the newest ``days`` until a day (YYYY-MM-DD; empty: the newest that is archived); return the paths.

    Raises ArchiveFailed, SettingsError where a cluster has no archive.
    """
    known = archive.clusters()
    if unknown := sorted(set(clusters) - set(known)):
        raise SettingsError(
            f"{archive.location.for_spark} has no cluster {unknown[0]!r}; it has {', '.join(known) or 'none'}"
        )
    chosen = clusters or known
    newest = [file.day for cluster in chosen if (found := archive.manifest(cluster)) for file in found.files]
    if not newest:
        return []
    last = until or max(newest)
    first = str(date.fromisoformat(last) - timedelta(days=days - 1))
    return write(archive, trends(spark, archive, chosen, first, last).toArrow())


def session(master: str, properties: Iterable[tuple[str, str]]) -> SparkSession:
    """Return the session of the job."""
    builder = SparkSession.builder.appName("indoubt history rollup")
    given = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        **({"spark.master": master} if master else {}),
        **dict(properties),
    }
    for name, value in given.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(words: Sequence[str]) -> int:
    """Read the command line, compute and write; return the exit code."""
    parser = argparse.ArgumentParser(prog="indoubt pipeline history-rollup", description=__doc__)
    parser.add_argument("--archive", required=True, help="path or URI: INDOUBT_HISTORY_ARCHIVE of the collectors")
    parser.add_argument("--cluster", action="append", default=[], help="only this one; may be repeated (default: all)")
    parser.add_argument("--days", type=int, default=DAYS, help=f"how many days, the newest ones (default: {DAYS})")
    parser.add_argument("--until", default="", metavar="YYYY-MM-DD", help="the last of these days")
    parser.add_argument(
        "--spark-master", default="", help="such as spark://host:7077 (default: spark-submit's, or local[*])"
    )
    parser.add_argument("--spark-property", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    given = parser.parse_args(words)
    properties = [(name, value) for name, _, value in (each.partition("=") for each in given.spark_property)]
    try:
        if given.days < 1:
            raise SettingsError(f"--days is {given.days}; it takes 1 or more")
        archive = HistoryArchive.open(given.archive, dict(properties))
        _check_day(given.until)
        written = run(session(given.spark_master, properties), archive, given.cluster, given.days, given.until)
    except IndoubtError as error:
        print(f"history-rollup: {visible(error)}", file=sys.stderr)
        return 2 if isinstance(error, SettingsError) else 1
    for path in written:
        print(path)
    return 0


def _check_day(text: str) -> None:
    try:
        if text:
            date.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"--until is {text!r}; it takes a day such as 2026-11-30") from None


def _read(
    spark: SparkSession,
    archive: HistoryArchive,
    table: str,
    files: Sequence[ArchivedFile],
    is_asked: Callable[[str], bool],
) -> DataFrame | None:
    """Return the rows of a table's files of these days, None where there is none; cluster and day are text."""
    paths = [archive.for_spark(file.path) for file in files if file.table == table and is_asked(file.day)]
    if not paths:
        return None
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return spark.read.option("basePath", archive.for_spark(f"{ROOT}/{table}")).parquet(*paths)


def _percentiles(column: str, *shares: float) -> Column:
    return F.percentile_approx(column, list(shares), ACCURACY)


def _named(rows: DataFrame, array: str, *names: str) -> DataFrame:
    """Return rows with the members of an array as columns."""
    return rows.withColumns({name: F.col(array)[place] for place, name in enumerate(names)}).drop(array)


def _column(rows: pa.Table, field: pa.Field, same: int | None) -> pa.ChunkedArray:
    """Return a column of the results; ``same``: the value of all rows, where they have none of their own."""
    if field.name in rows.column_names:
        return rows[field.name].cast(field.type)
    return pa.chunked_array([pa.repeat(pa.scalar(same, field.type), len(rows))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
