"""What leaves the present state: the oldest that is settled, and what was reported and decided of it."""

from __future__ import annotations

from collector.records.facts import BrokerIdentity, ReportedTransaction
from collector.state.state import State, of_handle, take_commit, take_from_older
from lifecycle.decision_ledger import DecisionLedger


def forget_open_transactions(state: State) -> None:
    """Drop transactions whose end was not seen: their coordinator's log is gone."""
    for identity in list(state.open):
        drop_transaction(state, identity)


def forget_decisions(state: State) -> None:
    """Drop what was decided: the log is gone, and the offsets of another one start over."""
    state.ledger = DecisionLedger()
    state.last_decided.clear()


def trim_when_needed(state: State) -> None:
    """Trim once what could leave memory has grown by as much as is kept, so that its cost per observation stays small."""
    if _trimmable(state) > max(state.trim_at, 2 * state.settled_kept):
        trim(state)


def _trimmable(state: State) -> int:
    return len(state.settled) + len(state.reported) + len(state.checkpoints) + len(state.inits) + len(state.branches)


def trim(state: State) -> None:
    """Drop the oldest settled transactions, and what was reported and decided of them, down to the number that is kept."""
    listed_before = [t.listed.batch_attempt for t in state.reported.values() if t.listed is not None]
    _trim_transactions(state)
    _trim_checkpoints(state)
    inits = sorted(state.inits, key=lambda id_: state.inits[id_][-1].at_ms)
    for id_ in inits[: max(0, len(inits) - state.settled_kept)]:
        del state.inits[id_]
    for identity in list(state.offsets)[: max(0, len(state.offsets) - state.settled_kept)]:
        del state.offsets[identity]
    for key in list(state.orders)[: max(0, len(state.orders) - state.settled_kept)]:
        del state.orders[key]
    for batch_attempt in set(listed_before) - {
        t.listed.batch_attempt for t in state.reported.values() if t.listed is not None
    }:
        state.ledger.forget(batch_attempt)
    state.trim_at = _trimmable(state) + state.settled_kept


def _trim_transactions(state: State) -> None:
    settled = [state.broker[identity] for identity in state.settled]
    settled.sort(key=lambda t: (t.ended_ms or t.identity.start_ms, t.identity))
    for transaction in settled[: max(0, len(settled) - state.settled_kept)]:
        drop_transaction(state, transaction.identity)
    gone = sorted((b.gone_ms, key) for key, b in state.branches.items() if b.gone_ms is not None)
    for _, key in gone[: max(0, len(gone) - state.settled_kept)]:
        del state.branches[key]
    listed = {key for key, branch in state.branches.items() if branch.is_listed}
    unseen = [
        t
        for t in state.reported.values()
        if of_handle(state, t.identity) is None and (not listed or t.key not in listed)
    ]
    # Apart: what events alone claim must not drive out what was decided.
    for group in ([t for t in unseen if t.listed is None], [t for t in unseen if t.listed is not None]):
        for reported in _oldest(group, len(group) - state.settled_kept):
            del state.reported[reported.identity]


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


def drop_transaction(state: State, identity: BrokerIdentity) -> None:
    """Let one transaction leave memory, with what was reported of it."""
    dropped = state.broker[identity]
    state.touched.add(identity)
    handle = dropped.handle_identity
    if of_handle(state, handle) == identity:
        state.reported.pop(handle, None)
    take_from_older(state, identity, handle)
    del state.broker[identity]
    if dropped.is_committing:
        take_commit(state, identity.transaction)
    state.offsets.pop(identity, None)
    for members in (state.settled, state.open, state.aborted):
        members.discard(identity)
    if state.latest_of_id.get(identity.transaction) == identity:
        del state.latest_of_id[identity.transaction]


def _trim_checkpoints(state: State) -> None:
    by_pipeline: dict[str, list[int]] = {}
    for pipeline, number in state.checkpoints:
        by_pipeline.setdefault(pipeline, []).append(number)
    for pipeline, numbers in by_pipeline.items():
        for number in sorted(numbers)[: max(0, len(numbers) - state.checkpoints_kept)]:
            del state.checkpoints[pipeline, number]
