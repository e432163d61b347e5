"""The newest of many transactions that have ended: chosen by what is cheap to compare, and only the chosen ones are joined.

Call all of it under the state's lock.
"""

from __future__ import annotations

import bisect
import functools
import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from collector import branch_view
from collector.branches import BranchFacts
from collector.facts import KAFKA, BrokerIdentity, BrokerTransaction, HandleIdentity, ToldTransaction
from collector.observations import BranchProof
from collector.state import State, of_handle
from collector.transaction_joins import at_coordinator, elsewhere, is_known_committed, is_quiet, view_of
from collector.transaction_view import TransactionView, told_opening_ms
from lifecycle.branch_id import BranchId
from lifecycle.decisions import BatchAttempt
from lifecycle.identity import TransactionalId
from lifecycle.states import TransactionState

EndPlace = tuple[int, str, int, int]
"""When it ended (epoch ms), and what orders those of one time: id, producer id, opening."""
OpeningPlace = tuple[int, int, str]
"""When it was opened (negative epoch ms: the newest first), and what orders those of one time: producer id, id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Some transactions, and how many ``more`` there are behind them."""

    views: tuple[TransactionView, ...]
    more: int


def end_place(view: TransactionView) -> EndPlace:
    """Return where a transaction stands among those that have ended; the newest has the greatest."""
    return (view.ended_ms or 0, *view.place)


def opening_place(view: TransactionView) -> OpeningPlace:
    """Return where a settled transaction stands in a list; the newest has the least."""
    transaction, producer_id, _ = view.place
    return (-(view.opened_ms or 0), producer_id, transaction)


def ended(
    state: State,
    wanted: Collection[TransactionState],
    *,
    most: int,
    before: EndPlace | None = None,
    since_ms: int = 0,
    transaction: str | None = None,
) -> Newest:
    """Return up to ``most`` transactions in one of these states, newest end first; ``before``: those behind that place.

    ``transaction``: of this id only.
    """

    def fits(place: EndPlace) -> bool:
        return place[0] >= since_ms and transaction in (None, place[1]) and (before is None or place < before)

    with_committed = TransactionState.COMMITTED in wanted
    # What is not done with, and what no coordinator has, is in memory by the hundreds: it is joined at once.
    others = [at_coordinator(state, identity) for identity in state.open]
    others += elsewhere(state, settled=with_committed)
    found = [view for view in others if view.state in wanted and fits(end_place(view))]
    done = (state.broker[identity] for identity in (state.broker if with_committed else state.aborted))
    final = [b for b in done if b.is_final and (with_committed or not b.is_committing)]
    ends = sorted(b.ended_ms or 0 for b in final) if transaction is None else []
    # A place is made for those near this page alone: there may be tens of thousands.
    at = (len(ends) if before is None else bisect.bisect_left(ends, before[0])) - most
    floor = ends[at] if at > 0 else since_ms
    older = max(0, bisect.bisect_left(ends, floor) - bisect.bisect_left(ends, since_ms))
    places = ((_end_of(b), b.identity) for b in final if (b.ended_ms or 0) >= floor)
    chosen = [(place, identity) for place, identity in places if fits(place)]
    newest = heapq.nlargest(most, chosen)
    found += [at_coordinator(state, identity) for _, identity in newest]
    total = older + len(chosen) + len(found) - len(newest)
    found.sort(key=end_place, reverse=True)
    return Newest(views=tuple(found[:most]), more=max(0, total - most))


def settled(
    state: State, *, most: int, after: OpeningPlace | None, pipeline: str | None, resource_manager: str | None
) -> Newest:
    """Return up to ``most`` transactions whose verdict is settled for sure, newest opening first; ``after``: behind that place.

    Those are what ``views`` leaves out without ``settled``. ``pipeline``, ``resource_manager``: of these only.
    """
    of_pipeline = functools.cache(lambda id_: pipeline is None or _pipeline_of(state, id_) == pipeline)
    others = _unsettled(state)
    floor, older = _floor(state, others, most, after) if pipeline is None else (None, 0)
    at_coordinators = resource_manager in (None, KAFKA)
    places = _settled_at_coordinators(state, others, floor) if at_coordinators else []
    places += (pair for pair in _settled_elsewhere(state) if resource_manager in (None, pair[1].resource_manager))
    behind = [pair for pair in places if (after is None or pair[0] > after) and of_pipeline(pair[0][2])]
    newest = heapq.nsmallest(most, behind, key=lambda pair: pair[0])
    total = len(behind) + (older if at_coordinators else 0)
    return Newest(views=tuple(view_of(state, one) for _, one in newest), more=total - len(newest))


Known = BrokerTransaction | ToldTransaction | BranchFacts


def _unsettled(state: State) -> set[BrokerIdentity]:
    # Nearly all of them are settled, so those that are not are left out, instead of asking each whether it is.
    others = set(state.open)
    if state.told:
        others.update(one for one in state.aborted if not is_quiet(state, state.broker[one]))
    return others


def _floor(
    state: State, others: Collection[BrokerIdentity], most: int, after: OpeningPlace | None
) -> tuple[int | None, int]:
    """Return an opening (epoch ms) from which on there are ``most`` settled ones, and how many are older than it.

    So that a page of tens of thousands makes a place for those near its own alone. None where all of them are needed.
    """
    starts = [identity.start_ms for identity in state.broker]
    starts.sort()
    first = len(starts) if after is None else bisect.bisect_left(starts, -after[0])
    at = first - most - len(others)
    if at <= 0:
        return None, 0
    floor = starts[at]
    older = bisect.bisect_left(starts, floor)
    return floor, older - sum(1 for one in others if one.start_ms < floor)


def _settled_at_coordinators(
    state: State, others: Collection[BrokerIdentity], floor: int | None
) -> list[tuple[OpeningPlace, Known]]:
    return [
        ((-identity.start_ms, identity.producer_id, identity.transaction), broker)
        for identity, broker in state.broker.items()
        if (floor is None or identity.start_ms >= floor) and identity not in others
    ]


def _settled_elsewhere(state: State) -> Iterator[tuple[OpeningPlace, ToldTransaction | BranchFacts]]:
    for told in state.told.values():
        if of_handle(state, told.identity) is None and is_known_committed(state, told):
            opened_ms = told_opening_ms(told, state.branches.get(told.key)) or 0
            named = told.identity
            yield (-opened_ms, -1 if named.producer_id is None else named.producer_id, named.transaction), told
    for branch in state.branches.values():
        if branch.proof is BranchProof.COMMITTED and HandleIdentity(branch.transaction, None, None) not in state.told:
            yield (-(branch.since_ms or 0), -1, branch.transaction), branch


def complete_attempts(state: State) -> dict[tuple[str, BatchAttempt], int]:
    """Return (pipeline, attempt) -> opening of its first transaction (epoch ms), of attempts that are committed for sure.

    Of those that are left out only a look at each of their transactions tells.
    """
    opened: dict[BatchAttempt, tuple[str, int]] = {}
    unsure: set[BatchAttempt] = set()
    for told in state.told.values():
        if told.about is None or told.about in unsure:
            continue
        identity = of_handle(state, told.identity)
        broker = state.broker[identity] if identity is not None else None
        if not (is_known_committed(state, told) if broker is None else broker.is_final and broker.is_committing):
            unsure.add(told.about)
            continue
        at_ms = broker.identity.start_ms if broker is not None else told_opening_ms(told, state.branches.get(told.key))
        pipeline, first_ms = opened.get(told.about) or (_pipeline_of(state, told.identity.transaction), at_ms or 0)
        opened[told.about] = (pipeline, min(first_ms, at_ms or first_ms))
    for branch in state.branches.values():
        about = branch_view.about(state, BranchId.parse(branch.transaction))
        if about is not None and HandleIdentity(branch.transaction, None, None) not in state.told:
            unsure.add(about)
    prefixes = state.ledger.prefixes()
    return {
        (pipeline, about): first_ms
        for about, (pipeline, first_ms) in opened.items()
        if about not in unsure and pipeline in prefixes
    }


def _pipeline_of(state: State, transaction: str) -> str:
    """Return what TransactionView.pipeline says of a transaction of this id or name."""
    parsed = TransactionalId.parse(transaction) or BranchId.parse(transaction)
    return parsed.prefix if parsed is not None and parsed.prefix in state.ledger.prefixes() else transaction


def _end_of(broker: BrokerTransaction) -> EndPlace:
    return (broker.ended_ms or 0, *broker.identity)
