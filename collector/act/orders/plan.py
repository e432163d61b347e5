"""A plan: everything an order will do, checked and not yet done; and the words for how each part of it ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, assert_never

from indoubt.collector.act.orders.participants import Participants
from indoubt.collector.records.orders import Step, StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Lost,
    RetryLater,
    RollbackOutcome,
    RolledBack,
    Unknown,
)
from indoubt.resource_managers.protocol import Readiness
from indoubt.resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)

ActionResult = tuple[StepOutcome, str]
"""How one act ended, and what there is to say about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderContext:
    """What orders see and use. ``limit_s``: how long transient answers are retried."""

    current: CurrentState
    participants: Participants
    log: DecisionLog
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """One thing to do: about which key, what is sent, in words, and what a dry run says of it.

    ``target`` is what a later probe needs to find out how it ended (JSON values, kept in history); its ``kind`` says which probe.
    """

    key: str
    description: str
    target: Mapping[str, Any]
    checked: str = ""

    def step(self, end: ActionResult) -> Step:
        """Return it with its end, as the answer has it."""
        return Step(key=self.key, description=self.description, outcome=end[0], detail=end[1])

    def to_json(self) -> dict[str, Any]:
        """Return what history keeps of it."""
        return {"key": self.key, "description": self.description, "target": dict(self.target)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlannedAction:
        """Return the act that ``to_json`` wrote."""
        return cls(key=value["key"], description=value["description"], target=value["target"])

    def dry(self) -> Step:
        """Return it as a dry run's answer has it."""
        return self.step((StepOutcome.DRY_RUN, self.checked))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The actions of an order. ``execute`` does them and returns one end each, in order; OrderRefused: nothing was done."""

    actions: tuple[PlannedAction, ...]
    execute: Callable[[], Sequence[ActionResult]]


def joined(plans: Sequence[Plan], keys: Sequence[str]) -> Plan:
    """Return several plans as one, its actions in the order of ``keys``; one that is refused in the middle stops no other."""
    if len(plans) == 1:
        return plans[0]
    actions = {planned.key: planned for plan in plans for planned in plan.actions}

    def execute_all() -> list[ActionResult]:
        ends: dict[str, ActionResult] = {}
        refused: list[OrderRefused] = []
        for plan in plans:
            try:
                found = execute(plan)
            except OrderRefused as error:
                refused.append(error)
                found = [(StepOutcome.REFUSED, str(error))] * len(plan.actions)
            ends |= {planned.key: end for planned, end in zip(plan.actions, found, strict=True)}
        if len(refused) == len(plans):
            raise refused[0]
        return [ends[key] for key in keys]

    return Plan(actions=tuple(actions[key] for key in keys), execute=execute_all)


def plan_each(plan: Callable[[Sequence[Judged]], Plan], found: Sequence[Judged]) -> tuple[Plan, dict[str, str]]:
    """Return a plan for all that are not refused, and why each other one is, by its key.

    All are planned together; what is refused together is planned in halves, so few refusals take few plans. ``plan`` checks and
    does nothing yet. Raises what it raises besides OrderRefused.
    """
    refused: dict[str, str] = {}
    plans = _plans_of_parts(plan, found, refused)
    if not plans:
        return Plan(actions=(), execute=lambda: []), refused
    return joined(plans, [judged.view.key for judged in found if judged.view.key not in refused]), refused


def _plans_of_parts(
    plan: Callable[[Sequence[Judged]], Plan], found: Sequence[Judged], refused: dict[str, str]
) -> list[Plan]:
    if not found:
        return []
    try:
        return [plan(found)]
    except OrderRefused as error:
        if len(found) == 1:
            refused[found[0].view.key] = str(error)
            return []
    half = len(found) // 2
    return _plans_of_parts(plan, found[:half], refused) + _plans_of_parts(plan, found[half:], refused)


def execute(plan: Plan) -> list[ActionResult]:
    """Carry a plan out; what fails in the middle has unknown ends. Raises OrderRefused when nothing was done."""
    try:
        return list(plan.execute())
    except OrderRefused:
        raise
    except Exception as error:  # part of it may have been done, whatever the reason
        log.exception("an order failed in the middle")
        return [(StepOutcome.UNKNOWN, f"{type(error).__name__}: {error}")] * len(plan.actions)


def handle_of(judged: Judged) -> Handle:
    """Return the whole handle as a decision lists it, or what coordinator or database say of one that none lists."""
    view = judged.view
    if view.listed_handle is not None:
        return view.listed_handle
    opened_ms = view.opened_ms or 0
    return Handle(
        resource_manager=view.resource_manager,
        transaction=view.transaction,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        slot=view.slot or 0,
        rows=0,
        bytes=0,
        fingerprint="",
        opened_at_ms=opened_ms,
        prepared_at_ms=opened_ms,
        timeout_ms=view.timeout_ms or 0,
    )


def target_of(kind: str, handle: Handle, prefix: str, batch_attempt: BatchAttempt | None) -> dict[str, Any]:
    """Return what a later probe needs to find out how a transaction of ours ended."""
    named = None if batch_attempt is None else asdict(batch_attempt)
    return {"kind": kind, "handle": handle.to_json(), "prefix": prefix, "batch_attempt": named}


def ready_text(readiness: Readiness) -> str:
    """Return what a dry run says of a transaction that is to be committed."""
    if not readiness.ready:
        return f"not ready: {readiness.reason}"
    # Only Kafka counts the time.
    left = f", {duration(readiness.time_left_ms)} left" if readiness.handle.timeout_ms else ""
    return f"prepared{left}"


def result_of(outcome: CommitOutcome | RollbackOutcome) -> ActionResult:
    """Return a resource manager's answer as the end of an act."""
    match outcome:
        case Committed():
            return StepOutcome.COMMITTED, ""
        case AlreadyCommitted():
            return StepOutcome.ALREADY_COMMITTED, "its marker proves it"
        case Lost():
            return StepOutcome.LOST, outcome.reason
        case RetryLater():
            return StepOutcome.RETRY_LATER, outcome.reason
        case Unknown():
            return StepOutcome.UNKNOWN, outcome.reason
        case RolledBack():
            return StepOutcome.ABORTED, ""
        case _:
            assert_never(outcome)
