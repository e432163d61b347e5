"""What leaves the present state: the oldest that is settled, and what was reported and decided of it.

A lost transaction is not settled before its batch is replayed: it stays, whatever ends after it.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

from indoubt.collector.facts.state import State, of_handle, take_from_older
from indoubt.collector.facts.transaction_join import at_coordinator, find, is_quiet
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction, ReportedTransaction
from indoubt.collector.records.observations import BranchProof
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.states import TransactionState

SETTLED_AT_ONCE = 20
"""Settled transactions leave memory when there is this part more of them than is kept: all who read wait meanwhile."""


def forget_open_transactions(state: State) -> None:
    """Drop transactions whose end was not seen: their coordinator's log is gone."""
    for identity in list(state.open):
        drop_transaction(state, identity)


def forget_decisions(state: State) -> None:
    """Drop what was decided: the log is gone, and the offsets of another one start over."""
    state.ledger = DecisionLedger()
    state.last_decided.clear()
    state.log_end_of.clear()


def put_settled(state: State, transaction: BrokerTransaction, before: BrokerTransaction | None) -> None:
    """Note that a transaction has ended; ``before``: what was known of it."""
    settled_ms, identity = _settled_ms(transaction), transaction.identity
    if identity not in state.ended.identities or before is None or _settled_ms(before) != settled_ms:
        state.ended.identities.add(identity)
        heapq.heappush(state.ended.order, (settled_ms, identity))


def _settled_ms(transaction: BrokerTransaction) -> int:
    return transaction.ended_ms or transaction.identity.start_ms


def trim_when_needed(state: State) -> None:
    """Trim once what could leave memory has grown, so that its cost per observation stays small.

    Settled transactions come and go by the thousand, so they leave in small parts; everything else once it has grown by as
    much as is kept.
    """
    if len(state.ended.identities) > state.ended.kept + state.ended.kept // SETTLED_AT_ONCE:
        _trim_settled(state)
    if _trimmable(state) > max(state.ended.trim_at, 2 * state.ended.kept):
        trim(state)


def _trimmable(state: State) -> int:
    return len(state.reported) + len(state.checkpoints) + len(state.inits) + len(state.branches)


def trim(state: State) -> None:
    """Drop the oldest settled transactions, and what was reported and decided of them, down to the number that is kept."""
    for identity in [each for each in state.ended.spared if not awaits_replay(state, each)]:
        state.ended.spared.discard(identity)
        put_settled(state, state.broker[identity], None)
    _trim_settled(state)
    _trim_reported(state)
    _trim_checkpoints(state)
    inits = sorted(state.inits, key=lambda id_: state.inits[id_][-1].at_ms)
    for id_ in inits[: max(0, len(inits) - state.ended.kept)]:
        del state.inits[id_]
    for key in list(state.orders)[: max(0, len(state.orders) - state.ended.kept)]:
        del state.orders[key]
    state.ended.trim_at = _trimmable(state) + state.ended.kept


def _trim_settled(state: State) -> None:
    """Drop the settled transactions that ended first."""
    listed: set[BatchAttempt] = set()
    while len(state.ended.identities) > state.ended.kept:
        settled_ms, identity = heapq.heappop(state.ended.order)
        if identity not in state.ended.identities or settled_ms != _settled_ms(state.broker[identity]):
            continue  # it is gone, or has a better entry
        state.ended.evicted_until_ms = max(state.ended.evicted_until_ms, settled_ms)
        if awaits_replay(state, identity):
            state.ended.identities.discard(identity)
            state.ended.spared.add(identity)
            continue
        reported = drop_transaction(state, identity)
        if reported is not None and reported.listed is not None:
            listed.add(reported.listed.batch_attempt)
    beyond = len(state.ended.spared) - state.ended.lost_kept
    if beyond > 0:
        oldest = sorted(state.ended.spared, key=lambda each: (_settled_ms(state.broker[each]), each))
        for identity in oldest[:beyond]:
            reported = drop_transaction(state, identity)
            state.ended.lost_forgotten += 1
            if reported is not None and reported.listed is not None:
                listed.add(reported.listed.batch_attempt)
    for identity in list(state.offsets)[: max(0, len(state.offsets) - state.ended.kept)]:
        del state.offsets[identity]
    _forget_unlisted(state, listed)


def _forget_unlisted(state: State, listed: Collection[BatchAttempt]) -> None:
    """Drop the decisions about these attempts, of those of which nothing that they list is known any more."""
    if listed:
        kept = {t.listed.batch_attempt for t in state.reported.values() if t.listed is not None}
        for batch_attempt in set(listed) - kept:
            state.ledger.forget(batch_attempt)


def _trim_reported(state: State) -> None:
    """Drop the branches that went first, and what was reported first of transactions that no coordinator was seen to have."""
    lost = elsewhere_awaiting_replay(state)
    beyond = max(0, len(lost) - state.ended.lost_kept)
    spared = {view.handle_key for view in lost[beyond:]}
    gone = sorted(
        (branch.gone_ms, key)
        for key, branch in state.branches.items()
        if branch.gone_ms is not None and key not in spared
    )
    for gone_ms, key in gone[: max(0, len(gone) - state.ended.kept)]:
        state.ended.evicted_until_ms = max(state.ended.evicted_until_ms, gone_ms)
        del state.branches[key]
    stays = spared | {key for key, branch in state.branches.items() if branch.is_listed}
    unseen = [
        t for t in state.reported.values() if of_handle(state, t.identity) is None and (not stays or t.key not in stays)
    ]
    decided = [t for t in unseen if t.listed is not None]
    # Apart: what events alone claim must not drive out what was decided.
    for group in ([t for t in unseen if t.listed is None], decided):
        for reported in _oldest(group, len(group) - state.ended.kept):
            del state.reported[reported.identity]
    state.ended.lost_forgotten += sum(1 for view in lost[:beyond] if find(state, view.key) is None)
    _forget_unlisted(state, {t.listed.batch_attempt for t in decided if t.listed is not None})


def _oldest(reported: list[ReportedTransaction], most: int) -> list[ReportedTransaction]:
    """Return the ``most`` of them that were heard of longest ago; of those heard of at one time the first by their keys."""
    if most <= 0:
        return []
    heard_ms = [
        t.listed.handle.prepared_at_ms if t.listed else max(t.event_times.values(), default=0) for t in reported
    ]
    last_ms = sorted(heard_ms)[most - 1]
    older = [t for t, at_ms in zip(reported, heard_ms, strict=True) if at_ms < last_ms]
    # A key is put together of several parts: it is only made where it decides.
    same = sorted((t for t, at_ms in zip(reported, heard_ms, strict=True) if at_ms == last_ms), key=lambda t: t.key)
    return older + same[: most - len(older)]


def drop_transaction(state: State, identity: BrokerIdentity) -> ReportedTransaction | None:
    """Let one transaction leave memory, with what was reported of it: that is returned."""
    dropped = state.broker[identity]
    state.ended.dropped_until_ms = max(state.ended.dropped_until_ms, identity.start_ms)
    handle = dropped.handle_identity
    reported = state.reported.pop(handle, None) if of_handle(state, handle) == identity else None
    take_from_older(state, identity, handle)
    del state.broker[identity]
    state.log_end_of.pop(identity, None)
    if dropped.is_committing:
        state.commits.take(identity.transaction)
    state.offsets.pop(identity, None)
    for members in (state.ended.identities, state.open, state.aborted, state.ended.spared):
        members.discard(identity)
    if state.latest_of_id.get(identity.transaction) == identity:
        del state.latest_of_id[identity.transaction]
    return reported


def _trim_checkpoints(state: State) -> None:
    """Drop the oldest checkpoints of each pipeline, down to the number that is kept."""
    by_pipeline: dict[str, list[int]] = {}
    for pipeline, number in state.checkpoints:
        by_pipeline.setdefault(pipeline, []).append(number)
    for pipeline, numbers in by_pipeline.items():
        for number in sorted(numbers)[: max(0, len(numbers) - state.checkpoints_kept)]:
            del state.checkpoints[pipeline, number]


def awaits_replay(state: State, identity: BrokerIdentity) -> bool:
    """Say whether a transaction that has ended at its coordinator was decided and undone, and its batch not completed since."""
    if identity not in state.aborted or is_quiet(state, state.broker[identity]):
        return False
    return at_coordinator(state, identity).state is TransactionState.LOST


def elsewhere_awaiting_replay(state: State) -> list[TransactionView]:
    """Return those that no coordinator was seen to have, such as branches in databases; oldest end first."""
    keys = {key for key, branch in state.branches.items() if branch.proof is BranchProof.TOMBSTONE}
    found = (find(state, key) for key in keys | state.ledger.lost_keys())
    unseen = (view for view in found if view is not None and view.broker is None)
    views = {view.key: view for view in unseen if view.state is TransactionState.LOST}
    return sorted(views.values(), key=lambda view: (view.ended_ms or 0, view.key))
