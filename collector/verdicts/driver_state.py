"""How a pipeline of ours stands, from what its driver and its supervisor reported: pure, no clock."""

from __future__ import annotations

from collector.verdicts.judging import PipelineNow


def state_of(now: PipelineNow) -> str:
    """Return what the pipeline reported last: running, restarting, stopped, or recovering (a run began since)."""
    facts = now.facts
    events = {
        "recovering": now.run_ms,
        "running": facts.started_ms,
        "restarting": facts.restarting_ms,
        "stopped": facts.stopped_ms,
    }
    times = {what: at_ms for what, at_ms in events.items() if at_ms is not None}
    return max(times, key=lambda what: times[what])
