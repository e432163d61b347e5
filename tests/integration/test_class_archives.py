"""The JVMs use the archives that the set-up made, and start without them as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from demo.broker import Broker
from demo.prerequisites import BROKER_CLASSES, java_home
from indoubt.pipeline.config.settings import SPARK_CLASSES

pytestmark = pytest.mark.integration

STARTS_SPARK = """
import sys
from indoubt.pipeline.run import driver
from indoubt.pipeline.config.settings import PipelineSettings
settings = PipelineSettings(job="passthrough", bootstrap_servers="b:1", checkpoint="c", prefix="p", source="s", sink="k")
driver.SPARK_CLASSES = sys.argv[1]
spark = driver.make_spark(settings)
print(open(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/maps").read())
def found(_):
    import pyspark
    return "indoubt.pipeline.sink.slot_writer" in sys.modules, pyspark.__file__
print("a task has", *spark.sparkContext.parallelize([0], 1).map(found).first())
spark.stop()
"""


def files_mapped_by_spark(archive: Path) -> subprocess.CompletedProcess[str]:
    """Return what a Spark session that was told of this archive has mapped, and all that it said."""
    environment = {**os.environ, "JAVA_HOME": java_home()}
    command = [sys.executable, "-c", STARTS_SPARK, str(archive)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=True)


def test_the_broker_starts_from_its_archive(broker: Broker) -> None:
    assert str(BROKER_CLASSES) in Path(f"/proc/{broker.pid}/maps").read_text()


@pytest.mark.long
def test_spark_starts_with_or_without_a_fitting_class_archive() -> None:
    started = files_mapped_by_spark(SPARK_CLASSES).stdout
    assert str(SPARK_CLASSES) in started
    # And its tasks have the sink loaded before they begin, and PySpark as it is installed, not from Spark's zip.
    assert f"a task has True {pyspark.__file__}" in started
    passed_over = files_mapped_by_spark(BROKER_CLASSES)
    assert ".jsa" not in passed_over.stdout.replace("classes.jsa", "").replace("classes_nocoops.jsa", "")
    assert "archive" not in passed_over.stdout + passed_over.stderr
