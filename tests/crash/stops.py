"""Stops: in order while rows flow, and by force while the driver is frozen. Neither may leave a transaction in doubt."""

from __future__ import annotations

from tests.crash.random_hits import Traffic
from tests.crash.run import Run
from tests.crash.schedule import Strike
from tests.crash.steps import await_running_query, let_pass, reach_point

STOPS = 2
LONGEST_WAIT_S = 3.0


def stopped_while_busy(run: Run, planned: Strike) -> None:
    """SIGTERM at a random time during traffic: the pipeline ends with code 0, leaves nothing in doubt, and continues later."""
    for _ in range(STOPS):
        await_running_query(run)
        with Traffic(run):
            run.workload.produce(planned.records)
            let_pass(run, run.dice.uniform(0, LONGEST_WAIT_S))
            run.pipeline.stop_in_order()
            run.require_nothing_in_doubt("a stop while busy")
        run.take_over(run.start_another())


def stopped_by_force(run: Run, planned: Strike) -> None:
    """SIGTERM while the driver is frozen at the point: the supervisor kills it, and leaves nothing in doubt."""
    reach_point(run, planned, "freeze", planned.point)
    run.pipeline.terminate()
    run.require_nothing_in_doubt(f"a stop by force at {planned.point}")
    run.take_over(run.start_another())
