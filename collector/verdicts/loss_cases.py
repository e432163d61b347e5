"""Gathers what the question "was data lost?" needs out of a state, of now or of the past, and has it answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from indoubt.collector.facts import flink_sinks
from indoubt.collector.facts.flink_sinks import Sink
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import view_of
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import KAFKA, BrokerIdentity, BrokerTransaction, Init
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.observations import OffsetsSeen, OperatorOrder
from indoubt.collector.verdicts import flink_checkpoints, flink_duplicates
from indoubt.collector.verdicts.abort_causes import AbortClues
from indoubt.collector.verdicts.data_loss import COMMITTED, UNDONE, Loss, LossCase, judge_loss
from indoubt.collector.verdicts.flink_cases import is_flinks
from indoubt.collector.verdicts.flink_checkpoints import Evidence
from indoubt.collector.verdicts.flink_duplicates import SetBack
from indoubt.collector.verdicts.read_process_write import input_tie
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.identity import transactional_ids
from indoubt.lifecycle.orders import Action

TAKEN_BY_ORDER_MS = 2_000
"""An order that aborts a transaction may take its id to shut out its writer (brokers before 4.0): within this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What is judged, copied out of a state: it needs no lock."""

    cases: tuple[LossCase, ...]
    asks_flink: frozenset[int]
    """Which of the cases, by their place, Flink's checkpoints may say something about."""
    starts: Mapping[str, int]
    """When the newest transaction of each id began, epoch ms."""
    commits: Mapping[str, int]
    """How many transactions of each id were committed, where any was."""
    timed: tuple[BrokerTransaction, ...]
    """All in memory, where a Flink is watched: when its sinks committed tells whose they are."""
    inits: Mapping[str, tuple[Init, ...]]
    flink: FlinkState
    offsets: Mapping[BrokerIdentity, Mapping[str, OffsetsSeen]]


def loss_inputs(state: State, status: DecisionLogStatus, views: Iterable[TransactionView]) -> LossInputs:
    """Return what judging these transactions needs. Call it under the state's lock."""
    cases = tuple(_case(state, status, view) for view in views if view.state in (*COMMITTED, *UNDONE))
    known = flink_duplicates.set_backs(state.flink)
    asks_flink = frozenset(n for n, case in enumerate(cases) if _asks_flink(case, state.flink, known))
    wants_flink = bool(asks_flink)
    identities = (case.view.broker.identity for case in cases if case.view.broker is not None)
    return LossInputs(
        cases=cases,
        asks_flink=asks_flink,
        starts={id_: newest.start_ms for id_, newest in state.latest_of_id.items()} if wants_flink else {},
        commits=dict(state.commits.of_id) if wants_flink else {},
        timed=tuple(state.broker.values()) if wants_flink and state.flink.jobs else (),
        inits=dict(state.inits) if wants_flink else {},
        flink=state.flink.copy() if wants_flink else FlinkState(),
        offsets={identity: dict(state.offsets[identity]) for identity in identities if identity in state.offsets},
    )


def judged(found: LossInputs) -> list[Loss]:
    """Return whether data was lost with each transaction, in the order given."""
    ids = (FlinkId.parse(found.cases[n].view.transaction) for n in found.asks_flink)
    prefixes = {id_.prefix for id_ in ids if id_ is not None}
    sinks = flink_sinks.sinks(found.starts, found.commits, found.inits, prefixes, found.timed)
    losses = []
    for n, case in enumerate(found.cases):
        broker, parsed = case.view.broker, FlinkId.parse(case.view.transaction)
        branch = case.view.branch
        if branch is not None and n in found.asks_flink:
            of = flink_checkpoints if case.view.state in UNDONE else flink_duplicates
            case = replace(case, flink=of.evidence_of_branch(branch, found.flink))
        elif broker is not None and parsed is not None and n in found.asks_flink:
            sink = sinks[parsed.prefix]
            sink.is_pooled = found.flink.lists.is_pooled(parsed.prefix)
            case = replace(case, flink=_of_flink(case, broker, sink, found.flink))
        loss = judge_loss(case)
        if loss is not None:
            seen = found.offsets.get(broker.identity, {}) if broker is not None else {}
            offsets = tuple(seen[partition] for partition in sorted(seen))
            losses.append(replace(loss, offsets=offsets) if offsets else loss)
    return losses


def _of_flink(case: LossCase, broker: BrokerTransaction, sink: Sink, flink: FlinkState) -> Evidence | None:
    order = case.clues.order
    if case.view.state not in UNDONE:
        return flink_duplicates.evidence(broker, sink, flink, by_order=_is(order, Action.COMMIT))
    taken_ms = order.at_ms + TAKEN_BY_ORDER_MS if order is not None and _is(order, Action.ABORT) else 0
    return flink_checkpoints.evidence(broker, sink, flink, taken_ms=taken_ms)


def _is(order: OperatorOrder | None, action: Action) -> bool:
    return order is not None and order.action == action.value


def share(past: State, state: State) -> None:
    """Give a past what only memory has. Call it under the state's lock."""
    past.flink, past.checkpoints, past.orders, past.offsets = (
        state.flink,
        state.checkpoints,
        state.orders,
        state.offsets,
    )


def clues(state: State, view: TransactionView) -> AbortClues:
    """Return what may tell why a transaction was aborted. Call it under the state's lock."""
    order = state.orders.get(view.key) or state.orders.get(view.key.rpartition("@")[0])
    return AbortClues(view=view, inits=state.inits.get(view.transaction, ()), order=order)


def _case(state: State, status: DecisionLogStatus, view: TransactionView) -> LossCase:
    partitions = view.broker.partitions if view.broker is not None else ()
    return LossCase(
        clues=clues(state, view),
        log_status=status,
        tie=input_tie(state, view.transaction, partitions),
    )


def _asks_flink(case: LossCase, flink: FlinkState, known: Sequence[SetBack]) -> bool:
    view = case.view
    if view.branch is not None:
        return is_flinks(view.branch)
    if view.managed or view.broker is None or FlinkId.parse(view.transaction) is None:
        return False
    return (
        view.state in UNDONE
        or _is(case.clues.order, Action.COMMIT)
        or flink_duplicates.may_be_twice(view.broker, flink, known)
    )


def committed_and_written_again(state: State, since_ms: int = 0) -> list[BrokerIdentity]:
    """Return the committed transactions in memory that a Flink job may be writing again, since then (epoch ms).

    After a restore since then, or where an order committed it and its id was taken since. Call it under the state's lock.
    """
    found = _ordered_and_taken(state, since_ms)
    if not _was_restored(state, since_ms):
        return found
    known = flink_duplicates.set_backs(state.flink, since_ms)
    already = set(found)
    return found + [
        identity
        for identity, broker in state.broker.items()
        if identity not in already
        and broker.is_final
        and broker.is_committing
        and flink_duplicates.may_be_twice(broker, state.flink, known, since_ms)
    ]


def branches_written_again(state: State, since_ms: int = 0) -> list[TransactionView]:
    """Return the branches in memory of Flink's JDBC sinks that an order committed, if a job was restored since then (epoch ms).

    Call it under the state's lock.
    """
    if not _was_restored(state, since_ms):
        return []
    ordered = (state.branches.get(key) for key in state.orders)
    views = [view_of(state, branch) for branch in ordered if branch is not None and is_flinks(branch)]
    return [view for view in views if view.state in COMMITTED]


def _was_restored(state: State, since_ms: int) -> bool:
    """Say whether any Flink job was restored from a checkpoint since then (epoch ms)."""
    return any(restore.at_ms >= since_ms for facts in state.flink.jobs.values() for restore in facts.restores)


def _ordered_and_taken(state: State, since_ms: int) -> list[BrokerIdentity]:
    """Return the transactions of Flink's form that an order committed and whose id was taken again since then (epoch ms)."""
    keys = {key for key, order in state.orders.items() if _is(order, Action.COMMIT)}
    ids = transactional_ids(KAFKA, keys)
    found = []
    for identity, broker in state.broker.items() if ids else ():
        id_, ended_ms = identity.transaction, broker.ended_ms
        if id_ not in ids or FlinkId.parse(id_) is None or not broker.is_committing or ended_ms is None:
            continue
        newest = state.latest_of_id.get(id_)
        taken = [init.at_ms for init in state.inits.get(id_, ())] + [newest.start_ms if newest is not None else 0]
        is_ordered = broker.key in keys or broker.key.rpartition("@")[0] in keys
        if is_ordered and max(taken) > max(ended_ms, since_ms):
            found.append(identity)
    return found
