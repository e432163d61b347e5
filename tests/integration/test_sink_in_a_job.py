"""The code of docs/sink.md, on Spark in one process and on a standalone cluster, killed once between prepare and commit."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from demo.object_store import ObjectStore
from demo.spark_cluster import SparkCluster
from indoubt.pipeline.runtime.status_file import WRONG_SETTINGS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.pipeline_process import (
    PipelineProcess,
    make_topics,
    open_transactions,
    produce,
    read_committed,
    wait_until,
)
from tests.integration.spark_job import LIMIT_S, PAGE, SparkJob, code_of, make_package

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
ROWS = [b"row-%d" % number for number in range(100)]
MORE = [b"more-%d" % number for number in range(50)]
SHOWS_WHAT_WAS_ABORTED = """
def orders(spark, settings):
    source = {"kafka.bootstrap.servers": settings.bootstrap_servers, "subscribe": "orders"}
    return spark.readStream.format("kafka").options(**source).load().select("key", "value")
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_package(tmp_path_factory.mktemp("package"))


def expect(connection: KafkaConnection, topic: str, *rows: bytes) -> None:
    """Wait until an independent read_committed reader sees these rows in capitals; then they are there once each."""
    wanted = Counter(row.upper() for row in rows)
    wait_until(f"the rows in {topic}", lambda: read_committed(connection, topic).keys() == wanted.keys(), LIMIT_S)
    assert read_committed(connection, topic) == wanted


def judge(connection: KafkaConnection, job: SparkJob, point: str) -> None:
    """Kill the job at this point of its first batch, start it again, and have it do another batch."""
    produce(connection, job.name, ROWS)
    job.arm(point)
    with job:
        job.wait_killed(point)
    assert open_transactions(connection, job.name), "prepared, and not committed"
    assert read_committed(connection, job.sink) == Counter()
    with job:
        expect(connection, job.sink, *ROWS)
        produce(connection, job.name, MORE)
        expect(connection, job.sink, *ROWS, *MORE)
    assert open_transactions(connection, job.name) == []


@pytest.mark.long
def test_a_job_that_is_killed_after_its_decision_writes_each_row_once(connection, package, tmp_path):
    judge(connection, SparkJob(connection, tmp_path, package, "--master", "local[2]"), "after-decision")


@pytest.mark.long
def test_a_cluster_job_killed_before_its_decision_writes_rows_once(connection, package, tmp_path):
    """With executors that come and go, and with its checkpoint directory in an object store, as the page says."""
    with SparkCluster(tmp_path / "spark") as spark, ObjectStore(tmp_path / "store") as store:
        properties = {"spark.executor.memory": "512m", "spark.executor.cores": "1", **store.spark_properties}
        (given,) = re.findall(r"^    spark-submit --master spark.*job.py$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        dynamic = dict(word.split("=") for word in given.split() if word.startswith("spark.dynamicAllocation"))
        assert dynamic["spark.dynamicAllocation.enabled"] == "true"
        words = [word for pair in (properties | dynamic).items() for word in ("--conf", "=".join(pair))]
        job = SparkJob(connection, tmp_path, package, "--master", spark.master, *words, checkpoint=store.uri)
        job.jars += store.jars.glob("*.jar")
        judge(connection, job, "after-prepare")


def own_job(connection: KafkaConnection, directory: Path, code: str = "") -> dict[str, str]:
    """Write ``my_jobs.py``, the page's unless other code is given; return the settings of a pipeline that runs it."""
    name = f"own-{os.urandom(4).hex()}"
    make_topics(connection, name, f"{name}-out")
    (directory / "my_jobs.py").write_text((code or code_of("my_jobs.py")).replace('"orders"', f'"{name}"'))
    return {"job": "my_jobs:orders", "sink": f"{name}-out", "prefix": name}


@pytest.mark.long
def test_a_function_of_ones_own_writes_no_record_that_was_aborted(connection, tmp_path, monkeypatch):
    settings = own_job(connection, tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    source = settings["prefix"]
    produce(connection, source, ROWS[:50])
    producer = Producer(connection.for_librdkafka(**{"transactional.id": f"{source}-source"}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for _ in range(20):
        producer.produce(source, b"aborted")
    producer.flush(LIMIT_S)
    producer.abort_transaction(LIMIT_S)
    produce(connection, source, ROWS[50:])
    with PipelineProcess(connection, tmp_path / "pipeline", **settings):
        expect(connection, settings["sink"], *ROWS)


@pytest.mark.long
def test_a_source_that_shows_what_was_aborted_is_refused(connection, tmp_path, monkeypatch):
    settings = own_job(connection, tmp_path, SHOWS_WHAT_WAS_ABORTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with PipelineProcess(connection, tmp_path / "pipeline", **settings) as pipeline:
        assert pipeline.wait_exit() == WRONG_SETTINGS
        assert '.option("kafka.isolation.level", "read_committed")' in pipeline.log
        assert not (tmp_path / "pipeline" / "checkpoint").exists(), "nothing was changed"
