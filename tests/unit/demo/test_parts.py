"""A part of the demo that ends starts again, with growing pauses and a limited number of times, and the page shows it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from demo import processes
from demo.fault_injection import FaultDesk
from demo.processes import Part
from demo.run import DemoRun, RunSettings
from demo.waiting import DemoFailed

LIMIT_S = 20.0


def part(tmp_path: Path, program: str) -> Part:
    return Part("collector", [sys.executable, "-c", program], tmp_path / "log", {})


def event(kept: Part) -> str:
    """Return the next event. Raises DemoFailed if the part ended too often."""
    deadline = time.monotonic() + LIMIT_S
    while not (text := kept.keep()):
        assert time.monotonic() < deadline, f"waited {LIMIT_S:.0f} s in vain for the part to end"
        time.sleep(0.01)
    return text


def test_a_part_that_ends_starts_again_later_each_time_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(processes, "RESTARTS_IN_A_ROW", 2)
    kept = part(tmp_path, "print('no disk'); raise SystemExit(7)")
    assert event(kept) == "collector ended with code 7: it starts again in 0.01 s"
    assert event(kept) == "collector starts again"
    assert event(kept) == "collector ended with code 7: it starts again in 0.02 s"
    assert event(kept) == "collector starts again"
    with pytest.raises(DemoFailed, match=r"collector ended with code 7; the end of .*\n  no disk"):
        event(kept)


def test_a_part_that_ran_long_enough_begins_a_new_row(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(processes, "HEALTHY_AFTER_S", -1.0)
    monkeypatch.setattr(processes, "RESTARTS_IN_A_ROW", 1)
    kept = part(tmp_path, "raise SystemExit(7)")
    for _ in range(3):
        assert event(kept).endswith("again in 0.01 s")
        event(kept)
    kept.child.stop(LIMIT_S)


def test_the_page_shows_parts_that_were_started_again():
    run = SimpleNamespace(happened=[(1, "collector starts again")], pipeline_is_stopped=True, pipeline_commits=False)
    run.pipeline_status = lambda: SimpleNamespace(driver_pid=None, state="running")
    desk = FaultDesk(cast(DemoRun, run))
    desk.start_pipeline()
    texts = [entry["text"] for entry in desk.to_json()["log"]]
    assert texts == ["collector starts again", "The pipeline starts again from its checkpoint, usually within 90 s"]


@pytest.mark.parametrize("commits", [True, False])
def test_a_fault_is_offered_once_the_next_batch_is_near(commits):
    run = SimpleNamespace(happened=[], pipeline_is_stopped=False, pipeline_commits=commits)
    run.pipeline_status = lambda: SimpleNamespace(driver_pid=None, state="running")
    offered = {fault["name"]: fault["ready"] for fault in FaultDesk(cast(DemoRun, run)).to_json()["faults"]}
    assert offered["crash-after-prepare"] is commits
    assert offered["abandoned-producer"]


def test_a_commit_of_an_earlier_driver_does_not_count(tmp_path):
    run = DemoRun(RunSettings(directory=tmp_path, rate=1.0, restart_attempts=1, keep=True))
    assert not run.pipeline_commits
    commit, status = tmp_path / "checkpoint" / "commits" / "0", tmp_path / "pipeline-status.json"
    commit.parent.mkdir(parents=True)
    status.touch()
    assert not run.pipeline_commits
    commit.touch()
    os.utime(commit, ns=(1, status.stat().st_mtime_ns + 1))
    assert run.pipeline_commits
    os.utime(commit, ns=(1, status.stat().st_mtime_ns - 1))
    assert not run.pipeline_commits
