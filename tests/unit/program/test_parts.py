"""A process of ``watch`` starts again when it ends, later each time, and none outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from indoubt.lifecycle.backoff import Backoff
from indoubt.program import parts
from indoubt.program.parts import Part, stop
from tests.integration.kafka_fixtures import wait_until

ROOT = Path(__file__).parents[3]
LIMIT_S = 30.0


def part(tmp_path: Path, program: str) -> Part:
    """Return a part that runs this program, as a module from elsewhere."""
    (tmp_path / "a_part.py").write_text(program)
    return Part("collector", "a_part", (), {**os.environ, "PYTHONPATH": str(tmp_path)})


def told(kept: Part) -> str:
    text: str = wait_until("the part ends", kept.keep, LIMIT_S)
    return text


def test_a_part_that_ends_starts_again_later_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PAUSES", Backoff(0.01, 0.03))
    kept = part(tmp_path, "raise SystemExit(7)")
    for pause in ("0.01", "0.02", "0.03", "0.03"):
        assert told(kept) == f"the collector ended with code 7; it starts again in {pause} s"
    monkeypatch.setattr(parts, "HEALTHY_AFTER_S", -1.0)
    assert told(kept).endswith("again in 0.01 s"), "it ran long enough: a new row"
    stop([kept])


def test_a_part_that_a_signal_ends_says_which(tmp_path: Path) -> None:
    kept = part(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert told(kept).startswith("the collector ended by SIGKILL; it starts again in 0.5 s")
    assert 0.0 <= kept.wait_s(60.0) <= 0.5
    stop([kept])


STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(__file__).with_name("ready").touch()
time.sleep(60)
"""


def test_a_part_that_does_not_end_in_time_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "STOP_LIMIT_S", 0.1)
    kept = part(tmp_path, STUBBORN)
    wait_until("it ignores the signal", (tmp_path / "ready").exists, LIMIT_S)
    stop([kept])
    assert kept.exit_code == -signal.SIGKILL


PARENT = """
import os, signal
from indoubt.program.parts import Part
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
part = Part("app", "a_part", (), os.environ)
print(part._process.pid, flush=True)
signal.pause()
"""


def test_a_part_dies_with_its_killed_parent_and_hears_signals_that_its_parent_blocks(tmp_path: Path) -> None:
    (tmp_path / "a_part.py").write_text("import time; time.sleep(60)")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        blocked = Path(f"/proc/{child.pid}/status").read_text().partition("SigBlk:")[2].split()[0]
        assert int(blocked, 16) == 0
        parent.kill()
    assert psutil.wait_procs([child], timeout=LIMIT_S)[1] == []


def test_a_stranger_s_files_in_the_working_directory_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/usr/local/bin", *sys.path])
    assert parts._interpreter() == [sys.executable, "-P"], "installed: the program's own directory is first"
    monkeypatch.setattr(sys, "path", [os.getcwd(), *sys.path])
    assert parts._interpreter() == [sys.executable], "'python -m indoubt' in a checkout"
