"""The images' steps, carried out in fresh files: the programs start as the images' user, on a read-only file system.

No engine for containers runs here: image_steps.py says what stands in for one, and what is not carried out.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.prerequisites import ROOT
from indoubt.lifecycle.version import VERSION
from tests.integration import image_steps
from tests.integration.image_steps import Image

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(image_steps.why_not()), reason=f"an image's steps: {image_steps.why_not()}"),
]

IMAGES = ROOT / "deploy" / "images"
SITE_PACKAGES_MB = 410
"""Of the watcher, with the clients of databases and MSK, and with compiled modules."""

WATCH = """
"${{AS_USER[@]}}" INDOUBT_BOOTSTRAP_SERVERS=127.0.0.1:9 INDOUBT_VIEWER_TOKEN=test:{token} {command} 1>&2 &
for _ in $(seq 300); do
    "${{AS_USER[@]}}" {health} 2> /dev/null && break
    kill -0 $!
    sleep 0.2
done
"${{AS_USER[@]}}" {health}
"${{AS_USER[@]}}" INDOUBT_TOKEN={token} INDOUBT_COLLECTOR_URL=http://127.0.0.1:8650 python -c {opens_the_page}
"${{AS_USER[@]}}" indoubt status --json > /dev/null
! "${{AS_USER[@]}}" touch /opt/indoubt/there 2> /dev/null
kill $!
wait $!
"""
OPENS_THE_PAGE = """
import pathlib, urllib.request
import indoubt.app
from streamlit.testing.v1 import AppTest
served = urllib.request.urlopen("http://127.0.0.1:8651/").status
page = AppTest.from_file(str(pathlib.Path(indoubt.app.__file__).with_name("page.py")), default_timeout=60).run()
print(served, [error.message for error in page.exception], bool(page.get("html")))
"""
SPARK_COUNTS = """
import pathlib
from pyspark.sql import SparkSession
import indoubt.spark
jars = ",".join(map(str, pathlib.Path("/opt/indoubt/jars").iterdir()))
spark = SparkSession.builder.master("local[1]").config("spark.jars", jars).getOrCreate()
spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "a").load()
print(spark.range(3).count())
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory that is not kept: an image's files take up to 1.5 GB."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_the_watcher_starts_from_its_image_and_answers(directory: Path) -> None:
    image = Image(ROOT / "Dockerfile", directory)
    final = image.stages[-1]
    script = WATCH.format(
        command=shlex.join([*final.words("ENTRYPOINT"), *final.words("CMD")]),
        health=shlex.join(final.words("HEALTHCHECK")),
        token="t" * 32,
        opens_the_page=shlex.quote(OPENS_THE_PAGE),
    )
    assert image.run(script) == "200 [] True\n"
    site_packages = next((directory / "build" / "opt" / "indoubt" / "lib").glob("python*/site-packages"))
    used = subprocess.run(["du", "-sm", site_packages], capture_output=True, text=True, check=True).stdout
    assert int(used.split()[0]) <= SITE_PACKAGES_MB


def test_the_pipeline_s_image_has_spark_java_and_the_jars_of_its_source(directory: Path) -> None:
    image = Image(IMAGES / "spark.Dockerfile", directory)
    command = shlex.join([*image.stages[-1].words("ENTRYPOINT"), "--version"])
    said = image.run(f'"${{AS_USER[@]}}" {command}\n"${{AS_USER[@]}}" python -c {shlex.quote(SPARK_COUNTS)}')
    assert said.splitlines() == [f"indoubt {VERSION}", "3"]
