"""How Spark writes the files of a checkpoint: by fewer programs where they are on this machine, as it is elsewhere."""

from __future__ import annotations

import pytest

from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.run.driver import LOCAL_FILE_MANAGER, checkpoint_writer

PROPERTY = "spark.sql.streaming.checkpointFileManagerClass"


def written_by(checkpoint: str, spark_properties: str = "") -> dict[str, str]:
    return checkpoint_writer(
        PipelineSettings.read(
            {
                "job": "word_count",
                "bootstrap_servers": "unused:1",
                "checkpoint": checkpoint,
                "prefix": "p",
                "source": "in",
                "sink": "out",
                "spark_properties": spark_properties,
            }
        )
    )


@pytest.mark.parametrize("checkpoint", ["relative", "/absolute", "file:///absolute"])
def test_a_local_checkpoint_is_written_with_fewer_programs(checkpoint):
    assert written_by(checkpoint) == {PROPERTY: LOCAL_FILE_MANAGER}


@pytest.mark.parametrize("checkpoint", ["s3a://bucket/checkpoint", "hdfs://name:8020/checkpoint"])
def test_elsewhere_spark_chooses(checkpoint):
    assert written_by(checkpoint) == {}
