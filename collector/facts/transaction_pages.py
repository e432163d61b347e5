"""The newest of many transactions that have ended: chosen by what is cheap to compare, and only the chosen ones are joined.

Call all of it under the state's lock.
"""

from __future__ import annotations

import bisect
import functools
import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from indoubt.collector.facts import attempts
from indoubt.collector.facts.state import State, of_handle
from indoubt.collector.facts.transaction_join import (
    application,
    at_coordinator,
    is_known_committed,
    is_quiet,
    our_id,
    parts_elsewhere,
    reported_of_branch,
    view_of,
)
from indoubt.collector.facts.transaction_view import NO_PRODUCER, TransactionView, opening_ms
from indoubt.collector.facts.transactions_of_batches import batch_attempt_of
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import (
    KAFKA,
    BrokerIdentity,
    BrokerTransaction,
    HandleIdentity,
    ReportedTransaction,
)
from indoubt.collector.records.observations import BranchProof
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.identity import transaction_key
from indoubt.lifecycle.states import TransactionState

EndKey = tuple[int, str, int, int]
"""When it ended (epoch ms), and what orders those of one time: id, producer id, opening."""
OpeningKey = tuple[int, int, str]
"""When it was opened (negative epoch ms: the newest first), and what orders those of one time: producer id, id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Some transactions, and how many ``more`` there are behind them."""

    views: tuple[TransactionView, ...]
    more: int


def end_sort_key(view: TransactionView) -> EndKey:
    """Return where a transaction stands among those that have ended; the newest has the greatest."""
    return (view.ended_ms or 0, *view.sort_key)


def opening_sort_key(view: TransactionView) -> OpeningKey:
    """Return where a settled transaction stands in a list; the newest has the least."""
    transaction, producer_id, _ = view.sort_key
    return (-(view.opened_ms or 0), producer_id, transaction)


def ended(
    state: State,
    wanted: Collection[TransactionState],
    *,
    most: int,
    before: EndKey | None = None,
    since_ms: int = 0,
    transaction: str | None = None,
    pipeline: str | None = None,
    also: Collection[BrokerIdentity] = (),
    also_branches: Collection[TransactionView] = (),
) -> Newest:
    """Return up to ``most`` transactions in one of these states, newest end first; ``before``: those behind that one.

    ``transaction``: of this id only; ``pipeline``: of this application only; ``also``, ``also_branches``: ended ones in
    another state that count too.
    """
    of_pipeline = _of_pipeline(state, pipeline)

    def fits(key: EndKey) -> bool:
        is_in_time = key[0] >= since_ms and (before is None or key < before)
        return is_in_time and transaction in (None, key[1])

    with_committed = TransactionState.COMMITTED in wanted
    if with_committed:
        final = [b for b in state.broker.values() if b.is_final]
    else:
        undone = (state.broker[identity] for identity in state.aborted)
        final = [b for b in undone if b.is_final and not b.is_committing]
    final += () if with_committed else (state.broker[identity] for identity in also)
    parts = [*parts_elsewhere(state, settled=with_committed)]
    committed = [(at_ms, part) for part, at_ms in parts if at_ms is not None] if with_committed else []
    final_ms = [b.ended_ms or 0 for b in final]
    is_ranked = transaction is None and pipeline is None
    ends = sorted(final_ms + [at_ms for at_ms, _ in committed]) if is_ranked else []
    # A key is made, and what no coordinator has is joined, for those near this page alone: there may be tens of thousands.
    at = (len(ends) if before is None else bisect.bisect_left(ends, before[0])) - most
    floor = ends[at] if at > 0 else since_ms
    older = max(0, bisect.bisect_left(ends, floor) - bisect.bisect_left(ends, since_ms))
    # What is not done with at its coordinator has ended where the decision log says so.
    others = [at_coordinator(state, identity) for identity in _with_an_outcome(state)]
    others += (view_of(state, part) for part, at_ms in parts if at_ms is None)
    others = [view for view in others if view.state in wanted]
    others += (view_of(state, part) for at_ms, part in committed if at_ms >= floor)
    others = [view for view in (*others, *also_branches) if pipeline in (None, view.pipeline)]
    found = [view for view in others if fits(end_sort_key(view))]
    keyed = (((at_ms, *b.identity), b.identity) for at_ms, b in zip(final_ms, final, strict=True) if at_ms >= floor)
    chosen = [(key, identity) for key, identity in keyed if fits(key) and of_pipeline(KAFKA, key[1])]
    newest = heapq.nlargest(most, chosen)
    found += [at_coordinator(state, identity) for _, identity in newest]
    total = older + len(chosen) + len(found) - len(newest)
    found.sort(key=end_sort_key, reverse=True)
    return Newest(views=tuple(found[:most]), more=max(0, total - most))


def _with_an_outcome(state: State) -> Iterator[BrokerIdentity]:
    """Yield those that are open at their coordinator, and of which an event or the decision log may say that they ended."""
    # Most open ones are of no pipeline of ours. Their ids alone tell that: a handle and its key take ten times as long.
    ids = {handle.transaction for handle in state.reported} | state.ledger.ids_with_outcome()
    for identity in state.open:
        if identity.transaction in ids:
            handle = state.broker[identity].handle_identity
            if handle in state.reported or state.ledger.outcome(transaction_key(KAFKA, *handle)) is not None:
                yield identity


def settled(
    state: State,
    *,
    most: int,
    after: OpeningKey | None,
    pipeline: str | None,
    resource_manager: str | None,
    fits: Callable[[TransactionView], bool] | None = None,
) -> Newest:
    """Return up to ``most`` transactions whose verdict is settled for sure, newest opening first; ``after``: behind that one.

    Those are what ``views`` leaves out without ``settled``. ``pipeline``, ``resource_manager``: of these only; ``fits``: those
    alone of which it says so, for which each is joined.
    """
    of_pipeline = _of_pipeline(state, pipeline)
    others = _unsettled(state)
    floor, older = _floor(state, others, most, after) if pipeline is None and fits is None else (None, 0)
    at_coordinators = resource_manager in (None, KAFKA)
    keyed = _settled_at_coordinators(state, others, floor) if at_coordinators else []
    keyed += (pair for pair in _settled_elsewhere(state) if resource_manager in (None, pair[1].resource_manager))
    behind = [
        pair
        for pair in keyed
        if (after is None or pair[0] > after) and of_pipeline(_resource_manager_of(pair[1]), pair[0][2])
    ]
    if fits is not None:
        behind = [pair for pair in behind if fits(view_of(state, pair[1]))]
    newest = heapq.nsmallest(most, behind, key=lambda pair: pair[0])
    total = len(behind) + (older if at_coordinators else 0)
    return Newest(views=tuple(view_of(state, known) for _, known in newest), more=total - len(newest))


Known = BrokerTransaction | ReportedTransaction | BranchFacts


def _unsettled(state: State) -> set[BrokerIdentity]:
    # Nearly all of them are settled, so those that are not are left out, instead of asking each whether it is.
    others = set(state.open)
    if state.reported:
        others.update(identity for identity in state.aborted if not is_quiet(state, state.broker[identity]))
    return others


def _floor(
    state: State, others: Collection[BrokerIdentity], most: int, after: OpeningKey | None
) -> tuple[int | None, int]:
    """Return an opening (epoch ms) from which on there are ``most`` settled ones, and how many are older than it.

    So that a page of tens of thousands makes a key for those near its own alone. None where all of them are needed.
    """
    starts = [identity.start_ms for identity in state.broker]
    starts.sort()
    first = len(starts) if after is None else bisect.bisect_left(starts, -after[0])
    at = first - most - len(others)
    if at <= 0:
        return None, 0
    floor = starts[at]
    older = bisect.bisect_left(starts, floor)
    return floor, older - sum(1 for identity in others if identity.start_ms < floor)


def _settled_at_coordinators(
    state: State, others: Collection[BrokerIdentity], floor: int | None
) -> list[tuple[OpeningKey, Known]]:
    return [
        ((-identity.start_ms, identity.producer_id, identity.transaction), broker)
        for identity, broker in state.broker.items()
        if (floor is None or identity.start_ms >= floor) and identity not in others
    ]


def _settled_elsewhere(state: State) -> Iterator[tuple[OpeningKey, ReportedTransaction | BranchFacts]]:
    for reported in state.reported.values():
        if of_handle(state, reported.identity) is None and is_known_committed(state, reported):
            opened_ms = opening_ms(reported, state.branches.get(reported.key)) or 0
            named = reported.identity
            yield (
                (-opened_ms, NO_PRODUCER if named.producer_id is None else named.producer_id, named.transaction),
                reported,
            )
    for branch in state.branches.values():
        if branch.proof is BranchProof.COMMITTED and reported_of_branch(state, branch) is None:
            yield (-(branch.since_ms or 0), NO_PRODUCER, branch.transaction), branch


def complete_attempts(state: State) -> dict[tuple[str, BatchAttempt], int]:
    """Return (pipeline, attempt) -> opening of its first transaction (epoch ms), of attempts that are committed for sure.

    Of those that are left out only a look at each of their transactions tells.
    """
    opened: dict[BatchAttempt, tuple[str, int]] = {}
    unsure: set[BatchAttempt] = set()
    for reported in state.reported.values():
        # What no decision lists is no part of a batch that is complete.
        batch_attempt = (
            batch_attempt_of(state, reported) if reported.listed is not None or reported.key in state.branches else None
        )
        if batch_attempt is None or batch_attempt in unsure:
            continue
        identity = of_handle(state, reported.identity)
        broker = state.broker[identity] if identity is not None else None
        if not (is_known_committed(state, reported) if broker is None else broker.is_final and broker.is_committing):
            unsure.add(batch_attempt)
            continue
        at_ms = (
            broker.identity.start_ms if broker is not None else opening_ms(reported, state.branches.get(reported.key))
        )
        pipeline, first_ms = opened.get(batch_attempt) or (
            _pipeline_of(state, _resource_manager_of(reported), reported.identity.transaction),
            at_ms or 0,
        )
        opened[batch_attempt] = (pipeline, min(first_ms, at_ms or first_ms))
    for branch in state.branches.values():
        name = BranchId.parse(branch.transaction)
        batch_attempt = attempts.of_branch(state.ledger, name) if name is not None else None
        if batch_attempt is not None and reported_of_branch(state, branch) is None:
            unsure.add(batch_attempt)
    prefixes = state.ledger.prefixes()
    return {
        (pipeline, batch_attempt): first_ms
        for batch_attempt, (pipeline, first_ms) in opened.items()
        if batch_attempt not in unsure and pipeline in prefixes
    }


def _of_pipeline(state: State, pipeline: str | None) -> Callable[[str, str], bool]:
    """Return what says of a resource manager and an id, or a name, in it whether it is of the application; None: any is."""
    return functools.cache(
        lambda resource_manager, id_: pipeline is None or _pipeline_of(state, resource_manager, id_) == pipeline
    )


def _pipeline_of(state: State, resource_manager: str, transaction: str) -> str:
    """Return what TransactionView.pipeline says of a transaction of this id or name."""
    named = HandleIdentity(transaction, NO_PRODUCER if resource_manager == KAFKA else None, None)
    return application(state, resource_manager, transaction, our_id(state, named)).name


def _resource_manager_of(known: Known) -> str:
    return KAFKA if isinstance(known, BrokerTransaction) else known.resource_manager
