"""A real Flink that writes orders exactly once: stopped between a checkpoint and its commits, and started again from one."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.flink_job import SOURCES as LOGGING
from demo.flink_job import missing
from demo.ports import free_port
from demo.prerequisites import java_home
from indoubt.lifecycle.child_processes import die_with_parent
from tests.integration.kafka_fixtures import wait_until

SHARED = Path(__file__).with_name("flink_job") / "Orders.java"
BUILD_LIMIT_S, LIMIT_S = 900.0, 90.0
PARALLELISM, PER_SECOND = 2, 40
LAST = 3
"""The checkpoint after which its tasks stand still."""


class NoFlink(Exception):
    """Flink cannot be had on this machine; the message says why."""


@dataclass(frozen=True)
class JobSources:
    """``directory``: has a pom.xml and ``<main class>.java``; ``build``: where the compiled program and what it needs are kept."""

    directory: Path
    main: str
    build: Path
    shared: tuple[Path, ...] = (SHARED,)
    """What else is compiled."""

    def compile(self) -> None:
        """Fetch what the job needs, unless that was done, and compile it. Raises NoFlink."""
        if absent := missing():
            raise NoFlink(f"no Flink is run: {absent} is missing on this machine")
        libraries = self.build / "libraries"
        if not libraries.is_dir():
            draft = self.build / "libraries.draft"
            shutil.rmtree(draft, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(self.directory / "pom.xml"), "dependency:copy-dependencies"]
            fetch = [*command, "-DincludeScope=runtime", f"-DoutputDirectory={draft}"]
            ended = subprocess.run(fetch, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
            if ended.returncode:
                raise NoFlink(f"no Flink is run: Maven cannot fetch it: {(ended.stdout + ended.stderr)[-500:]}")
            draft.rename(libraries)
        classes = self.build / "classes"
        classes.mkdir(parents=True, exist_ok=True)
        own = self.directory / f"{self.main.rpartition('.')[2]}.java"
        _run(["javac", "-nowarn", "-d", str(classes), "-cp", f"{libraries}/*", *map(str, self.shared), str(own)])

    def compile_or_skip(self) -> None:
        """Compile it; skips the tests that ask where there is no Flink."""
        try:
            self.compile()
        except NoFlink as why:
            pytest.skip(str(why))

    @property
    def command(self) -> list[str]:
        """Return the command that runs the job, without its arguments."""
        opens = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("util", "lang")]
        logging = f"-Dlog4j2.configurationFile={LOGGING / 'log4j2.properties'}"
        classes = f"{self.build / 'classes'}:{self.build / 'libraries'}/*"
        return [f"{java_home()}/bin/java", "-Xmx512m", *opens, logging, "-cp", classes, self.main]


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr


class OrdersJob:
    """``written_to``: the job's first arguments; ``checkpoints``: their directory; ``settings``: of Flink."""

    def __init__(
        self,
        sources: JobSources,
        written_to: list[str],
        checkpoints: Path,
        log: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._sources, self._written_to, self._checkpoints, self._log = sources, written_to, checkpoints, log
        self._settings = [f"{name}={value}" for name, value in (settings or {}).items()]
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def start(self, orders: int, *, last: int = 0, restore: Path | None = None) -> None:
        """Start it; ``last``: the checkpoint after which its tasks stand still, ``restore``: the one that it goes on from."""
        given = [*self._written_to, f"file:{self._checkpoints}", str(self.port), str(PARALLELISM), str(orders)]
        given += [str(PER_SECOND), str(last), f"file:{restore}" if restore is not None else "-", *self._settings]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._sources.command, *given],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def checkpoint(self, number: int) -> Path:
        """Return the directory of a checkpoint of the newest job that has it, once its ``_metadata`` is there."""

        def found() -> Path | None:
            assert self._process is not None
            assert self._process.poll() in (None, 0), self._log.read_text()[-3000:]
            taken = self._checkpoints.glob(f"*/chk-{number}/_metadata")
            return max((each.parent for each in taken), key=lambda path: path.stat().st_mtime, default=None)

        checkpoint: Path = wait_until(f"checkpoint {number}", found, LIMIT_S)
        return checkpoint

    def newest_checkpoint(self) -> Path:
        """Return the directory of the checkpoint whose ``_metadata`` was written last."""
        taken = self._checkpoints.glob("*/chk-*/_metadata")
        return max(taken, key=lambda path: path.stat().st_mtime_ns).parent

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold it by SIGSTOP; it goes on afterwards, unless it was killed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)

    def wait_for_end(self, limit_s: float = LIMIT_S) -> None:
        """Wait until it has written all orders."""
        assert self.exit_code(limit_s) == 0, self._log.read_text()[-3000:]

    def exit_code(self, limit_s: float = LIMIT_S) -> int:
        """Wait until it ends by itself; 0: it has written all orders."""
        assert self._process is not None
        return self._process.wait(limit_s)
