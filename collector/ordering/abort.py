"""Abort: what is ours after an abort decision, what is foreign by exactly its producer id, epoch and start time."""

from __future__ import annotations

from collections.abc import Sequence

from collector.clock import now_ms
from collector.fold import OPERATOR
from collector.judging import Judged
from collector.ordering.confirmation import require_confirmation
from collector.ordering.plan import Act, End, Plan, Reach, end_of, handle_of, joined, target_of
from collector.orders import Action, StepOutcome
from collector.verdicts import LogSight
from lifecycle.decisions import BatchAttempt, Decision, DecisionLedger, Ruling
from lifecycle.errors import DecisionLogUnreadable, DecisionVoid, OrderRefused
from lifecycle.identity import Handle
from resource_managers.protocol import OpenTransactionView


def plan_abort(reach: Reach, found: Sequence[Judged], who: str, confirm: str | None) -> Plan:
    """Return the plan that aborts these transactions; ours and foreign ones take different checks, all of them first.

    ``confirm`` is what was typed, None for a dry run. Raises OrderRefused when one of them may not be aborted,
    DecisionLogUnreadable, ResourceManagerError.
    """
    for judged in found:
        judgement = judged.judgement
        if not judgement.may_abort:
            facts = "; ".join(evidence.fact for evidence in judgement.evidence)
            raise OrderRefused(f"transaction {judged.view.key} may not be aborted: {judgement.verdict.value} ({facts})")
    if confirm is not None:
        require_confirmation(confirm, found)
    ours = [one for one in found if one.view.ours]
    foreign = [one for one in found if not one.view.ours]
    plans = [_plan_ours(reach, ours, who)] if ours else []
    plans += [_plan_foreign(reach, foreign)] if foreign else []
    return joined(plans, [one.view.key for one in found])


def _plan_ours(reach: Reach, found: Sequence[Judged], who: str) -> Plan:
    ledger = reach.log.read_to_end()
    for judged in found:
        _require_undecided(judged, ledger)
    handles = [handle_of(one) for one in found]
    acts = tuple(
        Act(
            key=one.view.key,
            will=f"abort decision for its batch, then {reach.actors.will(Action.ABORT, handle)}",
            target=target_of("abort", handle, one.view.pipeline, one.view.about),
        )
        for one, handle in zip(found, handles, strict=True)
    )

    def carry_out() -> list[End]:
        stopped = _decide(reach, found, handles, who)
        going = [h for one, h in zip(found, handles, strict=True) if one.view.about not in stopped]
        ends = iter([end_of(outcome) for outcome in reach.actors.rollback(going, reach.limit_s)])
        return [stopped[one.view.about] if one.view.about in stopped else next(ends) for one in found]

    return Plan(acts=acts, carry_out=carry_out)


def _require_undecided(judged: Judged, ledger: DecisionLedger) -> None:
    view = judged.view
    if ledger.listing(handle_of(judged).key) is not None:
        raise OrderRefused(f"transaction {view.key} is in a commit decision that counts: an abort would lose its rows")
    if view.about is not None:
        counting = ledger.counting(view.about)
        if counting is not None and counting.ruling is Ruling.COMMIT:
            raise OrderRefused(
                f"batch {view.about.batch} was decided to be committed by {counting.who}: it may not be aborted"
            )
        return
    run = ledger.latest_run(view.pipeline)
    if run is None or view.opened_ms is None or view.opened_ms >= run[1].at_ms:
        raise OrderRefused(
            f"the batch of {view.key} is not known and no newer run started: its driver may still decide it"
        )


def _decide(
    reach: Reach, found: Sequence[Judged], handles: Sequence[Handle], who: str
) -> dict[BatchAttempt | None, End]:
    """Append an abort decision per batch; return the end of those batches that may therefore not be aborted.

    Raises OrderRefused when that is all of them: nothing was done then.
    """
    by_batch: dict[BatchAttempt, list[tuple[Judged, Handle]]] = {}
    for judged, handle in zip(found, handles, strict=True):
        if judged.view.about is not None:
            by_batch.setdefault(judged.view.about, []).append((judged, handle))
    stopped: dict[BatchAttempt | None, End] = {}
    for about, members in by_batch.items():
        try:
            _decide_batch(reach, about, members[0][0], [handle for _, handle in members], who)
        except DecisionVoid as error:
            stopped[about] = (StepOutcome.REFUSED, f"{error}; nothing was aborted")
        except DecisionLogUnreadable as error:
            stopped[about] = (
                StepOutcome.UNKNOWN,
                f"{error}: the abort decision may stand in the log, nothing else was sent",
            )
    if stopped and all(one.view.about in stopped for one in found):
        refused = [detail for outcome, detail in stopped.values() if outcome is StepOutcome.REFUSED]
        if len(refused) == len(stopped):
            raise OrderRefused(refused[0])
    return stopped


def _decide_batch(reach: Reach, about: BatchAttempt, judged: Judged, handles: Sequence[Handle], who: str) -> None:
    """Append the abort decision unless the attempt was ruled on; DecisionVoid means that somebody was faster."""
    prefix = judged.view.named_prefix
    if prefix is None:
        raise DecisionVoid(f"{judged.view.transaction} is not an id of a pipeline of ours")
    if reach.log.read_to_end().first(about) is not None:
        return  # an abort that counts, or a commit that a newer run made void: no commit can count any more
    reach.log.decide(
        Decision(
            prefix=prefix,
            about=about,
            ruling=Ruling.ABORT,
            handles=tuple(handles),
            who=OPERATOR + who,
            at_ms=now_ms(),
        )
    )


def _plan_foreign(reach: Reach, found: Sequence[Judged]) -> Plan:
    _require_foreign(reach, found)
    targets: list[OpenTransactionView] = []
    views = [one.view for one in found]
    for view, target in zip(views, reach.actors.find_open(views), strict=True):
        if target is None:
            raise OrderRefused(f"transaction {view.key} is not open any more as it was seen: look again")
        targets.append(target)
    acts = tuple(
        Act(
            key=one.view.key,
            will=reach.actors.will(Action.ABORT, target),
            target={"kind": "fence"},
            checked="open now",
        )
        for one, target in zip(found, targets, strict=True)
    )

    def carry_out() -> list[End]:
        errors = reach.actors.fence(targets, reach.limit_s)
        return [(StepOutcome.UNKNOWN, error) if error else (StepOutcome.ABORTED, "") for error in errors]

    return Plan(acts=acts, carry_out=carry_out)


def _require_foreign(reach: Reach, found: Sequence[Judged]) -> None:
    """Raise OrderRefused when a transaction belongs to a pipeline that started a run since it was judged."""
    if not any(one.view.named_prefix for one in found) or reach.current.decision_log_sight[0] is LogSight.ABSENT:
        return
    prefixes = reach.log.read_to_end().prefixes()
    for one in found:
        if one.view.named_prefix in prefixes:
            raise OrderRefused(f"{one.view.transaction} belongs to the pipeline {one.view.named_prefix}: look again")
