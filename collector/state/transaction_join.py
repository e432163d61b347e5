"""Joins what is known of each transaction: the coordinator's view, what was told, decision and outcome, by their identities.

Call all of it under the state's lock. Thousands of transactions that ended stay in memory, and joining each takes a while: what
is not asked for is not joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from collector import branch_view
from collector.branch_view import TOLD_ENDS
from collector.branches import BranchFacts
from collector.facts import BrokerIdentity, BrokerTransaction, HandleIdentity, ToldTransaction
from collector.observations import BranchProof, OperatorOrder
from collector.state import State, of_handle
from collector.transaction_view import TransactionView
from lifecycle.branch_id import BranchId
from lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, Settled
from lifecycle.events import EventType
from lifecycle.identity import TransactionalId
from lifecycle.states import TransactionState

_KEY_PATTERN = re.compile(
    r"[^:]*:(?P<id>.*):(?P<producer_id>[0-9]{1,19}):(?P<epoch>-?[0-9]{1,19})(?:@(?P<start>[0-9]{1,19}))?", re.DOTALL
)


def views(state: State, *, settled: bool) -> Iterator[TransactionView]:
    """Yield in no order every transaction whose verdict may be another than settled, and with ``settled`` all in memory."""
    for identity in state.broker if settled else state.open:
        yield at_coordinator(state, identity)
    # Without anything told nothing was decided, and what was undone is settled.
    if not settled and state.told:
        for identity in state.aborted:
            if identity not in state.open and not is_quiet(state, state.broker[identity]):
                yield at_coordinator(state, identity)
    yield from elsewhere(state, settled=settled)


def elsewhere(state: State, *, settled: bool) -> Iterator[TransactionView]:
    """Yield the transactions that no coordinator was seen to have; without ``settled`` not those that are known to be committed."""
    for handle, told in state.told.items():
        if of_handle(state, handle) is None and (settled or not is_known_committed(state, told)):
            yield _view(state, handle, None, told)
    for branch in state.branches.values():
        named = HandleIdentity(branch.transaction, None, None)
        if named not in state.told and (settled or branch.proof is not BranchProof.COMMITTED):
            yield view_of(state, branch)


def at_coordinator(state: State, identity: BrokerIdentity) -> TransactionView:
    """Return a transaction that its coordinator has, or had."""
    broker = state.broker[identity]
    return _view(state, broker.handle_identity, broker, _told_of(state, broker))


def is_quiet(state: State, broker: BrokerTransaction) -> bool:
    """Say whether its coordinator is done with it as was decided, or as nobody decided: its verdict is settled, by rule 1."""
    if not broker.is_final or broker.is_committing:
        return broker.is_final
    told = _told_of(state, broker)
    return told is None or state.ledger.listing(told.key) is None


def is_known_committed(state: State, told: ToldTransaction) -> bool:
    """Say whether it is known that a transaction was committed that no coordinator was seen to have."""
    outcome, branch = state.ledger.outcome(told.key), state.branches.get(told.key)
    if branch is not None and branch.is_listed:
        return False
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return True
    return EventType.TRANSACTION_COMMITTED in told.told or (
        outcome is not None and outcome.settled is Settled.COMMITTED
    )


def view_of(state: State, one: BrokerTransaction | ToldTransaction | BranchFacts) -> TransactionView:
    """Return the transaction that a part of the state is about."""
    match one:
        case BrokerTransaction():
            return at_coordinator(state, one.identity)
        case ToldTransaction():
            identity = of_handle(state, one.identity)
            return _view(state, one.identity, state.broker[identity] if identity is not None else None, one)
        case BranchFacts():
            return _view(state, HandleIdentity(one.transaction, None, None), None, None, one)


def of_batches(state: State, chosen: Callable[[BatchAttempt], bool]) -> Iterator[TransactionView]:
    """Yield in no order every transaction whose batch is known and ``chosen``."""
    for told in state.told.values():
        if (told.about is not None and chosen(told.about)) or (told.about is None and told.key in state.branches):
            view = view_of(state, told)
            if view.about is not None and chosen(view.about):
                yield view
    for branch in state.branches.values():
        if HandleIdentity(branch.transaction, None, None) not in state.told:
            view = view_of(state, branch)
            if view.about is not None and chosen(view.about):
                yield view


def counted_by_batch(told: Iterable[ToldTransaction]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (pipeline, batch) -> (transactions, rows) of each batch's newest attempt."""
    newest: dict[tuple[str, int], tuple[int, int, int]] = {}
    for one in told:
        if one.about is None:
            continue
        key, rows = (one.pipeline, one.about.batch), one.handle.rows if one.handle is not None else 0
        attempt, count, total = newest.get(key, (one.about.attempt, 0, 0))
        if one.about.attempt > attempt:
            attempt, count, total = one.about.attempt, 0, 0
        if one.about.attempt == attempt:
            newest[key] = (attempt, count + 1, total + rows)
    return {key: (count, rows) for key, (_, count, rows) in newest.items()}


def shared_batches(state: State) -> set[tuple[str, int]]:
    """Return (life, batch) of every batch that several resource managers hold."""
    managers: dict[tuple[str, int], str] = {}
    shared: set[tuple[str, int]] = set()
    for told in state.told.values():
        if told.about is not None:
            batch = (told.about.life, told.about.batch)
            if managers.setdefault(batch, told.resource_manager) != told.resource_manager:
                shared.add(batch)
    return shared


def _told_of(state: State, broker: BrokerTransaction) -> ToldTransaction | None:
    told = state.told.get(broker.handle_identity)
    # An id whose epoch stays (transaction version 0 and 1) has several transactions under one handle: the newest is meant.
    return told if told is not None and of_handle(state, told.identity) == broker.identity else None


def replayed_ms(state: State, view: TransactionView) -> int | None:
    """Return when a transaction's batch was completed after it had ended, or None."""
    if view.about is None or view.ended_ms is None:
        return None
    checkpoint = state.checkpoints.get((view.pipeline, view.about.batch))
    if checkpoint is not None and checkpoint.completed_ms is not None and checkpoint.completed_ms > view.ended_ms:
        return checkpoint.completed_ms
    decided = state.last_decided.get(view.about.life)
    return decided[1] if decided is not None and decided[0] > view.about.batch else None


def find(state: State, key: str) -> TransactionView | None:
    """Return the transaction of that key, or None. A key without a start time finds it once the start is known too."""
    listed = state.branches.get(key)
    if listed is not None:
        in_list = HandleIdentity(listed.transaction, None, None)
        return _view(state, in_list, None, state.told.get(in_list), listed)
    branch = key.partition(":")[2]
    if BranchId.parse(branch) is not None:
        named = HandleIdentity(branch, None, None)
        told = state.told.get(named)
        return _view(state, named, None, told) if told is not None and told.key == key else None
    parts = _KEY_PATTERN.fullmatch(key)
    if parts is None:
        return None
    id_, producer_id, start = parts["id"], int(parts["producer_id"]), parts["start"]
    identity = HandleIdentity(id_, producer_id, int(parts["epoch"]))
    found = of_handle(state, identity)
    if start and (found is None or found.start_ms != int(start)):
        older = state.broker.get(BrokerIdentity(id_, producer_id, int(start)))
        same = older is not None and older.handle_identity == identity
        return _view(state, identity, older, None) if same else None
    if found is None and identity not in state.told:
        return None
    return _view(state, identity, state.broker[found] if found else None, state.told.get(identity))


def _view(
    state: State,
    identity: HandleIdentity,
    broker: BrokerTransaction | None,
    told: ToldTransaction | None,
    branch: BranchFacts | None = None,
) -> TransactionView:
    if branch is None and told is not None:
        branch = state.branches.get(told.key)
    branch_id = BranchId.parse(identity.transaction) if branch is not None else None
    parsed = TransactionalId.parse(identity.transaction) if branch is None else branch_id
    prefix = parsed.prefix if parsed is not None else told.pipeline if told is not None else ""
    ours = prefix in state.ledger.prefixes()
    key = told.key if told is not None else branch.key if branch is not None else ""
    look = state.looks.get(branch.place) if branch is not None and branch.is_listed else None
    looked_ms = look.at_ms if look is not None else None
    listing = state.ledger.listing(key) if key else None
    outcome = state.ledger.outcome(key) if key else None
    first = state.ledger.first(told.about) if told is not None and told.about is not None else None
    latest = state.latest_of_id.get(identity.transaction)
    overtaken = _overtaken(identity, broker, latest, state)
    return TransactionView(
        transaction=identity.transaction,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        pipeline=prefix if ours else identity.transaction,
        ours=ours,
        slot=told.slot if told is not None and told.slot is not None else parsed.slot if parsed and ours else None,
        state=_transaction_state(broker, told, listing, outcome, branch, looked_ms, state.orders.get(key)),
        broker=broker,
        told=told,
        first_decision=first,
        listing=listing,
        outcome=outcome,
        overtaken=overtaken,
        branch=branch,
        branch_detail=look.details.get(key) if look is not None else None,
        looked_ms=looked_ms,
        branch_about=branch_view.about(state, branch_id),
    )


def _overtaken(
    identity: HandleIdentity, broker: BrokerTransaction | None, latest: BrokerIdentity | None, state: State
) -> bool:
    if latest is None:
        return False
    if broker is not None:
        return not broker.is_final and latest != broker.identity
    if identity.producer_id is None or identity.producer_epoch is None:
        return False
    newest = state.inits.get(identity.transaction, ())
    known = [(i.producer_id, i.producer_epoch) for i in newest]
    current = state.broker.get(latest)
    if current is not None and current.handle_identity.producer_epoch is not None:
        known.append((latest.producer_id, current.handle_identity.producer_epoch))
    return any(seen > (identity.producer_id, identity.producer_epoch) for seen in known)


def _transaction_state(
    broker: BrokerTransaction | None,
    told: ToldTransaction | None,
    listing: tuple[int, Decision] | None,
    outcome: Outcome | None,
    branch: BranchFacts | None,
    looked_ms: int | None,
    order: OperatorOrder | None,
) -> TransactionState:
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return TransactionState.COMMITTED
    if broker is not None and broker.is_committing:
        return TransactionState.COMMITTED if broker.is_final else TransactionState.COMMITTING
    if broker is not None and broker.is_aborting:
        if not broker.is_final:
            return TransactionState.ABORTING
        return TransactionState.LOST if listing is not None else TransactionState.ABORTED
    if outcome is not None and not branch_view.outlived(branch, looked_ms, outcome.at_ms):
        return TransactionState.COMMITTED if outcome.settled is Settled.COMMITTED else TransactionState.LOST
    if broker is None and told is not None:
        for type_, state in TOLD_ENDS:
            if type_ in told.told and not branch_view.outlived(branch, looked_ms, told.told[type_]):
                return state
    is_decided = listing is not None and listing[1].ruling is Ruling.COMMIT
    ended = branch_view.end(branch, order, is_decided=is_decided) if branch is not None else None
    if ended is not None:
        return ended
    if is_decided:
        return TransactionState.DECIDED
    if branch is not None:
        return TransactionState.PREPARED
    prepared = told is not None and (told.handle is not None or EventType.TRANSACTION_PREPARED in told.told)
    return TransactionState.PREPARED if prepared else TransactionState.OPEN
