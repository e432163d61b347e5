"""Alert rules about standing orders: that one acted without a person, and that one could not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indoubt.collector.assess.findings import STANDING_ORDERS_GROUP, Finding, Severity
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.records.standing_orders import HeldBack, OrderReport, StandingAct
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.verdicts import Evidence

STANDING_ORDERS = "standing orders"
SHOWN = 5
"""So many transactions stand in the evidence, the newest acts and the nearest deadlines first."""


def order_reports(situation: Situation) -> Sequence[OrderReport]:
    """Return what each standing order did of late, and what it is held back from."""
    return situation.standing().orders


def a13_acted(situation: Situation) -> Iterator[Finding]:
    """A standing order acted within the last hour, or tried to."""
    for order in situation.read(order_reports):
        if not order.acts:
            continue
        failed = sum(act.outcome in ("refused", "failed") for act in order.acts)
        not_done = f"; {failed} of {counted(len(order.acts), 'attempt')} did nothing" if failed else ""
        yield Finding(
            subject=order.name,
            group=STANDING_ORDERS_GROUP,
            severity=Severity.WARNING,
            summary=(
                f"standing order {order.name!r} acted without a person: "
                f"{order.act.value} ordered {counted(len(order.acts), 'time')} in "
                f"the last hour{not_done}. Look at the audit"
            ),
            evidence=tuple(_acted(act) for act in reversed(order.acts[-SHOWN:])),
            subject_labels={"standing_order": order.name},
        )


def a14_held_back(situation: Situation) -> Iterator[Finding]:
    """What a standing order is for is due, and a doubt, its limit or the stop holds it back: a person must look now."""
    for order in situation.read(order_reports):
        if not order.held:
            continue
        yield Finding(
            subject=order.name,
            group=STANDING_ORDERS_GROUP,
            # A commit that comes too late loses rows; an abort only keeps readers waiting.
            severity=Severity.CRITICAL if order.act is Action.COMMIT else Severity.WARNING,
            summary=_held_summary(order, situation.now_ms),
            evidence=tuple(Evidence(f"{held.key}: {held.why}", STANDING_ORDERS) for held in order.held[:SHOWN]),
            subject_labels={"standing_order": order.name},
        )


def _held_summary(order: OrderReport, now_ms: int) -> str:
    first: HeldBack = order.held[0]
    several = f"{len(order.held)} transactions" if len(order.held) > 1 else f"a transaction of {first.application}"
    left = (
        f", {duration(max(0, first.deadline_ms - now_ms))} before the first timeout"
        if first.deadline_ms is not None
        else ""
    )
    return f"standing order {order.name!r} does not {order.act.value} {several}{left}: {first.why}. Decide by hand"


def _acted(act: StandingAct) -> Evidence:
    where = f", audit {act.audit}" if act.audit is not None else ""
    return Evidence(f"{act.key}: {act.outcome}{where}", STANDING_ORDERS, act.at_ms)


A13 = Rule(
    number="A13",
    name="standing order acted",
    find=a13_acted,
    consequence="Its cause is still there, and it acts again.",
)
A14 = Rule(
    number="A14",
    name="standing order held back",
    find=a14_held_back,
    consequence="Nothing is done about it until a person decides; in Kafka its timeout ends it.",
    sources=(Source.OBSERVERS,),
    for_ms=3_000,
)
