"""Restarts of a pipeline of ours: how long the last ones took, and the one that goes on now. Pure, no clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.pipeline_runs import RunFacts
from indoubt.lifecycle.rows.pipelines import MeasuredRestart, RestartUnderWay

LEAST_MS, TIMES = 30_000, 2
"""A restart goes on for so many times the longest measured one, and so long at least; then it counts as failed."""
PERSON_MS = 120_000
"""A person needs so long to see that something stands still, to judge it and to act; at most half of a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRestarts:
    """How long the last restarts took, each from the last sign of one run to the first commit of the next (ms)."""

    count: int
    longest_ms: int
    median_ms: int


def measured_restarts(facts: PipelineFacts, silent_after_ms: int) -> MeasuredRestarts | None:
    """Return how long the pipeline's last restarts took, as ``each_restart`` does, or None where none can be told."""
    took = [one.took_ms for one in each_restart(facts, silent_after_ms)]
    if not took:
        return None
    return MeasuredRestarts(count=len(took), longest_ms=max(took), median_ms=median_low(took))


def each_restart(facts: PipelineFacts, silent_after_ms: int) -> tuple[MeasuredRestart, ...]:
    """Return the pipeline's last restarts whose length can be told, the oldest first.

    A driver that was silent for longer than ``silent_after_ms`` waited for a person: its restart counts from its supervisor's
    report on. One that was stopped on request, and one that nobody reported and that took longer, is left out. What a new run
    waited for its first input is no part of it.
    """
    found = []
    for (_, before), (number, after) in pairwise(sorted(facts.runs.items())):
        took_ms = _took_ms(before, after, facts.restarts_ms, silent_after_ms)
        if took_ms is not None and after.first_commit_ms is not None:
            found.append(MeasuredRestart(run=number, committed_at_ms=after.first_commit_ms, took_ms=took_ms))
    return tuple(found)


def _took_ms(before: RunFacts, after: RunFacts, reported_ms: Sequence[int], silent_after_ms: int) -> int | None:
    began_ms, committed_ms = after.began_ms, after.first_commit_ms
    if before.stopped_on_request or before.last_sign_ms is None or began_ms is None or committed_ms is None:
        return None
    # An event may claim a sign of a run that has a successor.
    from_ms = min(before.last_sign_ms, began_ms)
    first = bisect_left(reported_ms, from_ms)
    report_ms = reported_ms[first] if first < len(reported_ms) and reported_ms[first] <= began_ms else None
    if (began_ms if report_ms is None else report_ms) - from_ms > silent_after_ms:
        if report_ms is None:
            return None
        from_ms = report_ms
    up_ms = after.query_ms if after.query_ms is not None else began_ms
    idle_ms = (after.opened_ms or up_ms) - up_ms
    return max(0, committed_ms - from_ms - (idle_ms if idle_ms > silent_after_ms else 0))


def restart_under_way(
    facts: PipelineFacts, run: tuple[int, int] | None, restarts: MeasuredRestarts | None, now_ms: int
) -> RestartUnderWay | None:
    """Return the restart that goes on, from its order or its supervisor's report to the first commit of the new run, or None.

    ``run``: number and begin (epoch ms) of the newest run. None too once it takes too long, and while its supervisor waits for
    longer than it may take: it is to be ordered (again).
    """
    number, began_ms = run if run is not None else (None, 0)
    known = facts.runs.get(number) if number is not None else None
    asked = [at_ms for at_ms in (facts.ordered_ms, facts.restarting_ms) if at_ms is not None]
    since_ms = min((at_ms for at_ms in asked if at_ms > began_ms), default=None)
    if since_ms is None and known is not None and known.first_commit_ms is None:
        before = [one.last_sign_ms or 0 for other, one in facts.runs.items() if number is not None and other < number]
        since_ms = min((at_ms for at_ms in asked if at_ms >= max(before, default=0)), default=began_ms)
    else:
        number = None
    allowed_ms = PERSON_MS if restarts is None else max(LEAST_MS, TIMES * restarts.longest_ms)
    waits = number is None and facts.ordered_ms != since_ms and facts.setting("restart_delay_ms", 0) > allowed_ms
    has_stopped = facts.stopped_ms is not None and since_ms is not None and facts.stopped_ms > max(since_ms, began_ms)
    if since_ms is None or has_stopped or waits or now_ms - since_ms > allowed_ms:
        return None
    usual_ms = restarts.median_ms if restarts is not None else None
    is_ordered = facts.ordered_ms is not None and facts.ordered_ms >= since_ms
    return RestartUnderWay(
        since_ms=since_ms, run=number, usually_ms=usual_ms, who=facts.ordered_by if is_ordered else ""
    )
