"""Settle: one batch as a whole. Decided: commit every handle that its decision lists; undecided: abort all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from indoubt.collector.act.orders.abort import plan_abort
from indoubt.collector.act.orders.commit import plan_commit
from indoubt.collector.act.orders.plan import ActionResult, OrderContext, Plan, PlannedAction, joined
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.batches import Batch, is_committed, is_open
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.errors import OrderRefused

UNREACHED = "this collector has no connection to its database (--database-properties)"


def plan_settle(context: OrderContext, batch: Batch, who: str, confirm: str | None) -> Plan:
    """Return the plan that settles a batch; its actions name every transaction of it, also those that have ended.

    What a decision lists is committed wherever it can be reached: the others are named, and may be ordered again.
    Raises OrderRefused when there is nothing to do, or it is not safe, DecisionLogUnreadable, ResourceManagerError.
    """
    going = [judged for judged in batch.transactions if is_open(judged)]
    if not going:
        raise OrderRefused(f"batch {batch.key} has nothing open: it is {batch.verdict.value}")
    keys = [judged.view.key for judged in batch.transactions]
    ended = [judged for judged in batch.transactions if not is_open(judged)]
    beyond = [judged for judged in going if judged.view.resource_manager not in context.participants.names]
    reached = [judged for judged in going if judged not in beyond]
    counting = context.log.read_to_end().counting(batch.batch_attempt)
    if counting is not None and counting.ruling is Ruling.COMMIT:
        commit = [plan_commit(context, reached, who, None)] if reached else []
        return joined([*commit, _without_deed(beyond, _unreached), _without_deed(ended, _before)], keys)
    for judged in ended:
        if is_committed(judged):
            raise OrderRefused(
                f"batch {batch.key} was never decided, and yet {judged.view.key} is committed: compare its rows before "
                "anything of it is aborted"
            )
    if beyond:
        raise OrderRefused(f"batch {batch.key} is undecided, and of {beyond[0].view.key} {UNREACHED}")
    return joined(
        [plan_abort(context, reached, who, confirm, batch.batch_attempt), _without_deed(ended, _before)], keys
    )


def _without_deed(found: Sequence[Judged], end: Callable[[Judged], ActionResult]) -> Plan:
    """Return a plan that does nothing and says of each how it ended."""
    ends = [end(judged) for judged in found]
    actions = tuple(
        PlannedAction(
            key=judged.view.key,
            description="nothing",
            target={"kind": "ended", "outcome": outcome.value, "detail": detail},
            checked=f"{outcome.value}: {detail}",
        )
        for judged, (outcome, detail) in zip(found, ends, strict=True)
    )
    return Plan(actions=actions, execute=lambda: ends)


def _unreached(_: Judged) -> ActionResult:
    return StepOutcome.REFUSED, UNREACHED


def _before(judged: Judged) -> ActionResult:
    if is_committed(judged):
        return StepOutcome.ALREADY_COMMITTED, "before this order"
    if judged.view.listing is not None:
        return StepOutcome.LOST, "rolled back after it was decided: only a replay of the batch brings its rows back"
    return StepOutcome.ABORTED, "before this order"
