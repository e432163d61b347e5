"""The job ip_count counts where records are read: the rows are those that Spark's own source and operators make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import tests.property_tests  # noqa: F401
from benchmarks import spark_jobs
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.jobs.ip_count import add_up, count_each
from indoubt.pipeline.jobs.job import find_job
from indoubt.pipeline.run.driver import make_spark
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.pipeline_process import make_topics, produce

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SOURCE, BATCH = "ip-count-in", 40
ODD = [
    b"", b",", b"a", b"a,", b",5", b"a,x", b"a,1.5", b"a,0x10", b"a,1e3", b"b, 7 ", b"b,+8", b"b,\t9\n", b"b,-1", b"b,-5000",
    b"b,-5001", b"b,00000000000000000000012", b"c,12,13", b"c,12,x", b"\xff,14", b"d,1\xff", b"d,99999999999999999999",
    b" e,15", b"e ,16", "ü,17".encode(), b"e,--1", b"e,+", b"0x1,18",
]  # fmt: skip


@pytest.fixture(scope="module")
def spark(connection: KafkaConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = make_spark(settings(connection, tmp_path_factory.mktemp("unused")))
    yield session
    session.stop()


def settings(connection: KafkaConnection, checkpoint: Path) -> PipelineSettings:
    return PipelineSettings(
        job="ip_count",
        bootstrap_servers=connection.bootstrap_servers,
        checkpoint=str(checkpoint),
        prefix="ip-count",
        source=SOURCE,
        sink="unused",
        max_offsets_per_trigger=BATCH,
        tasks=2,
        spark_properties="spark.driver.memory=1g",
    )


def run(rows: DataFrame, name: str) -> tuple[list[Any], list[int]]:
    """Return the rows of a query over all that is there, sorted, and how many records each batch left out."""
    query = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(120), "the query is not over after 120 s"
    left_out = [progress.observedMetrics["malformed"]["rows"] for progress in query.recentProgress]
    return sorted(rows.sparkSession.table(name).collect()), [count for count in left_out if count]


def test_each_batch_has_the_rows_that_sparks_own_source_and_operators_make(spark, connection, tmp_path):
    make_topics(connection, SOURCE, partitions=1)
    # In order, with late ones whose window is closed, and a last one that closes all.
    on_time = [b"10.0.0.%d,%d" % (n % 7, 1_000 * n) for n in range(100)]
    late = [b"10.0.0.%d,%d" % (n, 2_000) for n in range(5)]
    produce(connection, SOURCE, [*on_time, *late, *ODD, *on_time[90:], b"10.0.0.9,400000"])
    chosen = settings(connection, tmp_path)
    ours = run(find_job(chosen).rows(spark), "ours")
    sparks = run(spark_jobs.rows(spark, chosen), "sparks")
    assert ours == sparks
    rows, left_out = ours
    first_window = {row.key: row.value for row in rows if row.key.startswith("10.0.0.") and row.key.endswith("|0")}
    assert first_window.keys() == {f"10.0.0.{n}|0" for n in range(5)}
    assert all('"count":1}' in value for value in first_window.values()), "late records are not counted"
    assert 0 < sum(left_out) < len(ODD)


values = st.lists(
    st.one_of(
        st.sampled_from([*ODD, None]),
        st.builds(lambda ip, ms: b"%d,%d" % (ip, ms), st.integers(0, 3), st.integers(-(10**4), 10**4)),
    )
)


@given(values, st.integers(0, 50))
def test_counting_in_pieces_is_counting_the_whole(found, cut):
    def counted(*pieces: list[bytes | None]) -> set[tuple[Any, ...]]:
        columns = (pa.record_batch({"value": pa.array(piece, pa.binary())}) for piece in pieces)
        table = add_up(pa.Table.from_batches([count_each(piece) for piece in columns]))
        return {tuple(row.values()) for row in table.to_pylist()}

    assert counted(found) == counted(found[:cut], found[cut:])
    assert sum(row[-1] for row in counted(found)) == len(found)
