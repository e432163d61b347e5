"""How a pipeline of ours stands, from what its driver and its supervisor reported: pure, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from indoubt.collector.verdicts.judging import PipelineNow
from indoubt.collector.verdicts.verdict_case import CLOCK_SKEW_MS, Limits, PipelineHistory
from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.rows.pipelines import RestartUnderWay

RETIRED_MS = 7 * DAY_MS
"""So long after its last sign a pipeline counts as given up by its owner: brokers forget its transactional ids then too."""
SUPERVISOR_MS = 5_000
"""A supervisor reports the restart of a driver that ended within this time."""


ALIVE_TIMES = 3
"""A driver may leave out so many of the times at which it says that it runs."""
EXPECTED_TIMES, PROMPT_MS = 2, 5_000
"""After so many signs that were expected and did not come nobody says any more that it lives; not before this time."""


class DriverCondition(Enum):
    """Whether a pipeline goes on by itself; the value is the short word of its card."""

    ALIVE = "alive"
    """It runs, has nothing to do, or is on its way back."""
    STOPPED = "stopped"
    """A person asked for the stop, or nobody missed it for days."""
    FROZEN = "frozen"
    """It gives no sign in the middle of a batch: it stands still, hangs, or was killed with its supervisor."""
    STUCK = "stuck"
    """It says that it runs, and a batch of it makes no progress."""
    SILENT = "silent"
    """It should have come back from a restart, or said again that it runs, and did not."""
    FAILED = "failed"
    """Its query failed, and no supervisor started it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """How one pipeline stands. ``since_ms``: its last sign, or its failure; ``allowed_ms``: how long it may give no sign.

    ``is_late``: it counts as alive still, and signs that were expected did not come. ``restart``: the one that goes on.
    """

    run: PipelineNow
    condition: DriverCondition
    since_ms: int | None = None
    allowed_ms: int = 0
    is_late: bool = False
    restart: RestartUnderWay | None = None

    @property
    def needs_attention(self) -> bool:
        """True where it does not go on by itself."""
        return self.condition not in (DriverCondition.ALIVE, DriverCondition.STOPPED)

    @property
    def shows_life(self) -> bool:
        """True while it gives the signs that are expected of one that runs."""
        return self.condition is DriverCondition.ALIVE and not self.is_late and self.restart is None


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


def gives_signs(run: PipelineNow, limits: Limits, now_ms: int) -> bool:
    """Say whether a pipeline runs as far as its own signs tell: it did not report its end, and was heard of lately."""
    last_ms = max(_last_sign_ms(run, now_ms), _alive_ms(run, now_ms))
    return state_of(run) != "stopped" and now_ms - last_ms <= limits.driver_silent_ms


def plain_state(run: PipelineNow, limits: Limits, now_ms: int) -> DriverState | None:
    """Return how it stands where its last sign alone tells it, else None: its history, which takes long to gather, is needed."""
    last_ms = _last_sign_ms(run, now_ms)
    heard_ms = max(last_ms, _alive_ms(run, now_ms))
    if now_ms - heard_ms >= RETIRED_MS or _was_asked_to_stop(run):
        return DriverState(run=run, condition=DriverCondition.STOPPED, since_ms=last_ms)
    ordered_ms = run.facts.ordered_ms
    restarts = state_of(run) != "running" or (ordered_ms is not None and ordered_ms > run.run_ms)
    if not restarts and run.has_committed and now_ms - last_ms <= min(PROMPT_MS, limits.driver_silent_ms):
        return DriverState(run=run, condition=DriverCondition.ALIVE, since_ms=last_ms)
    return None


def driver_state(
    run: PipelineNow, history: PipelineHistory, unfinished_ms: int | None, limits: Limits, now_ms: int
) -> DriverState:
    """Return how it stands. ``unfinished_ms``: since when a batch of it is begun and not finished; None: none is."""
    if (plain := plain_state(run, limits, now_ms)) is not None:
        return plain
    found = _without_restart(run, history, unfinished_ms, limits, now_ms)
    has_work = state_of(run) != "running" or unfinished_ms is not None or not found.shows_life
    restart = history.restart_under_way(now_ms) if has_work else None
    has_ended = restart is not None and (restart.run is not None or (run.facts.restarting_ms or 0) > run.run_ms)
    if not has_ended:
        return replace(found, restart=restart)
    # What a restart takes is no silence.
    return replace(found, condition=DriverCondition.ALIVE, is_late=False, restart=restart)


def _without_restart(
    run: PipelineNow, history: PipelineHistory, unfinished_ms: int | None, limits: Limits, now_ms: int
) -> DriverState:
    state, last_ms = state_of(run), _last_sign_ms(run, now_ms)
    if state == "stopped":
        allowed_ms = history.restart_delay_ms + SUPERVISOR_MS
        condition = DriverCondition.ALIVE if now_ms - last_ms <= allowed_ms else DriverCondition.FAILED
        since_ms = run.facts.stopped_ms
        return DriverState(run=run, condition=condition, since_ms=since_ms, allowed_ms=allowed_ms, is_late=True)
    allowed_ms = history.silent_after_ms(limits)
    if state == "running" and unfinished_ms is None:
        return _between_batches(run, allowed_ms, now_ms)
    if state == "restarting":
        allowed_ms += history.restart_delay_ms
    is_late = False
    if now_ms - last_ms <= allowed_ms:
        condition = DriverCondition.ALIVE
        usual_ms = max(history.interval_ms, history.checkpoint_p99_ms)
        # It says that it runs in a batch, too, however long that takes.
        expected_ms = max(PROMPT_MS, EXPECTED_TIMES * min(usual_ms, run.facts.setting("alive_ms", 0) or usual_ms))
        is_late = state == "running" and now_ms - max(last_ms, _alive_ms(run, now_ms)) > expected_ms
    elif state != "running":
        condition = DriverCondition.SILENT
    else:
        says_so = now_ms - _alive_ms(run, now_ms) <= ALIVE_TIMES * run.facts.setting("alive_ms", 0)
        condition = DriverCondition.STUCK if says_so else DriverCondition.FROZEN
    return DriverState(run=run, condition=condition, since_ms=last_ms, allowed_ms=allowed_ms, is_late=is_late)


def _between_batches(run: PipelineNow, allowed_ms: int, now_ms: int) -> DriverState:
    """Judge one that has no batch to do by the times at which it says that it runs; an older one that says none is alive."""
    every_ms = run.facts.setting("alive_ms", 0)
    last_ms = max(_last_sign_ms(run, now_ms), _alive_ms(run, now_ms))
    allowed_ms = max(allowed_ms, ALIVE_TIMES * every_ms)
    is_alive = not every_ms or now_ms - last_ms <= allowed_ms
    condition = DriverCondition.ALIVE if is_alive else DriverCondition.SILENT
    is_late = is_alive and bool(every_ms) and now_ms - last_ms > max(PROMPT_MS, EXPECTED_TIMES * every_ms)
    return DriverState(run=run, condition=condition, since_ms=last_ms, allowed_ms=allowed_ms, is_late=is_late)


def _was_asked_to_stop(run: PipelineNow) -> bool:
    facts = run.facts
    if state_of(run) != "stopped":
        return False
    answered_ms, order = facts.stop_answer
    return facts.stopped_on_request_ms == facts.stopped_ms or bool(order and answered_ms == facts.stopped_ms)


def _alive_ms(run: PipelineNow, now_ms: int) -> int:
    """Return when it said last that it runs, or 0."""
    alive_ms = run.facts.alive_ms
    return alive_ms if alive_ms is not None and alive_ms <= now_ms + CLOCK_SKEW_MS else 0


def _last_sign_ms(run: PipelineNow, now_ms: int) -> int:
    """Return when its driver or supervisor gave its last sign; a time that is still to come is none."""
    signs = (run.facts.last_seen_ms, run.facts.logged_ms, run.run_ms)
    return max((at for at in signs if at is not None and at <= now_ms + CLOCK_SKEW_MS), default=run.run_ms)
