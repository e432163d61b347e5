"""A source topic is deleted and made again under its name while a pipeline runs: Spark goes on at the old offsets."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AdminClient

from indoubt.pipeline.runtime.status_file import WRONG_SETTINGS
from tests.integration.pipeline_process import (
    LIMIT_S,
    PipelineProcess,
    make_topics,
    produce,
    read_committed,
    wait_until,
)

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]
OWN_JOB = """
from indoubt.pipeline.jobs.job import passthrough, read_source

def copy(spark, settings):
    return passthrough(read_source(spark, settings))
"""
"""What it reads stands in its rows alone: Spark's client is asked."""


@pytest.mark.parametrize("job", ["passthrough", "own_job:copy"])
def test_a_source_that_is_made_again_ends_a_running_pipeline(connection, tmp_path, monkeypatch, job):
    (tmp_path / "own_job.py").write_text(OWN_JOB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    name = uuid.uuid4().hex[:8]
    source, sink = f"in-{name}", f"out-{name}"
    make_topics(connection, "transaction_lifecycle", source, sink, partitions=1)
    produce(connection, source, [b"old"])
    # A batch reads the topic seldom: the run itself is to see it, not Spark's look at its offsets.
    names = {"source": source, "sink": sink, "prefix": name, "sweep_interval_ms": 1000, "trigger_interval_ms": 600_000}
    with PipelineProcess(connection, tmp_path / "run", job=job, **names) as pipeline:
        wait_until("the first row", lambda: read_committed(connection, sink).total() == 1)
        admin = AdminClient(connection.for_librdkafka())
        admin.delete_topics([source])[source].result(30)
        wait_until("the topic is gone", lambda: source not in admin.list_topics(timeout=30).topics)
        make_topics(connection, source, partitions=1)
        produce(connection, source, [b"new 1", b"new 2"])
        assert pipeline.wait_exit(LIMIT_S) == WRONG_SETTINGS
        assert f"source topic {source!r} is another one than before" in pipeline.log
    with PipelineProcess(connection, tmp_path / "run", job=job, **names) as pipeline:
        assert pipeline.wait_exit(LIMIT_S) == WRONG_SETTINGS
    assert read_committed(connection, sink).keys() == {b"old"}
