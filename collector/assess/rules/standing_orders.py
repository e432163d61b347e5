"""Alert rules about standing orders: that one acted without a person, and that one could not."""

from __future__ import annotations

from collections.abc import Iterator

from collector.assess.findings import STANDING_ORDERS_GROUP, Finding, Severity
from collector.assess.snapshot import AlertSnapshot
from collector.config.alerts import AlertSettings
from collector.records.standing_orders import HeldBack, OrderReport, StandingAct
from lifecycle.counted_nouns import counted
from lifecycle.durations import duration
from lifecycle.orders import Action
from lifecycle.verdicts import Evidence

STANDING_ORDERS = "standing orders"
SHOWN = 5
"""So many transactions stand in the evidence, the newest acts and the nearest deadlines first."""


def a13_acted(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """A standing order acted within the last hour, or tried to."""
    for order in snapshot.standing.orders:
        if not order.acts:
            continue
        failed = sum(act.outcome in ("refused", "failed") for act in order.acts)
        not_done = f"; {failed} of {counted(len(order.acts), 'attempt')} did nothing" if failed else ""
        yield Finding(
            rule="A13",
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


def a14_held_back(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """What a standing order is for is due, and a doubt, its limit or the stop holds it back: a person must look now."""
    for order in snapshot.standing.orders:
        if not order.held:
            continue
        yield Finding(
            rule="A14",
            subject=order.name,
            group=STANDING_ORDERS_GROUP,
            # A commit that comes too late loses rows; an abort only keeps readers waiting.
            severity=Severity.CRITICAL if order.act is Action.COMMIT else Severity.WARNING,
            summary=_held_summary(order, snapshot.now_ms),
            evidence=tuple(
                Evidence(fact=f"{held.key}: {held.why}", source=STANDING_ORDERS) for held in order.held[:SHOWN]
            ),
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
    return Evidence(fact=f"{act.key}: {act.outcome}{where}", source=STANDING_ORDERS, at_ms=act.at_ms)
