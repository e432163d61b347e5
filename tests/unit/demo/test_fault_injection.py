"""Fault injection: what it reports about a pipeline that an order stopped, and when it starts the pipeline again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from demo.fault_injection import FaultDesk
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


def test_a_pipeline_that_runs_is_not_started() -> None:
    run = Run(pipeline_is_stopped=False)
    desk = FaultDesk(cast(DemoRun, run))
    assert not desk.start_pipeline()[0]
    desk.start_if_asked()
    assert run.started == 0
