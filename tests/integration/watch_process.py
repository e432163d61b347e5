"""``indoubt watch`` as a process of its own, as the README has it."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from demo.broker import Broker
from demo.prerequisites import ROOT
from indoubt.lifecycle.child_processes import die_with_parent
from tests.integration.kafka_fixtures import wait_until

LIMIT_S = 90.0
PROGRAM = (sys.executable, "-m", "indoubt")
UNKNOWN_VARIABLE = "INDOUBT_COMMIT_OVERDU_MS"


def of_readme(broker: Broker) -> list[str]:
    """Return the words of the README, at this broker."""
    (given,) = re.findall(r"^    \.venv/bin/indoubt (watch .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    words = given.replace("kafka-1:9092,kafka-2:9092", broker.bootstrap_servers).split()
    assert broker.bootstrap_servers in words
    return words


class WatchProcess:
    """The command with these words, on free ports; at the end nothing of it is left."""

    def __init__(
        self,
        words: Sequence[str],
        directory: Path,
        program: Sequence[str | Path] = PROGRAM,
        cwd: Path = ROOT,
        **variables: str,
    ) -> None:
        self._program, self._cwd = program, cwd
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("INDOUBT_")}
        directories = {"XDG_RUNTIME_DIR": directory / "run", "XDG_STATE_HOME": directory / "state"}
        self.environment = inherited | {name: str(path) for name, path in directories.items()}
        self.out, self.err = directory / "out", directory / "err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = psutil.Popen(
                [*program, *words, "--port", "0", "--collector-port", "0"],
                cwd=cwd,
                env={**self.environment, UNKNOWN_VARIABLE: "1", **variables},
                stdout=out,
                stderr=err,
                preexec_fn=die_with_parent,
            )
        self.started: set[psutil.Process] = set()
        self.page = wait_until("the address", self._address, LIMIT_S)

    def _address(self) -> str:
        assert self.process.poll() is None, self.err.read_text()
        found = re.search(r"^  Open  (\S+)$", self.out.read_text(), re.MULTILINE)
        return found[1] if found else ""

    def parts(self) -> dict[str, psutil.Process]:
        """Return its collectors, each with its cluster if that has a name, and its app, as far as they run."""
        children = [child for child in self.process.children() if child.status() != psutil.STATUS_ZOMBIE]
        self.started |= set(children)
        return {_name(child.cmdline()): child for child in children}

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command with nothing of indoubt in its environment."""
        return subprocess.run(
            [*self._program, *words], cwd=self._cwd, env=self.environment, capture_output=True, text=True
        )

    def end(self, number: signal.Signals) -> int:
        """End it by a signal and return its exit code; no process of it may be left."""
        self.parts()
        self.process.send_signal(number)
        code: int = self.process.wait(LIMIT_S)
        assert psutil.wait_procs(self.started, timeout=10)[1] == []
        return code


def _name(words: Sequence[str]) -> str:
    module = dict(itertools.pairwise(words)).get("-m", "").removeprefix("indoubt.")
    return " ".join([module, *(word.partition("=")[2] for word in words if word.startswith("--cluster="))])
