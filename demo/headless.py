"""A demo run without pages that causes one fault and judges the outcome, with the real parts."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from demo import topics
from demo.abandoned_producer import KEY
from demo.fault_injection import FaultDesk
from demo.faults import Fault
from demo.generator import CLOSING_AHEAD_MS
from demo.judge import expected_counts, judge
from demo.offset_log import OffsetLog
from demo.on_call import OnCall
from demo.readers import LiveReader, end_offsets, scan
from demo.run import DemoRun, RunSettings, say
from demo.transaction_counts import ended, open_transactions
from demo.waiting import DemoFailed, wait_until
from indoubt.lifecycle.clock import now_ms

COMMITTED_BEFORE_FAULT = 2
STRIKE_LIMIT_S = 180.0
RESTART_LIMIT_S = 120.0
CATCH_UP_LIMIT_S = 240.0
SETTLE_LIMIT_S = 60.0


def run_headless(settings: RunSettings, fault: Fault, for_s: float) -> dict[str, Any]:
    """Run all parts with one fault; return the report. Raises DemoFailed.

    The traffic lasts ``for_s`` seconds, or longer if the fault and its repair take longer.
    """
    with ExitStack() as stack:
        run = stack.enter_context(DemoRun(settings))
        run.start_broker()
        run.start_collector()
        run.wait_for_collector()
        run.start_pipeline()
        reader = stack.enter_context(LiveReader(run.bootstrap_servers, topics.SINK))
        run.wait_for_pipeline()
        run.start_generator(close=True)
        traffic_ends_s = time.monotonic() + for_s
        log = OffsetLog(run.checkpoint, topics.SOURCE)
        desk = FaultDesk(run)
        on_call = OnCall(run, reader)
        if fault is not Fault.NONE:
            _cause(run, desk, on_call, log, fault)
        run.wait_for(f"{for_s:g} s of traffic", lambda: time.monotonic() >= traffic_ends_s, for_s + 1)
        run.end_generator()
        _wait_until_processed(run, log)
        restarts = run.pipeline_status().restarts
        run.stop_pipeline()
        report = _report(run, log, reader)
        return {"fault": fault.value, "for_s": for_s, "restarts": restarts, **report, "on_call": on_call.steps}


def _cause(run: DemoRun, desk: FaultDesk, on_call: OnCall, log: OffsetLog, fault: Fault) -> None:
    """Cause the fault once some batches with rows are committed, and wait until it is repaired."""
    run.wait_for(
        "two committed batches before the fault", lambda: _committed(log) >= COMMITTED_BEFORE_FAULT, STRIKE_LIMIT_S
    )
    restarts = run.pipeline_status().restarts
    message = run.wait_for(f"the fault {fault.value} to be possible", lambda: _tried(desk, fault), STRIKE_LIMIT_S)
    say(message)
    if fault is Fault.ABANDONED_PRODUCER:
        on_call.abort_foreign()
        return
    run.wait_for(f"the driver to reach the point of {fault.value}", lambda: desk.struck(fault), STRIKE_LIMIT_S)
    if fault is Fault.FREEZE_AFTER_DECISION:
        on_call.commit_decided_batch()
    run.wait_for(
        "the supervisor to restart the driver",
        lambda: run.pipeline_status().restarts > restarts and run.pipeline_status().state == "running",
        RESTART_LIMIT_S,
    )
    say(f"the driver runs again (restarts: {run.pipeline_status().restarts})")


def _tried(desk: FaultDesk, fault: Fault) -> str:
    """Return what happens next if the fault was accepted, else an empty text."""
    accepted, message = desk.cause(fault)
    return message if accepted else ""


def _committed(log: OffsetLog) -> int:
    """Return how many complete batches read records."""
    log.refresh()
    ends = [tuple(sorted(batch.end_offsets.items())) for batch in log.committed()]
    return len(set(ends))


def _wait_until_processed(run: DemoRun, log: OffsetLog) -> None:
    """Wait until all input is in committed batches, and the last batch ran under a watermark past every window."""
    say("waiting for the pipeline to catch up …")
    ends = end_offsets(run.bootstrap_servers, topics.SOURCE)

    def processed() -> bool:
        log.refresh()
        batches = log.committed()
        return bool(batches) and batches[-1].end_offsets == ends and batches[-1].watermark_ms > _half_a_day_ahead_ms()

    run.wait_for(f"the pipeline to process all of {topics.SOURCE} {ends}", processed, CATCH_UP_LIMIT_S)


def _half_a_day_ahead_ms() -> int:
    """Return a watermark that only the closing records can pass, because their event time is a day ahead."""
    return now_ms() + CLOSING_AHEAD_MS // 2


def _report(run: DemoRun, log: OffsetLog, reader: LiveReader) -> dict[str, Any]:
    """Judge the finished run: expected counts, the sink's rows, and transactions that are still open on the broker."""
    say("judging …")
    in_doubt = _still_open(run)
    source, committed = scan(run.bootstrap_servers, topics.SOURCE), scan(run.bootstrap_servers, topics.SINK)
    live_reader_done = _reached(len(committed), reader)
    findings = judge(expected_counts(source, log.committed()), committed, reader.records(), KEY)
    transactions = ended(run.bootstrap_servers)
    return {
        "produced": len(source),
        **findings.to_json(),
        "in_doubt_at_end": len(in_doubt),
        "in_doubt": in_doubt,
        "transactions": {"committed": transactions.committed, "aborted": transactions.aborted},
        "batches": log.last_committed + 1,
        "live_reads": len(reader.records()),
        "passed": findings.clean and not in_doubt and live_reader_done and findings.expected > 0,
    }


def _still_open(run: DemoRun) -> list[str]:
    """Return the ids of transactions that are still open after the broker had time to write the last markers."""
    try:
        wait_until("the last transaction to end", lambda: not open_transactions(run.bootstrap_servers), SETTLE_LIMIT_S)
    except DemoFailed as error:
        say(str(error))
    return open_transactions(run.bootstrap_servers)


def _reached(rows: int, reader: LiveReader) -> bool:
    """Return whether the live reader got every committed row; otherwise the judgement covers only a part."""
    try:
        return wait_until(
            "the live reader to get every committed row", lambda: len(reader.records()) >= rows, SETTLE_LIMIT_S
        )
    except DemoFailed as error:
        say(str(error))
        return False
