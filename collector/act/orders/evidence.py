"""What an order says of a transaction and looks at again: what the audit keeps, why it is refused, and whether it is open now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indoubt.collector.act.orders.plan import ActionResult, OrderContext
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.rows.row_json import row_to_json
from indoubt.lifecycle.verdicts import Judgement
from indoubt.resource_managers.protocol import OpenTransactionView


def evidence_of(key: str, state: str, judgement: Judgement, revision: str) -> dict[str, Any]:
    """Return what the audit keeps of what an order is about."""
    evidence = row_to_json(judgement.evidence)
    verdict, rule = judgement.verdict.value, judgement.rule
    return {"key": key, "state": state, "verdict": verdict, "rule": rule, "revision": revision, "evidence": evidence}


def refusal(judged: Judged, act: str) -> OrderRefused:
    """Return why a transaction may not be ended so: its verdict and the facts that it rests on."""
    facts = "; ".join(evidence.fact for evidence in judged.judgement.evidence)
    return OrderRefused(f"transaction {judged.view.key} may not be {act}: {judged.judgement.verdict.value} ({facts})")


def open_now(
    context: OrderContext, found: Sequence[Judged], *, epoch_counts: bool = False
) -> list[OpenTransactionView]:
    """Return each as it is open at this moment; ``epoch_counts``: by the producer epoch that was seen, too.

    Raises OrderRefused when one is not open any more, ResourceManagerError.
    """
    views = [judged.view for judged in found]
    targets: list[OpenTransactionView] = []
    for view, target in zip(views, context.participants.find_open(views), strict=True):
        if target is None or (epoch_counts and target.producer_epoch != view.producer_epoch):
            raise OrderRefused(f"transaction {view.key} is not open any more as it was seen: look again")
        targets.append(target)
    return targets


def results_of(errors: Sequence[str], done: StepOutcome) -> list[ActionResult]:
    """Return error texts as the ends of acts; an empty one: it is done."""
    return [(StepOutcome.UNKNOWN, error) if error else (done, "") for error in errors]
