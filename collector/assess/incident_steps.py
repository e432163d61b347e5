"""The steps that end an incident: what its parts and its driver ask for, and what was done. Pure but for what endings are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from indoubt.collector.assess.remedies import remedy_of_driver
from indoubt.collector.assess.situation import Situation
from indoubt.collector.verdicts.driver_state import DriverState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import duration, steady_duration
from indoubt.lifecycle.orders import PIPELINE_KEY, Action
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy
from indoubt.lifecycle.rows.incidents import Incident, Step, StepState
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict

ORDERS = {Remedy.COMMIT: Action.COMMIT, Remedy.ABORT: Action.ABORT}
OF_PIPELINE = frozenset({Remedy.RESTART, Remedy.START})
MOST_LOOKED_UP = 100
"""So many transactions of a part that is gone are asked how they ended."""
ORDER_KNOWN_MS = 10_000
"""So long after a transaction was seen to end, the order that ended it becomes known."""
OWNER_KNOWS = "Only its owner knows what the abort lost."
_ABORTED = frozenset({TransactionState.ABORTED, TransactionState.ABORTING})
_step = partial(
    Step, state=StepState.TO_DO, note="", who="", remedy=Remedy.OPEN, target="", since_ms=None, usually_ms=None, lost=""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a transaction ended, by its last known state, and who ordered that; empty: nobody."""

    state: TransactionState | None
    who: str


def endings(situation: Situation) -> Callable[[str], Ending]:
    """Return what tells of a transaction, by its key, how it ended."""
    current = situation.current

    def ending(key: str) -> Ending:
        found = current.transactions.find(key)
        with current.reading() as state:
            order = state.orders.get(key)
        return Ending(state=found.view.state if found is not None else None, who=order.who if order is not None else "")

    return ending


def steps_now(
    parts: Sequence[Attention], alerts: Sequence[AlertRow], driver: DriverState | None, situation: Situation
) -> list[Step]:
    """Return what is to be done or under way: orders by their deadlines, then the driver, then what it writes again."""
    orders = [_order_step(part, situation) for part in parts if part.remedy in ORDERS]
    again = [_written_again(part, driver) for part in parts if part.verdict is Verdict.LOST]
    return [*orders, *_driver_step(parts, alerts, driver, situation), *again]


def steps_done(
    before: Incident, now: Sequence[Step], parts: Sequence[Attention], driver: DriverState | None, situation: Situation
) -> list[Step]:
    """Return the steps that were done before or since then, the oldest first."""
    standing = {step.part for step in now}
    kept = [
        step_with_who(step, situation)
        for step in before.steps
        if step.state is StepState.DONE and step.part not in standing
    ]
    open_keys = {key for part in parts for key in part.keys}
    were = [part for part in before.parts if part.kind is AttentionKind.TRANSACTIONS]
    new = [_done(part, situation) for part in were if open_keys.isdisjoint(part.keys)]
    going = (step for step in before.steps if step.state is StepState.UNDER_WAY and step.remedy in OF_PIPELINE)
    driver_step = next(going, None)
    if driver_step is not None and driver is not None and driver.shows_life:
        by = f"by {driver_step.who}" if driver_step.who else "by its supervisor"
        new.append(
            replace(
                driver_step,
                what="Restarted the driver",
                state=StepState.DONE,
                note=by,
                since_ms=situation.now_ms,
                usually_ms=None,
            )
        )
    return [*kept, *new]


def step_with_who(step: Step, situation: Situation) -> Step:
    """Return a step that was done with who ordered it: its end may be seen before its order is known to be done."""
    is_new = situation.now_ms - (step.since_ms or 0) < ORDER_KNOWN_MS
    if step.who or not is_new or step.remedy not in ORDERS:
        return step
    who = situation.read(endings)(step.target).who
    return replace(step, who=who, note=f"by {who}") if who else step


def _order_step(part: Attention, situation: Situation) -> Step:
    what = f"{ORDERS[part.remedy].value.capitalize()} {_named(part)}"
    run = next((run for run in situation.runs if not run.keys.isdisjoint(part.keys)), None)
    if run is None or run.done >= run.transactions:
        return _step(part=part.key, what=what, remedy=part.remedy, target=part.keys[0])
    return _step(
        part=part.key,
        what=what,
        remedy=part.remedy,
        target=part.keys[0],
        state=StepState.UNDER_WAY,
        note=f"{run.done} of {run.transactions} done",
        who=run.who,
        since_ms=run.begun_ms,
    )


def _driver_step(
    parts: Sequence[Attention], alerts: Sequence[AlertRow], driver: DriverState | None, situation: Situation
) -> list[Step]:
    if driver is None:
        return []
    name, key = driver.run.facts.pipeline, f"pipeline:{driver.run.facts.pipeline}"
    if driver.restart is not None:
        restart = driver.restart
        note = f"run {restart.run} is starting" if restart.run is not None else "its supervisor restarts it"
        return [
            _step(
                part=key,
                what="Restart the driver",
                remedy=Remedy.RESTART,
                target=PIPELINE_KEY + name,
                state=StepState.UNDER_WAY,
                note=note,
                who=restart.who,
                since_ms=restart.since_ms,
                usually_ms=restart.usually_ms,
            )
        ]
    is_silent = driver.is_late or not (parts or alerts)
    asked_for = {part.remedy.value for part in parts} | {alert.remedy for alert in alerts}
    asks = not asked_for.isdisjoint(remedy.value for remedy in OF_PIPELINE)
    remedy = remedy_of_driver(driver, situation.startable)
    if not (asks or is_silent) or remedy not in OF_PIPELINE:
        return []
    note = ""
    if is_silent and driver.since_ms is not None:
        counts = f"; after {duration(driver.allowed_ms)} it counts as frozen" if driver.allowed_ms else ""
        note = f"silent for {steady_duration(max(0, situation.now_ms - driver.since_ms))}{counts}"
    what = "Restart the driver" if remedy is Remedy.RESTART else f"Start {name}"
    return [_step(part=key, what=what, remedy=remedy, target=PIPELINE_KEY + name, note=note)]


def _written_again(part: Attention, driver: DriverState | None) -> Step:
    is_restarting = driver is not None and driver.restart is not None
    return _step(
        part=part.key,
        what=f"Batch {part.batch} is written again",
        state=StepState.UNDER_WAY if is_restarting else StepState.TO_DO,
        note="the new run does it" if is_restarting else "the restart does it",
    )


def _done(part: Attention, situation: Situation) -> Step:
    """Return what became of a part that stands no more."""
    ending = situation.read(endings)
    found = [ending(key) for key in part.keys[:MOST_LOOKED_UP]]
    states = {one.state for one in found}
    who = next((one.who for one in found if one.who), "")
    remedy, lost = Remedy.OPEN, ""
    if part.verdict is Verdict.LOST:
        what, who = f"Batch {part.batch} was lost, then written again", ""
    elif states == {TransactionState.COMMITTED}:
        what, remedy = f"Committed {_named(part)}", Remedy.COMMIT
    elif states <= _ABORTED:
        what, remedy = f"Aborted {_named(part)}", Remedy.ABORT
        # Of ours and of what its owner writes again nothing is lost.
        lost = "" if part.batch is not None or part.verdict is Verdict.ABORT_IT else OWNER_KNOWS
    else:
        what, lost = f"{counted(len(part.keys), 'transaction')} ended", "How it ended was not seen."
    return _step(
        part=part.key,
        what=what,
        remedy=remedy,
        target=part.keys[0],
        state=StepState.DONE,
        note=f"by {who}" if who else "",
        who=who,
        since_ms=situation.now_ms,
        lost=lost,
    )


def _named(part: Attention) -> str:
    return f"batch {part.batch}" if part.batch is not None else counted(len(part.keys), "transaction")
