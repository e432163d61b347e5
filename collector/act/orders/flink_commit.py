"""Commit of a Flink job's transaction: only what a checkpoint's ``_metadata`` lists when it is read again, by exactly its epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indoubt.collector.act.orders.evidence import open_now, refusal, results_of
from indoubt.collector.act.orders.plan import ActionResult, OrderContext, Plan, PlannedAction
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.flink_records import FlinkCommittables, Listed
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.flink_evidence import listed_as
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import OrderRefused, ResourceManagerError
from indoubt.lifecycle.orders import Action

KIND = "commit of others"
"""What a later probe of such an act is known by."""


def plan_flink_commit(context: OrderContext, found: Sequence[Judged], confirm: str | None) -> Plan:
    """Return the plan that commits these transactions of Flink jobs; ``confirm``: what was typed, None for a dry run.

    Raises OrderRefused when one of them may not be committed, is not listed any more or not open as it was seen, or when
    the confirmation is missing; ResourceManagerError.
    """
    for judged in found:
        _require_may_commit(judged)
    wanted = commit_confirmation(found)
    if confirm is not None and wanted and confirm != wanted:
        raise OrderRefused(
            f"a commit is right only if the job is then restored from checkpoint {wanted} or from a later one: see the evidence. "
            f"Repeat {wanted!r} in 'confirm'"
        )
    listings = [listed_now(context.current, judged.view) for judged in found]
    targets = open_now(context, found, epoch_counts=True)
    actions = tuple(
        PlannedAction(
            key=judged.view.key,
            description=context.participants.description(Action.COMMIT, target),
            target={
                "kind": KIND,
                "checkpoint": listing.path,
                "confirmation": judged.judgement.commit_confirmation,
            },
            checked=f"open now, listed by {listing.path}",
        )
        for judged, target, listing in zip(found, targets, listings, strict=True)
    )

    def execute() -> list[ActionResult]:
        for judged in found:
            again = context.current.transactions.find(judged.view.key)
            if again is None or again.view.revision != judged.view.revision:
                raise OrderRefused(f"transaction {judged.view.key} changed in this moment: look again")
            _require_may_commit(again)
            if again.judgement.commit_confirmation not in ("", judged.judgement.commit_confirmation):
                raise OrderRefused(f"what a commit of transaction {judged.view.key} rests on changed: look again")
        return results_of(context.participants.commit_open(targets, context.limit_s), StepOutcome.COMMITTED)

    return Plan(actions=actions, execute=execute)


def commit_confirmation(found: Sequence[Judged]) -> str:
    """Return what must be typed to commit these: the checkpoint that the job must then be restored from; empty: nothing.

    Raises OrderRefused when they name several checkpoints.
    """
    names = sorted({judged.judgement.commit_confirmation for judged in found} - {""})
    if len(names) > 1:
        raise OrderRefused(
            f"these transactions are listed by {', '.join(names)}: commit those of each in an order of its own"
        )
    return names[0] if names else ""


def _require_may_commit(judged: Judged) -> None:
    if not judged.judgement.may_commit:
        raise refusal(judged, "committed")


def listed_now(current: CurrentState, view: TransactionView) -> FlinkCommittables:
    """Return a checkpoint on which the verdict rests and that lists the transaction at this moment, as it did when it was read.

    Raises OrderRefused.
    """
    # Imported here: its filesystems are loaded only where there is a Flink.
    from indoubt.collector.observe.flink_metadata_files import read_again

    committable = listed_as(view)
    if committable is None:
        raise OrderRefused(f"transaction {view.key}: its producer is not known")
    why = "no checkpoint lists it any more"
    for listing in current.flink.rests_on(view):
        try:
            now = read_again(listing)
        except ResourceManagerError as error:
            why = str(error)
            continue
        if now is not None and replace(
            now, cluster=listing.cluster, job=listing.job, read_ms=listing.read_ms
        ) == replace(listing, is_gone=False):
            return now
        why = (
            f"{listing.path} is gone"
            if now is None
            else f"{listing.path} is not as it was when it was read: look again"
        )
        if now is not None:
            break
    unread = current.flink.unread_list(view)
    if unread is not None:
        return still_out_of_reach(unread, committable, view.key)
    raise OrderRefused(f"transaction {view.key} may not be committed: {why}")


def still_out_of_reach(unread: FlinkCommittables, committable: Listed, key: str) -> FlinkCommittables:
    """Return the checkpoint whose list was out of reach and is so still, or lists the transaction by now. Raises OrderRefused."""
    from indoubt.collector.observe.flink_metadata_files import read_again

    try:
        now = read_again(unread)
    except ResourceManagerError:
        return unread
    if now is not None and committable in now.committables:
        return now
    why = f"is damaged ({now.error})" if now is not None and now.error else "does not list it, or is gone"
    raise OrderRefused(f"transaction {key} may not be committed: {unread.path} can be read now, and {why}")
