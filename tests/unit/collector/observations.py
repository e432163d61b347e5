"""Observations for the collector's tests: short ways to say what an observer saw. Times are ms after T0."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    BranchGone,
    BranchListed,
    BranchProof,
    BrokerRecord,
    DecisionSeen,
    EventSeen,
    Observation,
    Observed,
    Position,
)
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.verdict_case import Case, DecisionLogStatus, Limits, PipelineHistory
from indoubt.lifecycle.decisions import (
    BatchAttempt,
    CheckpointTakenOver,
    Decision,
    DecisionRecord,
    Outcome,
    Ruling,
    RunStarted,
    Settled,
)
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.states import TransactionState

if TYPE_CHECKING:
    from indoubt.collector.views.current_state import CurrentState

T0 = 1_795_000_000_000
PREFIX, CHECKPOINT_ID = "ip-count", "checkpoint-1"
TIMEOUT_MS = 60_000


def broker_record(
    status: BrokerStatus,
    at: int,
    *,
    transaction: str = "ip-count-0-1",
    producer_id: int = 0,
    epoch: int = 4,
    start: int | None = 0,
    version: int = 0,
    partitions: tuple[str, ...] = ("sink-0",),
    timeout_ms: int = TIMEOUT_MS,
) -> BrokerRecord:
    return BrokerRecord(
        transaction=transaction,
        producer_id=producer_id,
        producer_epoch=epoch,
        status=status,
        start_ms=None if start is None else T0 + start,
        update_ms=T0 + at,
        timeout_ms=timeout_ms,
        partitions=partitions,
        client_transaction_version=version,
        source="__transaction_state",
    )


def handle(transaction: str = "ip-count-0-1", epoch: int = 4, slot: int = 0, producer_id: int = 0) -> Handle:
    return Handle(
        resource_manager="kafka",
        transaction=transaction,
        producer_id=producer_id,
        producer_epoch=epoch,
        slot=slot,
        rows=100,
        bytes=1000,
        fingerprint="100:0",
        opened_at_ms=T0,
        prepared_at_ms=T0 + 500,
        timeout_ms=TIMEOUT_MS,
    )


def database_handle(held_by: str = "mysql", slot: int = 0, nonce: str = "0a1b2c3d") -> Handle:
    """Return a prepared branch in a database: no producer, no timeout."""
    return Handle(
        resource_manager=held_by,
        transaction=f"{PREFIX}:41:0:{slot}:{nonce}",
        producer_id=None,
        producer_epoch=None,
        slot=slot,
        rows=100,
        bytes=1000,
        fingerprint="100:0",
        opened_at_ms=T0,
        prepared_at_ms=T0 + 500,
        timeout_ms=0,
    )


def branch_listed(of: Handle, at: int = 1_000, instance: str = "", **changes: Any) -> BranchListed:
    """Return that a database, called as its kind unless named, lists a branch."""
    fields = {"resource_manager": of.resource_manager, "transaction": of.transaction, "at_ms": T0 + at, **changes}
    return BranchListed(instance=instance or of.resource_manager, **fields)


def branch_gone(
    of: Handle, proof: BranchProof | None, at: int = 3_000, instance: str = "", server: str = ""
) -> BranchGone:
    """Return that a database lists a branch no more, and what its marker says."""
    return BranchGone(
        instance=instance or of.resource_manager,
        resource_manager=of.resource_manager,
        transaction=of.transaction,
        at_ms=T0 + at,
        proof=proof,
        server=server,
    )


def batch_attempt(batch: int = 41, attempt: int = 0) -> BatchAttempt:
    return BatchAttempt(checkpoint_id=CHECKPOINT_ID, batch=batch, attempt=attempt)


def run_started(offset: int = 0, at: int = -1000, run: str = "run-1") -> DecisionSeen:
    return _seen(offset, RunStarted(prefix=PREFIX, checkpoint_id=CHECKPOINT_ID, run=run, at_ms=T0 + at))


def checkpoint_taken_over(
    offset: int, attempt: int, at: int = 0, prefix: str = PREFIX, checkpoint_id: str = CHECKPOINT_ID
) -> DecisionSeen:
    names = dict.fromkeys(("new_checkpoint_id", "sink", "decisions", "location"), "new")
    return _seen(
        offset, CheckpointTakenOver(prefix=prefix, checkpoint_id=checkpoint_id, attempt=attempt, at_ms=T0 + at, **names)
    )


def decided(
    offset: int,
    *handles: Handle,
    at: int = 1000,
    ruling: Ruling = Ruling.COMMIT,
    batch: int = 41,
    attempt: int = 0,
    who: str = "run-1",
) -> DecisionSeen:
    decision = Decision(
        prefix=PREFIX,
        batch_attempt=batch_attempt(batch, attempt),
        ruling=ruling,
        handles=handles,
        who=who,
        at_ms=T0 + at,
    )
    return _seen(offset, decision)


def outcome(offset: int, of: Handle, settled: Settled, at: int = 2000) -> DecisionSeen:
    record = Outcome(
        prefix=PREFIX, batch_attempt=batch_attempt(), handle_keys=(of.key,), settled=settled, who="run-1", at_ms=T0 + at
    )
    return _seen(offset, record)


def event(type_: EventType, at: int, **data: Any) -> EventSeen:
    base = {"pipeline": PREFIX, "checkpoint_id": CHECKPOINT_ID, "attempt": 0}
    return EventSeen(
        event=LifecycleEvent(
            type=type_,
            source=f"/pipeline/{PREFIX}",
            subject="s",
            at_ms=T0 + at,
            data={**base, **data},
            id=f"{type_}{at}",
        )
    )


def observe(current: CurrentState, *seen: Observation) -> None:
    """Have a collector see these, from the beginning of a source of their own."""
    positions = (Position(source="s", partition=0, offset=offset) for offset in range(len(seen)))
    current.observe([Observed(position=at, observation=one) for at, one in zip(positions, seen, strict=True)])


def told(number: int) -> Observed:
    """Return the event that a checkpoint started, as a record at this offset of a topic."""
    seen = event(EventType.CHECKPOINT_STARTED, number, batch=number)
    position = Position(source="topic", partition=0, offset=number)
    return Observed(position=position, observation=EventSeen(event=seen.event), raw=encode(seen.event).decode())


def transaction_event(type_: EventType, at: int, of: Handle | None = None, **data: Any) -> EventSeen:
    of = of or handle()
    named = {"transaction": of.transaction, "producer_id": of.producer_id, "producer_epoch": of.producer_epoch}
    base = {"batch": 41, "slot": of.slot, "resource_manager": of.resource_manager, **named}
    return event(type_, at, **base | data)


def folded(*observations: Observation) -> State:
    state = State()
    for observation in observations:
        apply(state, observation)
    return state


def only_view(*observations: Observation) -> TransactionView:
    (view,) = views(folded(*observations), settled=True)
    return view


def case(view: TransactionView, at: int, **changes: Any) -> Case:
    """Return what the rules look at, ``at`` ms after T0: a live pipeline with a 5 s interval unless changed.

    ``replayed_ms``: when its batch was completed again.
    """
    view = written_again(view, changes.pop("replayed_ms", None))
    fields: dict[str, Any] = {
        "transaction": view,
        "pipeline": pipeline() if view.managed else None,
        "log_status": DecisionLogStatus.READABLE,
        "log_error": "",
        "later_batch_decided": False,
        "rulable": batch_attempt() if view.managed else None,
        "limits": Limits(),
        "now_ms": T0 + at,
        **changes,
    }
    return Case(**fields)


def written_again(view: TransactionView, at_ms: int | None) -> TransactionView:
    """Return a transaction whose batch was completed again then, as the join has it: a lost one, or unchanged."""
    if at_ms is None or view.state is not TransactionState.LOST:
        return view
    return replace(view, state=TransactionState.WRITTEN_AGAIN, written_again_ms=at_ms)


def pipeline(**changes: Any) -> PipelineHistory:
    fields: dict[str, Any] = {
        "facts": PipelineFacts(pipeline=PREFIX, last_seen_ms=T0 + 900, last_heartbeat="event transaction.prepared"),
        "heard_ms": T0 + 900,
        "latest_run_offset": 0,
        "latest_run_ms": T0 - 1000,
        "interval_ms": 5_000,
        "checkpoint_p99_ms": 1_000,
        "restart_delay_ms": 10_000,
        **changes,
    }
    return PipelineHistory(**fields)


def _seen(offset: int, record: DecisionRecord) -> DecisionSeen:
    return DecisionSeen(offset=offset, record=record)


def observer_of(name: str) -> dict[str, Any]:
    """Return kind and instance of the observer of this name, as fields of its status."""
    kind = next(kind for kind in ObserverKind if name == kind.value or name.startswith(f"{kind.value} "))
    return {"kind": kind, "instance": name.removeprefix(kind.value).strip()}
