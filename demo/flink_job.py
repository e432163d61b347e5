"""The demo's Flink job: a Flink in a process of its own that writes orders exactly once, where Maven and a JDK are there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo.prerequisites import ROOT, java_home
from demo.waiting import DemoFailed

SOURCES = Path(__file__).parent / "flink"
BUILD = ROOT / ".run" / "demo-flink"
CLASS = "FlinkOrders"
TOPIC, CLUSTER = "flink_orders", "flink"
ORDERS_PER_SECOND = 20
MAVEN_LIMIT_S = 900.0
"""The first time it downloads about 100 MB."""
COMPILER_LIMIT_S = 120.0
_OPENS = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("util", "lang")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkJob:
    """Where a job's REST API listens (loopback), and where it keeps its checkpoints."""

    port: int
    checkpoints: Path

    @property
    def arguments(self) -> list[str]:
        """Return what the collector must be told of it."""
        watched = [f"--flink={CLUSTER}=http://127.0.0.1:{self.port}"]
        return [*watched, f"--flink-checkpoints={CLUSTER}={self.checkpoints}"]

    def command(self, bootstrap_servers: str) -> list[str]:
        """Return the command that runs the job."""
        java = [f"{java_home()}/bin/java", "-Xmx512m", *_OPENS]
        java += [f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}", "-cp", f"{_classes()}:{_libraries()}/*"]
        job = [CLASS, bootstrap_servers, TOPIC, str(self.checkpoints), str(self.port), str(ORDERS_PER_SECOND)]
        return [*java, *job]


def missing(find: Callable[[str], str | None] = shutil.which) -> str:
    """Return what is missing on this machine to build the job, or an empty text."""
    absent = [
        f"{program} ({package})" for program, package in (("mvn", "Maven"), ("javac", "a JDK")) if not find(program)
    ]
    return " and ".join(absent)


def build() -> None:
    """Build the job, unless that was done. Raises DemoFailed that says what failed."""
    if not _libraries().is_dir():
        draft = BUILD / "libraries.draft"
        shutil.rmtree(draft, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml"), "dependency:copy-dependencies"]
        _run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={draft}"], MAVEN_LIMIT_S)
        draft.rename(_libraries())
    source, compiled = SOURCES / f"{CLASS}.java", _classes() / f"{CLASS}.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        _classes().mkdir(parents=True, exist_ok=True)
        _run(["javac", "-nowarn", "-d", str(_classes()), "-cp", f"{_libraries()}/*", str(source)], COMPILER_LIMIT_S)


def _libraries() -> Path:
    return BUILD / "libraries"


def _classes() -> Path:
    return BUILD / "classes"


def _run(command: list[str], limit_s: float) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoFailed(f"the Flink job was not built: {error}") from None
    if ended.returncode != 0:
        said = (ended.stdout + ended.stderr).strip()[-500:]
        raise DemoFailed(f"the Flink job was not built: {command[0]} ended with {ended.returncode}: {said}")
