"""Settle: one batch as a whole. Decided: commit every handle that its decision lists; undecided: abort all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.batches import Batch, is_committed, is_open
from collector.judging import Judged
from collector.ordering.abort import plan_abort
from collector.ordering.commit import plan_commit
from collector.ordering.plan import Act, End, Plan, Reach, joined
from collector.orders import StepOutcome
from lifecycle.decisions import Ruling
from lifecycle.errors import OrderRefused

UNREACHED = "this collector was not told how to reach its database (--database-properties)"


def plan_settle(reach: Reach, batch: Batch, who: str, confirm: str | None) -> Plan:
    """Return the plan that settles a batch; its acts name every transaction of it, also those that have ended.

    What a decision lists is committed wherever it can be reached: the others are named, and may be ordered again.
    Raises OrderRefused when there is nothing to do, or it is not safe, DecisionLogUnreadable, ResourceManagerError.
    """
    going = [one for one in batch.transactions if is_open(one)]
    if not going:
        raise OrderRefused(f"batch {batch.key} has nothing open: it is {batch.verdict.value}")
    keys = [one.view.key for one in batch.transactions]
    ended = [one for one in batch.transactions if not is_open(one)]
    beyond = [one for one in going if one.view.resource_manager not in reach.actors.names]
    reached = [one for one in going if one not in beyond]
    counting = reach.log.read_to_end().counting(batch.about)
    if counting is not None and counting.ruling is Ruling.COMMIT:
        commit = [plan_commit(reach, reached, who)] if reached else []
        return joined([*commit, _without_deed(beyond, _unreached), _without_deed(ended, _before)], keys)
    for one in ended:
        if is_committed(one):
            raise OrderRefused(
                f"batch {batch.key} was never decided, and yet {one.view.key} is committed: compare its rows before "
                "anything of it is aborted"
            )
    if beyond:
        raise OrderRefused(f"batch {batch.key} is undecided, and of {beyond[0].view.key} {UNREACHED}")
    return joined([plan_abort(reach, reached, who, confirm), _without_deed(ended, _before)], keys)


def _without_deed(found: Sequence[Judged], end: Callable[[Judged], End]) -> Plan:
    """Return a plan that does nothing and says of each how it ended."""
    ends = [end(one) for one in found]
    acts = tuple(
        Act(
            key=one.view.key,
            will="nothing",
            target={"kind": "ended", "outcome": outcome.value, "detail": detail},
            checked=f"{outcome.value}: {detail}",
        )
        for one, (outcome, detail) in zip(found, ends, strict=True)
    )
    return Plan(acts=acts, carry_out=lambda: ends)


def _unreached(_: Judged) -> End:
    return StepOutcome.REFUSED, UNREACHED


def _before(one: Judged) -> End:
    if is_committed(one):
        return StepOutcome.ALREADY_COMMITTED, "before this order"
    if one.view.listing is not None:
        return StepOutcome.LOST, "rolled back after it was decided: only a replay of the batch brings its rows back"
    return StepOutcome.ABORTED, "before this order"
