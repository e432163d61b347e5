"""Secrets of a pipeline's settings stay out of every command line: any user of the machine reads those."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from demo.prerequisites import java_home
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.pipeline.config.settings import ROOT
from tests.integration.pipeline_process import PipelineProcess, make_topics, produce, read_committed, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
SECRET = "s3cr3t=of:the store"
ODD = "\\\\host\\new #1! = é: \t"
TELL = """
import sys
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.run.driver import make_spark
settings = PipelineSettings.read({"job": "passthrough", "bootstrap_servers": "unused:1", "checkpoint": "c", "prefix": "p",
                                  "source": "in", "sink": "out", "spark_properties": "spark.test.odd=x" + sys.argv[1] + "x"})
print(repr(make_spark(settings).conf.get("spark.test.odd")))
"""


@pytest.mark.long
def test_no_process_of_a_running_pipeline_shows_a_secret(connection, tmp_path):
    name = f"secrets-{uuid.uuid4().hex[:8]}"
    make_topics(connection, name, f"{name}-out")
    produce(connection, name, [b"a", b"b"])
    settings_file = tmp_path / "settings.toml"
    properties = f"spark.hadoop.fs.s3a.access.key=id,spark.hadoop.fs.s3a.secret.key={SECRET}"
    settings_file.write_text(f'[pipeline]\nspark_properties = "{properties}"\n')
    settings_file.chmod(0o600)
    settings = {"source": name, "sink": f"{name}-out", "prefix": name}
    with PipelineProcess(connection, tmp_path / "run", settings_file=settings_file, **settings) as pipeline:
        wait_until("the rows", lambda: read_committed(connection, f"{name}-out").total() == 2)
        processes = [
            pipeline.process.pid,
            *(p.pid for p in psutil.Process(pipeline.process.pid).children(recursive=True)),
        ]
        shown = {pid: command for pid in processes if (command := command_line(pid))}
        assert any("SparkSubmit" in command for command in shown.values()), "the driver's JVM was looked at"
        assert any("python_daemon" in command for command in shown.values()), "and the workers"
        assert [command for command in shown.values() if SECRET in command] == []


@pytest.mark.long
def test_spark_gets_a_property_as_it_was_written(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", TELL, ODD],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": java_home()},
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
        timeout=300,
        preexec_fn=die_with_parent,
    )
    assert told.stdout.splitlines()[-1:] == [repr(f"x{ODD}x")], (tmp_path / "log").read_text()[-3000:]


def command_line(pid: int) -> str:
    """Return what every user can read of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
