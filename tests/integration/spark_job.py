"""The code of docs/sink.md, run as a user's job by spark-submit: the package is the wheel's, and no checkout can be imported."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from types import TracebackType

from demo.prerequisites import JARS, java_home
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.pipeline.config.settings import CRASH_POINTS_VARIABLE, ROOT
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.installed import build_wheel
from tests.integration.pipeline_process import make_topics, wait_until

LIMIT_S = 400.0
"""Generous: with other programs on two cores, Spark took three minutes to its first batch."""
SCRIPTS = Path(sys.executable).parent
PAGE = ROOT / "docs" / "sink.md"
COMMON = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "OPENBLAS_NUM_THREADS": "1",
}
QUIET = ("--driver-memory", "512m", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=WARN")


def code_of(file: str) -> str:
    """Return the code block of the page that begins with a comment of this name."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = (block for block in blocks if block.startswith(f"# {file}\n"))
    return block


def make_package(directory: Path) -> Path:
    """Write the wheel under the name of a zip file, which it is; return that."""
    return shutil.copyfile(build_wheel(directory), directory / "indoubt.zip")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a Spark program."""
    return {**os.environ, "JAVA_HOME": java_home(), **COMMON, **more}


class SparkJob:
    """``job.py`` of the page with names of its own; a context manager that leaves no process behind."""

    def __init__(
        self,
        connection: KafkaConnection,
        directory: Path,
        package: Path,
        *arguments: str,
        checkpoint: str = "checkpoints",
    ) -> None:
        """``checkpoint``: what its checkpoint directory is in."""
        self._arguments = [*arguments, "--py-files", str(package)]
        self.jars = sorted((JARS / "spark").glob("*.jar"))
        self._directory = directory
        self.name = f"orders-{uuid.uuid4().hex[:8]}"
        self.sink = f"clean-{self.name}"
        make_topics(connection, self.name, self.sink)
        names = {
            "kafka-1:9092": connection.bootstrap_servers,
            "clean_orders": self.sink,
            "checkpoints/": f"{checkpoint}/",
            # On a busy machine the first batch alone took a minute, which is the default.
            'prefix="orders"': 'prefix="orders", transaction_timeout_ms=600_000',
            '"orders"': f'"{self.name}"',
        }
        code = code_of("job.py")
        for on_the_page, here in names.items():
            assert on_the_page in code
            code = code.replace(on_the_page, here)
        (directory / "job.py").write_text(code)
        self._crash_points = directory / "crash-points"
        self._crash_points.mkdir()

    def arm(self, point: str) -> None:
        """Have the driver and its processes killed when one of them comes to this crash point."""
        (self._crash_points / point).write_text("kill")

    def start(self) -> SparkJob:
        """Start it."""
        self._log = (self._directory / "job.log").open("ab")
        self._process = subprocess.Popen(
            [SCRIPTS / "spark-submit", *QUIET, *self._arguments, "--jars", ",".join(map(str, self.jars)), "job.py"],
            cwd=self._directory,
            env=environment(**{CRASH_POINTS_VARIABLE: str(self._crash_points)}),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        return self

    def wait_killed(self, point: str) -> None:
        """Wait until it was killed at this crash point."""
        struck = self._crash_points / f"{point}.reached"
        wait_until(
            f"the job to be killed at {point}", lambda: struck.exists() or self._process.poll() is not None, LIMIT_S
        )
        assert struck.exists(), self.log
        self._process.wait(LIMIT_S)

    def end(self) -> None:
        """End it, if it did not end by itself."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(LIMIT_S)
        self._log.close()

    @property
    def log(self) -> str:
        """Return the end of what it said."""
        return (self._directory / "job.log").read_text(errors="replace")[-5000:]

    def __enter__(self) -> SparkJob:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if error is not None:
            error.add_note(f"the job's log ends:\n{self.log}")
