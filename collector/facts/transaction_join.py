"""Joins what is known of each transaction: the coordinator's view, what was reported, decision and outcome, by their identities.

Call all of it under the state's lock. Thousands of transactions that ended stay in memory, and joining each takes a while: what
is not asked for is not joined.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace

from indoubt.collector.facts import applications, attempts
from indoubt.collector.facts.attempts import OurId
from indoubt.collector.facts.replayed_batches import replayed_ms
from indoubt.collector.facts.state import State, of_handle
from indoubt.collector.facts.transaction_states import is_superseded, state_of
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
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.records.xids import listed_of
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Settled
from indoubt.lifecycle.identity import TransactionalId, transaction_key
from indoubt.lifecycle.resource_manager_kinds import FLINK_SINKS
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
        if is_wanted and is_evident(state, reported):
            yield reported, committed_ms
    for branch in state.branches.values():
        if reported_of_branch(state, branch) is None:
            committed_ms = _committed_ms(state, branch.key) if branch.proof is BranchProof.COMMITTED else None
            if settled or committed_ms is None:
                yield branch, committed_ms


def is_evident(state: State, reported: ReportedTransaction) -> bool:
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
        is_known = reported is not None and reported.key == key and is_evident(state, reported)
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
    if found is None and (reported is None or not is_evident(state, reported)):
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
    superseded = is_superseded(identity, broker, state.latest_of_id.get(identity.transaction), state)
    # Only its coordinator reports a transaction that is not ours.
    reported = reported if own_id is not None or listing is not None else None
    view = TransactionView(
        transaction=identity.transaction,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        application=application(state, _resource_manager(identity, branch, reported), identity.transaction, own_id),
        managed=own_id is not None,
        slot=own_id.slot if own_id is not None else None,
        state=state_of(
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
        return state.flink.lists.checkpoint_of(Committable(transaction, producer_id, broker.handle_epoch), start_ms)
    listed = listed_of(branch.resource_manager, branch.transaction) if branch is not None else None
    if branch is None or listed is None:
        return None
    # A file has a name of its own, and may have been seen first long after it was listed.
    since_ms = 0 if branch.resource_manager in FLINK_SINKS else branch.since_ms or 0
    return state.flink.lists.checkpoint_of(listed, since_ms)


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


def parsed_name(identity: HandleIdentity) -> OurId | None:
    """Return the name parsed whole, or None for one that a pipeline of ours never has."""
    return BranchId.parse(identity.transaction) if identity.producer_id is None else _parsed_id(identity.transaction)


def our_id(state: State, identity: HandleIdentity) -> OurId | None:
    """Return the name of a transaction of ours: parsed whole, under a prefix that ran. What an event claims does not count."""
    parsed = parsed_name(identity)
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
