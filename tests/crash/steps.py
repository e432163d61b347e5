"""The steps of faults: bring the pipeline to a point, let a timeout pass, read what was decided."""

from __future__ import annotations

import time

from demo.object_store import ObjectStore
from indoubt.lifecycle.decisions import Decision, Settled
from indoubt.lifecycle.identity import Handle
from indoubt.pipeline.runtime.status_file import SUPERSEDED
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.crash.processes import CrashPipeline
from tests.crash.run import Run
from tests.crash.schedule import Strike

REACH_LIMIT_S = 240.0
WHO = "operator checker"
"""The name in the decision log for decisions and outcomes by hand."""
_SENT = {
    "kill": "SIGKILL driver",
    "kill-worker": "SIGKILL worker",
    "freeze": "SIGSTOP driver",
    "freeze-worker": "SIGSTOP worker",
}
"""The signal of each action at a crash point, and its target."""


class FaultMissed(Exception):
    """A fault had no effect; the message says what did not happen."""


def reach_point(run: Run, planned: Strike, deed: str, point: str) -> int:
    """Arm the point, produce, and wait until the pipeline reaches it; return the process that did."""
    run.pipeline.arm(point, deed)
    run.workload.produce(planned.records)
    struck = await_reached(run, point)
    run.signals[_SENT[deed]] += 1
    return struck


def await_reached(run: Run, point: str) -> int:
    """Wait until the pipeline has reached an armed point; then it can be armed again. Return the process that did."""
    struck: int = run.wait_until(f"the pipeline at {point}", lambda: run.pipeline.struck_at(point), REACH_LIMIT_S)
    run.pipeline.forget(point)
    return struck


def await_timeout(run: Run) -> None:
    """Wait until the transaction timeout has passed and every open transaction of the prefix has ended."""
    let_pass(run, run.schedule.timeout_ms / 1000)
    run.wait_until("the broker's abort of what is open", lambda: not run.open_transactions(), REACH_LIMIT_S)


def let_pass(run: Run, seconds: float) -> None:
    """Let time pass; the length is part of the fault, not a wait for a condition."""
    until = time.monotonic() + seconds
    run.wait_until("time to pass", lambda: time.monotonic() >= until, seconds + 1)


def disturb(run: Run, planned: Strike, store: ObjectStore, fault: str) -> None:
    """Have a store answer ``503``, or late by so many seconds, for a time that begins at the point."""
    reach_point(run, planned, "freeze", planned.point)
    store.disturb(fault)
    try:
        run.pipeline.wake()
        let_pass(run, 45 if planned.hard else 10)
    finally:
        store.heal()
    run.signals[f"store {fault}"] += 1


def await_running_query(run: Run) -> None:
    """Wait until new records reach the sink, because recovery's commits do not prove that the query runs again."""
    run.workload.produce(20)
    run.settle("a few more")


def stop(run: Run) -> None:
    """Stop the pipeline in order, once its query runs; nothing may be in doubt then."""
    await_running_query(run)
    run.pipeline.stop_in_order()
    run.require_nothing_in_doubt("a stop in order")


def end_at(run: Run, planned: Strike) -> None:
    """End every process: in order without a point, otherwise all at once, by SIGKILL, at the point."""
    if not planned.point:
        stop(run)
        return
    reach_point(run, planned, "freeze", planned.point)
    run.pipeline.kill_all()


def require_superseded(pipeline: CrashPipeline) -> None:
    """Wait until the supervisor ends because a newer run of its prefix has started. Raises AssertionError."""
    code = pipeline.process.returncode
    assert code == SUPERSEDED, (
        f"the superseded pipeline ended with code {code}, not {SUPERSEDED}: {pipeline.log[-600:]}"
    )


def last_decision(run: Run) -> Decision:
    """Return the newest commit decision of the prefix that counts. Raises FaultMissed."""
    log = DecisionLog(run.servers.connection)
    decisions = log.read_to_end().commit_decisions(run.prefix)
    log.close()
    if not decisions:
        raise FaultMissed("the batch should be decided, but no commit decision counts")
    return max(decisions, key=lambda pair: pair[0])[1]


def decided(run: Run) -> list[Handle]:
    """Return the Kafka handles of the last commit decision that counts."""
    return [handle for handle in last_decision(run).handles if handle.resource_manager == "kafka"]


def require_lost(run: Run, handles: list[Handle]) -> None:
    """Wait until recovery has recorded that these handles were lost; otherwise there is nothing to replay."""
    log = DecisionLog(run.servers.connection)

    def lost() -> bool:
        ledger = log.read_to_end()
        outcomes = [ledger.outcome(handle.key) for handle in handles]
        return all(outcome is not None and outcome.settled is Settled.LOST for outcome in outcomes)

    run.wait_until(f"recovery's finding that {len(handles)} decided transactions were lost", lost, REACH_LIMIT_S)
    log.close()
    run.lost_rows += sum(handle.rows for handle in handles)


def planned_batch(run: Run) -> int:
    """Return the batch in progress, the newest in Spark's offset log. Raises FaultMissed if it is complete."""
    batch = max(run.checkpoint.files("offsets"))
    if batch in run.checkpoint.files("commits"):
        raise FaultMissed(f"batch {batch} is complete, and no other batch is in progress")
    return batch


def now_ms() -> int:
    """Return epoch milliseconds."""
    return time.time_ns() // 1_000_000
