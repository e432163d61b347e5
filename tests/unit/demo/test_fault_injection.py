"""Fault injection: what it reports about a pipeline that an order stopped, and when it starts the pipeline again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from demo.fault_injection import FaultDesk
from demo.faults import Fault
from demo.run import DemoRun


@dataclass
class Run:
    """As much of a run as starting a pipeline takes."""

    pipeline_is_stopped: bool
    started: int = 0

    def start_pipeline(self) -> None:
        self.started += 1
        self.pipeline_is_stopped = False


def test_only_the_owner_of_the_processes_restarts_a_stopped_pipeline() -> None:
    run = Run(pipeline_is_stopped=True)
    desk = FaultDesk(cast(DemoRun, run))
    assert desk.start_pipeline()[0]
    assert desk.start_pipeline()[0]
    assert run.started == 0, "the thread of a request ends, and its processes with it"
    desk.start_if_asked()
    desk.start_if_asked()
    assert run.started == 1


def test_the_panel_says_why_its_buttons_are_off_and_when_a_fault_has_struck(tmp_path: Path) -> None:
    run = SimpleNamespace(happened=[], pipeline_is_stopped=True, pipeline_commits=False, crash_points=tmp_path)
    run.pipeline_status = lambda: SimpleNamespace(driver_pid=None, state="running")
    desk = FaultDesk(cast(DemoRun, run))
    assert desk.to_json()["waits"]["why"] == "The pipeline is stopped: start it again first."
    run.pipeline_is_stopped = False
    starts = desk.to_json()["waits"]
    assert starts["why"] == "The driver starts. It can fail again after its first batch, usually within 90 s."
    assert desk.to_json()["waits"] == starts, "since when is kept"
    assert desk.cause(Fault.FREEZE_AFTER_DECISION) == (False, f"Not now. {starts['why']}")
    run.pipeline_commits = True
    assert desk.to_json()["waits"] is None
    assert desk.cause(Fault.FREEZE_AFTER_DECISION)[0]
    assert desk.to_json()["waits"]["why"].startswith("A fault is on its way")
    before = [step["done_ms"] for step in desk.to_json()["tour"]]
    assert before == [None] * len(before)
    (tmp_path / "after-decision.reached").touch()
    shown = desk.to_json()
    assert shown["waits"] is None
    assert re.fullmatch(r"Struck, \d+\.\d s after the press: the driver is frozen", shown["log"][-1]["text"])
    struck_ms = shown["log"][-1]["at_ms"]
    steps = [(step["order"], step["since_ms"], step["done_ms"]) for step in shown["tour"]]
    assert steps[1:4] == [(None, struck_ms, struck_ms), ("commit", struck_ms, None), ("restart", struck_ms, None)]


def test_a_pipeline_that_runs_is_not_started() -> None:
    run = Run(pipeline_is_stopped=False)
    desk = FaultDesk(cast(DemoRun, run))
    assert not desk.start_pipeline()[0]
    desk.start_if_asked()
    assert run.started == 0
