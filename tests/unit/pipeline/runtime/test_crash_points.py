"""Crash points: armed by a file, strike once, hit the one process or the driver with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from indoubt.pipeline.config.settings import ROOT
from indoubt.pipeline.runtime.crash_points import NO_STEPS, CrashPoint, CrashPoints

DRIVER = """
import os, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
arguments = [sys.executable, "-c", sys.argv[1], sys.argv[2], str(os.getpid())]
reaching = subprocess.Popen(arguments, stdin=subprocess.PIPE)
print(worker.pid, reaching.pid, flush=True)
reaching.stdin.close()
time.sleep(600)
"""
REACHING = """
import sys
from indoubt.pipeline.runtime.crash_points import CrashPoint, CrashPoints
sys.stdin.read()
CrashPoints(directory=sys.argv[1], pids=(int(sys.argv[2]),)).reach(CrashPoint.MID_COMMIT)
"""


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process, X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


def states(pids: list[int]) -> str:
    return "".join({"Z": "dead", "X": "dead", "T": "frozen"}.get(state_of(pid), "runs") + " " for pid in pids).strip()


def wait_for(pids: list[int], expected: str) -> None:
    deadline = time.monotonic() + 30
    while states(pids) != expected:
        assert time.monotonic() < deadline, f"waited 30 s in vain for {expected}: {states(pids)}"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("deed", "expected"),
    [
        ("kill", "dead dead dead"),
        ("freeze", "frozen frozen frozen"),
        ("kill-worker", "runs runs dead"),
        ("freeze-worker", "runs runs frozen"),
    ],
)
def test_a_deed_hits_whom_it_says(tmp_path, deed, expected):
    (tmp_path / "mid-commit").write_text(deed + "\n")
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, REACHING, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert driver.stdout is not None
    family = [driver.pid, *map(int, driver.stdout.readline().split())]
    try:
        wait_for(family, expected)
        assert [file.name for file in tmp_path.iterdir()] == ["mid-commit.reached"]
        assert (tmp_path / "mid-commit.reached").read_text() == str(family[2])
    finally:
        for pid in family:
            if state_of(pid) not in "ZX":
                os.kill(pid, signal.SIGKILL)
        driver.wait(30)
        driver.stdout.close()


def test_nothing_happens_at_a_point_that_is_not_armed(tmp_path):
    CrashPoints(directory=str(tmp_path)).reach(CrashPoint.BEFORE_BEGIN)
    CrashPoints(directory="").reach(CrashPoint.BEFORE_BEGIN)
    (tmp_path / "after-flush").write_text("kill")
    points = CrashPoints(directory=str(tmp_path))
    points.reach(CrashPoint.BEFORE_BEGIN)
    assert points.is_armed(CrashPoint.AFTER_FLUSH)
    assert not points.is_armed(CrashPoint.BEFORE_BEGIN)


@pytest.mark.parametrize(
    ("managers", "parts"),
    [("k", ["k", ""]), ("kkk", ["kk", "k"]), ("kmkp", ["kk", "mp"]), ("", ["", ""])],
)
def test_an_armed_point_is_reached_between_two_parts(tmp_path, managers, parts):
    points = CrashPoints(directory=str(tmp_path))
    (tmp_path / CrashPoint.MID_COMMIT.value).touch()
    reached: list[str] = []
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CrashPoints, "reach", lambda _, point: reached.append(f"{point.value} behind {seen}"))
        for part in points.in_parts(CrashPoint.MID_COMMIT, managers, str):
            seen.append("".join(part))
    assert (seen, reached) == (parts, [f"mid-commit behind {parts[:1]}"])


def test_without_an_armed_point_all_is_one_part(tmp_path):
    for steps in (CrashPoints(directory=str(tmp_path)), CrashPoints(directory=""), NO_STEPS):
        assert [list(part) for part in steps.in_parts(CrashPoint.MID_COMMIT, "km", str)] == [["k", "m"]]
