"""Joins what is known of each transaction: the coordinator's view, what was reported, decision and outcome, by their identities.

Call all of it under the state's lock. Thousands of transactions that ended stay in memory, and joining each takes a while: what
is not asked for is not joined.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from indoubt.collector.facts import applications, attempts, branch_view
from indoubt.collector.facts.attempts import OurId
from indoubt.collector.facts.replayed_batches import replayed_ms
from indoubt.collector.facts.state import State, of_handle
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import (
    KAFKA,
    BrokerIdentity,
    BrokerTransaction,
    HandleIdentity,
    ReportedTransaction,
)
from indoubt.collector.records.formats.flink_records import Committable
from indoubt.collector.records.observations import BranchProof, OperatorOrder
from indoubt.collector.records.xids import as_listed, xid_of
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import TransactionalId, transaction_key
from indoubt.lifecycle.states import TransactionState

PARSED_KEPT = 4_096
_UNDONE = (TransactionState.ABORTED, TransactionState.ABORTING)
_KEY_PATTERN = re.compile(
    r"[^:]*:(?P<id>.*):(?P<producer_id>[0-9]{1,19}):(?P<epoch>-?[0-9]{1,19})(?:@(?P<start>[0-9]{1,19}))?", re.DOTALL
)


def views(state: State, *, settled: bool) -> Iterator[TransactionView]:
    """Yield in no order every transaction whose verdict may be another than settled, and with ``settled`` all in memory."""
    for identity in state.broker if settled else state.open:
        yield at_coordinator(state, identity)
    yield from elsewhere(state, settled=True) if settled else not_open(state)


def not_open(state: State) -> Iterator[TransactionView]:
    """Yield in no order those of them that are not open at a coordinator, as far as their verdict may be another than settled."""
    # Without anything reported nothing was decided, and what was undone is settled.
    for identity in state.aborted if state.reported else ():
        if identity not in state.open and not is_quiet(state, state.broker[identity]):
            yield at_coordinator(state, identity)
    yield from elsewhere(state, settled=False)


def elsewhere(state: State, *, settled: bool) -> Iterator[TransactionView]:
    """Yield the transactions that no coordinator was seen to have; without ``settled`` not those that are known to be committed.

    What only events report is among them where its id is one of ours; of others nothing is known.
    """
    for part, _ in parts_elsewhere(state, settled=settled):
        yield view_of(state, part)


def parts_elsewhere(state: State, *, settled: bool) -> Iterator[tuple[ReportedTransaction | BranchFacts, int | None]]:
    """Yield what is known of each of them, and the ``ended_ms`` of its view where it is known to be committed (0: no time is)."""
    for handle, reported in state.reported.items():
        # There are thousands, and nearly all are known to be committed: whose they are is asked of the rest.
        committed_ms = _committed_ms(state, reported.key)
        is_wanted = (settled or committed_ms is None) and of_handle(state, handle) is None
        if is_wanted and _is_evident(state, reported):
            yield reported, committed_ms
    for branch in state.branches.values():
        if reported_of_branch(state, branch) is None:
            committed_ms = _committed_ms(state, branch.key) if branch.proof is BranchProof.COMMITTED else None
            if settled or committed_ms is None:
                yield branch, committed_ms


def _is_evident(state: State, reported: ReportedTransaction) -> bool:
    """Say whether more than the claim of an event speaks for a transaction: its id is ours, or a decision or database lists it."""
    if our_id(state, reported.identity) is not None:
        return True
    key = reported.key
    return state.ledger.listing(key) is not None or key in state.branches


def reported_of_branch(state: State, branch: BranchFacts) -> ReportedTransaction | None:
    """Return what is reported of a branch; an event that names another resource manager is about another branch."""
    reported = state.reported.get(HandleIdentity(branch.transaction, None, None))
    return reported if reported is not None and reported.key == branch.key else None


def at_coordinator(state: State, identity: BrokerIdentity) -> TransactionView:
    """Return a transaction that its coordinator has, or had."""
    broker = state.broker[identity]
    return _view(state, broker.handle_identity, broker, _reported_of(state, broker))


def is_quiet(state: State, broker: BrokerTransaction) -> bool:
    """Say whether its coordinator is done with it as was decided, or without a decision: its verdict is settled, by rule 1."""
    if not broker.is_final or broker.is_committing:
        return broker.is_final
    reported = _reported_of(state, broker)
    return reported is None or state.ledger.listing(reported.key) is None


def is_known_committed(state: State, reported: ReportedTransaction) -> bool:
    """Say whether it is known that a transaction was committed that no coordinator was seen to have."""
    return _committed_ms(state, reported.key) is not None


def _committed_ms(state: State, key: str) -> int | None:
    """Return when a transaction or branch that no coordinator has was committed (0: no time is known); None: that is not known."""
    outcome, branch = state.ledger.outcome(key), state.branches.get(key)
    if branch is not None and branch.is_listed:
        return None
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return (outcome.at_ms if outcome is not None else branch.gone_ms) or 0
    return outcome.at_ms if outcome is not None and outcome.settled is Settled.COMMITTED else None


def view_of(state: State, part: BrokerTransaction | ReportedTransaction | BranchFacts) -> TransactionView:
    """Return the transaction that a part of the state is about."""
    match part:
        case BrokerTransaction():
            return at_coordinator(state, part.identity)
        case ReportedTransaction():
            identity = of_handle(state, part.identity)
            return _view(state, part.identity, state.broker[identity] if identity is not None else None, part)
        case BranchFacts():
            return _view(
                state, HandleIdentity(part.transaction, None, None), None, reported_of_branch(state, part), part
            )


def of_batches(state: State, chosen: Callable[[BatchAttempt], bool]) -> Iterator[TransactionView]:
    """Yield in no order every transaction whose batch is known and ``chosen``."""
    for reported in state.reported.values():
        batch_attempt = batch_attempt_of(state, reported)
        if batch_attempt is not None and chosen(batch_attempt) and _is_evident(state, reported):
            view = view_of(state, reported)
            if view.batch_attempt is not None and chosen(view.batch_attempt):
                yield view
    for branch in state.branches.values():
        if reported_of_branch(state, branch) is None:
            view = view_of(state, branch)
            if view.batch_attempt is not None and chosen(view.batch_attempt):
                yield view


def batch_attempt_of(state: State, reported: ReportedTransaction) -> BatchAttempt | None:
    """Return its batch and attempt: as a decision or its branch's name has them, else as events claim."""
    id_ = _parsed(reported.identity) if reported.listed is None else None
    return attempts.of_branch(state.ledger, id_) if isinstance(id_, BranchId) else reported.batch_attempt


def counted_by_batch(reported: Iterable[ReportedTransaction]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (pipeline, batch) -> (transactions, rows) of each batch's newest attempt, as decisions and events have it."""
    newest: dict[tuple[str, int], tuple[int, int, int]] = {}
    for each in reported:
        id_ = _parsed(each.identity)
        if each.batch_attempt is None or id_ is None:
            continue
        key, rows = (id_.prefix, each.batch_attempt.batch), each.handle.rows if each.handle is not None else 0
        attempt, count, total = newest.get(key, (each.batch_attempt.attempt, 0, 0))
        if each.batch_attempt.attempt > attempt:
            attempt, count, total = each.batch_attempt.attempt, 0, 0
        if each.batch_attempt.attempt == attempt:
            newest[key] = (attempt, count + 1, total + rows)
    return {key: (count, rows) for key, (_, count, rows) in newest.items()}


def shared_batches(state: State) -> set[tuple[str, int]]:
    """Return (checkpoint id, batch) of every batch that several resource managers hold."""
    managers: dict[tuple[str, int], str] = {}
    shared: set[tuple[str, int]] = set()
    for reported in state.reported.values():
        if (batch_attempt := batch_attempt_of(state, reported)) is not None:
            batch = (batch_attempt.checkpoint_id, batch_attempt.batch)
            if managers.setdefault(batch, reported.resource_manager) != reported.resource_manager:
                shared.add(batch)
    return shared


def _reported_of(state: State, broker: BrokerTransaction) -> ReportedTransaction | None:
    reported = state.reported.get(broker.handle_identity)
    # An id whose epoch stays (transaction version 0 and 1) has several transactions under one handle: the newest is meant.
    return reported if reported is not None and of_handle(state, reported.identity) == broker.identity else None


def named_by(key: str) -> tuple[HandleIdentity, int | None] | None:
    """Return the handle that a key of a transaction in Kafka names, and its start (epoch ms) where the key has it; else None."""
    parts = _KEY_PATTERN.fullmatch(key)
    if parts is None:
        return None
    handle = HandleIdentity(parts["id"], int(parts["producer_id"]), int(parts["epoch"]))
    return handle, int(parts["start"]) if parts["start"] else None


def branch_names(key: str) -> tuple[str, ...]:
    """Return the names that a branch of this key may have in its database: with and without the instance behind it."""
    name = key.partition(":")[2]
    return (name, name.rpartition("@")[0])


def find(state: State, key: str) -> TransactionView | None:
    """Return the transaction of that key, or None. A key without a start time finds it once the start is known too."""
    listed = state.branches.get(key)
    if listed is not None:
        return view_of(state, listed)
    branch = key.partition(":")[2]
    if BranchId.parse(branch) is not None:
        named = HandleIdentity(branch, None, None)
        reported = state.reported.get(named)
        is_known = reported is not None and reported.key == key and _is_evident(state, reported)
        return _view(state, named, None, reported) if is_known else None
    handle_and_start = named_by(key)
    if handle_and_start is None:
        return None
    identity, start_ms = handle_and_start
    found = of_handle(state, identity)
    if start_ms is not None and (found is None or found.start_ms != start_ms):
        older = state.broker.get(BrokerIdentity(identity.transaction, identity.producer_id or 0, start_ms))
        same = older is not None and older.handle_identity == identity
        return _view(state, identity, older, None) if same else None
    reported = state.reported.get(identity)
    if found is None and (reported is None or not _is_evident(state, reported)):
        return None
    return _view(state, identity, state.broker[found] if found else None, reported)


def _view(
    state: State,
    identity: HandleIdentity,
    broker: BrokerTransaction | None,
    reported: ReportedTransaction | None,
    branch: BranchFacts | None = None,
) -> TransactionView:
    if branch is None and reported is not None:
        branch = state.branches.get(reported.key)
    own_id = our_id(state, identity)
    key = (
        branch.key
        if branch is not None
        else reported.key
        if reported is not None
        else transaction_key(KAFKA, *identity)
    )
    snapshot = state.database_snapshots.get(branch.instance) if branch is not None and branch.is_listed else None
    not_asked = snapshot.why_not_asked(branch) if snapshot is not None and branch is not None else ""
    is_asked = snapshot is not None and (bool(snapshot.error) or not not_asked)
    polled_ms = snapshot.at_ms if snapshot is not None and is_asked else None
    listing, outcome = state.ledger.listing(key), state.ledger.outcome(key)
    proven = _proven_batch_attempt(state, own_id, reported, listing)
    superseded = _superseded(identity, broker, state.latest_of_id.get(identity.transaction), state)
    # Only its coordinator reports a transaction that is not ours.
    reported = reported if own_id is not None or listing is not None else None
    view = TransactionView(
        transaction=identity.transaction,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        application=application(state, _resource_manager(identity, branch, reported), identity.transaction, own_id),
        managed=own_id is not None,
        slot=own_id.slot if own_id is not None else None,
        state=_transaction_state(
            broker, reported, listing, outcome, branch, polled_ms, state.orders.get(key), superseded=superseded
        ),
        broker=broker,
        reported=reported,
        first_decision=state.ledger.first(proven) if proven is not None else None,
        listing=listing,
        outcome=outcome,
        superseded=superseded,
        branch=branch,
        branch_detail=snapshot.details.get(key) if snapshot is not None else None,
        polled_ms=polled_ms,
        not_asked=not_asked,
        proven_batch_attempt=proven,
        reported_batch_attempt=_reported_batch_attempt(state, own_id, reported),
        log_end=state.log_end_of.get(broker.identity) if broker is not None else None,
        flink_checkpoint=_flink_checkpoint(state, broker, branch) if own_id is None else None,
    )
    is_lost = view.state is TransactionState.LOST or (view.state in _UNDONE and listing is not None)
    return _written_again(state, view) if is_lost else view


def _written_again(state: State, view: TransactionView) -> TransactionView:
    """Return a transaction that was decided and undone with when its batch was completed since, where it was."""
    at_ms = replayed_ms(state, view)
    if at_ms is None:
        return view
    is_lost = view.state is TransactionState.LOST
    return replace(view, state=TransactionState.WRITTEN_AGAIN if is_lost else view.state, written_again_ms=at_ms)


def _flink_checkpoint(state: State, broker: BrokerTransaction | None, branch: BranchFacts | None) -> int | None:
    if broker is not None and broker.handle_epoch is not None:
        transaction, producer_id, start_ms = broker.identity
        return state.flink.checkpoint_of(Committable(transaction, producer_id, broker.handle_epoch), start_ms)
    if branch is None or (xid := xid_of(branch.resource_manager, branch.transaction)) is None:
        return None
    return state.flink.checkpoint_of(as_listed(xid), branch.since_ms or 0)


def of_checkpoint(state: State, number: int) -> Iterator[TransactionView]:
    """Yield in no order every transaction in memory that a checkpoint of this number holds: a pipeline's batch, or Flink's."""
    yield from of_batches(state, lambda batch_attempt: batch_attempt.batch == number)
    listed = state.flink.listed_in(number)
    if not listed:
        return
    for broker in state.broker.values():
        transaction, producer_id, _ = broker.identity
        if broker.handle_epoch is not None and Committable(transaction, producer_id, broker.handle_epoch) in listed:
            yield at_coordinator(state, broker.identity)
    for branch in state.branches.values():
        xid = xid_of(branch.resource_manager, branch.transaction)
        if xid is not None and as_listed(xid) in listed:
            yield view_of(state, branch)


def application(state: State, resource_manager: str, transaction: str, our_id: OurId | None) -> Application:
    """Return the application of a transactional id, or of a branch's name. ``our_id``: parsed, where it is ours."""
    own = state.ledger.prefixes()
    if resource_manager == KAFKA:
        return applications.application_of(transaction, our_id, state.flink, own)
    return applications.application_of_branch(resource_manager, transaction, our_id, state.flink, own)


def _resource_manager(
    identity: HandleIdentity, branch: BranchFacts | None, reported: ReportedTransaction | None
) -> str:
    if identity.producer_id is not None:
        return KAFKA
    # What is neither listed by a database nor reported is known by a name of ours alone.
    return branch.resource_manager if branch is not None else reported.resource_manager if reported is not None else ""


# A slot has two ids, which are asked for again and again.
_parsed_id = functools.lru_cache(maxsize=PARSED_KEPT)(TransactionalId.parse)


def _parsed(identity: HandleIdentity) -> OurId | None:
    """Return the name parsed whole, or None for one that a pipeline of ours never has."""
    return BranchId.parse(identity.transaction) if identity.producer_id is None else _parsed_id(identity.transaction)


def our_id(state: State, identity: HandleIdentity) -> OurId | None:
    """Return the name of a transaction of ours: parsed whole, under a prefix that ran. What an event claims does not count."""
    parsed = _parsed(identity)
    return parsed if parsed is not None and parsed.prefix in state.ledger.prefixes() else None


def _proven_batch_attempt(
    state: State, our_id: OurId | None, reported: ReportedTransaction | None, listing: tuple[int, Decision] | None
) -> BatchAttempt | None:
    if listing is not None:
        return listing[1].batch_attempt
    if isinstance(our_id, BranchId):
        return attempts.of_branch(state.ledger, our_id)
    return reported.listed.batch_attempt if reported is not None and reported.listed is not None else None


def _reported_batch_attempt(
    state: State, our_id: OurId | None, reported: ReportedTransaction | None
) -> BatchAttempt | None:
    claimed = reported.reported_batch_attempt if reported is not None else None
    if claimed is None or our_id is None or not attempts.fits(state.ledger, our_id, claimed):
        return None
    return claimed


def _superseded(
    identity: HandleIdentity, broker: BrokerTransaction | None, latest: BrokerIdentity | None, state: State
) -> bool:
    if broker is not None and broker.gone_ms is not None:
        return not broker.is_final
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
    reported: ReportedTransaction | None,
    listing: tuple[int, Decision] | None,
    outcome: Outcome | None,
    branch: BranchFacts | None,
    polled_ms: int | None,
    order: OperatorOrder | None,
    *,
    superseded: bool,
) -> TransactionState:
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return TransactionState.COMMITTED
    if broker is not None and broker.is_committing:
        return TransactionState.COMMITTED if broker.is_final else TransactionState.COMMITTING
    if broker is not None and broker.is_aborting:
        if not broker.is_final:
            return TransactionState.ABORTING
        return TransactionState.LOST if listing is not None else TransactionState.ABORTED
    if outcome is not None and not branch_view.outlived(branch, polled_ms, outcome.at_ms):
        return TransactionState.COMMITTED if outcome.settled is Settled.COMMITTED else TransactionState.LOST
    is_decided = listing is not None and listing[1].ruling is Ruling.COMMIT
    ended = branch_view.end(branch, order, is_decided=is_decided) if branch is not None else None
    if ended is not None:
        return ended
    if is_decided:
        return TransactionState.DECIDED
    if branch is not None:
        return TransactionState.PREPARED
    if superseded and broker is not None:
        return TransactionState.ENDED
    # No coordinator knows "prepared": its writer reported it, and no decision depends on it.
    prepared = reported is not None and (
        reported.handle is not None or EventType.TRANSACTION_PREPARED in reported.event_times
    )
    return TransactionState.PREPARED if prepared else TransactionState.OPEN
