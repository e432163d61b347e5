"""How Spark's Python processes start: from a home without the zip that they would compile, forked with all loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from indoubt.pipeline.run import spark_home

pytestmark = pytest.mark.slow


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""As the driver sets it for its workers."""
INSTALLED = Path(pyspark.__file__).resolve().parent


@pytest.fixture(autouse=True)
def no_home(monkeypatch):
    # Set first, so that what the tests leave is undone.
    monkeypatch.setenv("SPARK_HOME", "")
    monkeypatch.delenv("SPARK_HOME")


def test_it_has_what_spark_starts_with_and_no_python(tmp_path):
    spark_home.use(tmp_path / "spark")
    spark_home.use(tmp_path / "spark")
    assert os.environ["SPARK_HOME"] == str(tmp_path / "spark")
    made = {file.name: file.resolve() for file in (tmp_path / "spark").iterdir()}
    assert made == {name: INSTALLED / name for name in ("bin", "jars", "sbin")}
    assert (tmp_path / "spark" / "bin" / "spark-submit").exists()


def test_links_to_an_installation_that_has_moved_are_made_anew(tmp_path):
    (tmp_path / "jars").symlink_to(tmp_path / "gone")
    spark_home.use(tmp_path)
    assert (tmp_path / "jars").resolve() == INSTALLED / "jars"


def test_a_home_that_is_set_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    spark_home.use(tmp_path / "spark")
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert not (tmp_path / "spark").exists()


def test_where_it_cannot_be_made_spark_starts_as_ever(tmp_path):
    (tmp_path / "spark").write_text("a file")
    spark_home.use(tmp_path / "spark")
    assert "SPARK_HOME" not in os.environ


def test_planning_loads_neither_clients_nor_arrow():
    """Four processes of each start only plan."""
    heavy = ("kafka", "pyarrow", "pymysql", "psycopg", "numpy")
    modules = "indoubt.pipeline.sink.data_source, indoubt.pipeline.source.committed_topic"
    program = f"import {modules}, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_what_the_daemon_loads_before_it_forks_starts_no_thread():
    program = """
import os, indoubt.pipeline.run.python_daemon
threads = [open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")]
print(sorted(set(threads) - {"jemalloc_bg_thd"}), len(threads))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=os.environ | ONE_THREAD
    )
    names, count = done.stdout.strip().rsplit(" ", 1)
    assert (names, int(count) <= 2) == ("['python']", True), done.stderr + done.stdout
