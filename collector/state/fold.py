"""The one function that folds observations into current state. No I/O and no clock: the same observations, the same state.

Observations of different sources may arrive in any order; those of the decision log arrive in log order, which its rules need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from collector.records.branches import branch_key, with_gone, with_listed
from collector.records.facts import (
    BrokerIdentity,
    BrokerTransaction,
    CheckpointFacts,
    HandleIdentity,
    Init,
    Listed,
    PipelineFacts,
    ReportedTransaction,
    handle_identity,
    merged,
    of_record,
)
from collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import (
    BranchGone,
    BranchListed,
    BrokerRecord,
    CheckpointFile,
    CheckpointFileKind,
    DecisionSeen,
    EventSeen,
    IdExpired,
    Malformed,
    Observation,
    OffsetsSeen,
    OperatorOrder,
)
from collector.records.observer_kind import ObserverKind
from collector.state.eviction import trim_when_needed
from collector.state.state import LastDecided, State, put_with_older, take_from_older
from lifecycle.decisions import BatchAttempt, CheckpointTakenOver, Decision, Kept, Outcome, Ruling, RunStarted
from lifecycle.errors import MalformedRecord
from lifecycle.events import STOPPED_ON_REQUEST, EventType, LifecycleEvent
from lifecycle.identity import Handle

OPERATOR = "operator:"
"""What ``who`` starts with in decision log records that an operator caused."""
INITS_KEPT_PER_ID = 4
_REPORTED_IN = ObserverKind.LIFECYCLE_EVENTS.value
_REPORTED_BY = {
    RunStarted: "run started",
    Decision: "decision",
    Outcome: "outcome",
    CheckpointTakenOver: "directory taken over",
}


def apply(state: State, observation: Observation) -> Observation:
    """Fold one observation into ``state``; return it as history keeps it: of a decision it is known now whether it counts.

    Raises MalformedRecord, before anything changed, for an event with wrong data.
    """
    match observation:
        case BrokerRecord():
            state.ids.see(observation.transaction, observation.update_ms)
            _broker_record(state, observation)
        case IdExpired():
            state.ids.expire(observation.transaction)
            state.inits.pop(observation.transaction, None)
        case EventSeen():
            _event(state, observation.event)
        case DecisionSeen():
            observation = _decision(state, observation)
        case CheckpointFile():
            _checkpoint_file(state, observation)
        case FlinkCheckpoint():
            state.flink.see_checkpoint(observation)
        case FlinkJob():
            state.flink.see_job(observation)
        case BranchListed() | BranchGone():
            _branch(state, observation)
        case OffsetsSeen():
            identity = BrokerIdentity(observation.transaction, observation.producer_id, observation.start_ms)
            state.offsets.setdefault(identity, {})[observation.partition] = observation
        case OperatorOrder():
            state.orders[observation.key] = observation
        case Malformed():
            state.malformed += 1
        case _:
            assert_never(observation)
    if not isinstance(observation, Malformed | OperatorOrder):
        state.events += 1
    trim_when_needed(state)
    return observation


def _broker_record(state: State, record: BrokerRecord) -> None:
    if record.start_ms is not None:
        put_transaction(state, of_record(record, record.start_ms))
    elif record.status is BrokerStatus.EMPTY:
        init = Init(at_ms=record.update_ms, producer_id=record.producer_id, producer_epoch=record.producer_epoch)
        put_init(state, record.transaction, init)


def put_init(state: State, transaction: str, init: Init) -> None:
    """Fold that a producer took a transactional id."""
    known = {*state.inits.get(transaction, ()), init}
    newest = sorted(known, key=lambda i: (i.at_ms, i.producer_id, i.producer_epoch))[-INITS_KEPT_PER_ID:]
    state.inits[transaction] = tuple(newest)


def put_transaction(state: State, new: BrokerTransaction) -> None:
    """Fold what one record, or several of one transaction, tell about it."""
    identity = new.identity
    before = state.broker.get(identity)
    after = new if before is None else merged(before, new)
    state.broker[identity] = after
    if after.is_final:
        state.open.discard(identity)
        state.settled.add(identity)
        if before is None or not before.is_final:
            state.committed += after.is_committing
            state.rolled_back += not after.is_committing
    else:
        state.open.add(identity)
    if after.is_aborting:
        state.aborted.add(identity)
    if after.is_committing and (before is None or not before.is_committing):
        state.commits_of_id[identity.transaction] = state.commits_of_id.get(identity.transaction, 0) + 1
    latest = state.latest_of_id.get(identity.transaction)
    if before is not None:
        take_from_older(state, identity, before.handle_identity)
    if latest is None or (latest.start_ms, latest.producer_id) <= (identity.start_ms, identity.producer_id):
        state.latest_of_id[identity.transaction] = identity
        if latest is not None and latest != identity:
            state.settled.add(latest)
            put_with_older(state, latest)
    else:
        state.settled.add(identity)
        put_with_older(state, identity)


def _branch(state: State, seen: BranchListed | BranchGone) -> None:
    key = branch_key(seen.resource_manager, seen.transaction, seen.instance)
    known = state.branches.get(key)
    state.branches[key] = with_listed(known, seen) if isinstance(seen, BranchListed) else with_gone(known, seen)


def _event(state: State, event: LifecycleEvent) -> None:
    pipeline = _text(event, "pipeline")
    settings = event.data.get("settings", {}) if event.type is EventType.PIPELINE_STARTED else {}
    if not isinstance(settings, dict):
        raise MalformedRecord(f"event field 'settings' is {settings!r}, not an object")
    kind = event.type.value.partition(".")[0]
    attempt = _int(event, "attempt") if kind == "pipeline" else None
    if kind == "transaction":
        _transaction_event(state, event)
    elif kind == "checkpoint":
        _checkpoint_event(state, event, pipeline)
    facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
    answer = (event.at_ms, str(event.data.get("order", "")))
    if event.type is EventType.PIPELINE_STARTED:
        facts = replace(facts, started_attempt=max(facts.started_attempt, -1 if attempt is None else attempt))
        if event.at_ms >= (facts.started_ms or -1):
            facts = replace(facts, started_ms=event.at_ms, settings=settings)
    elif event.type is EventType.PIPELINE_RESTARTING:
        facts = replace(facts, restarting_ms=max(event.at_ms, facts.restarting_ms or event.at_ms))
        facts = replace(facts, restart_answer=max(answer, facts.restart_answer))
    elif event.type is EventType.PIPELINE_STOPPED:
        facts = replace(facts, stopped_ms=max(event.at_ms, facts.stopped_ms or event.at_ms))
        facts = replace(facts, stop_answer=max(answer, facts.stop_answer))
        if event.data.get("reason") == STOPPED_ON_REQUEST:
            on_request_ms = max(event.at_ms, facts.stopped_on_request_ms or event.at_ms)
            facts = replace(facts, stopped_on_request_ms=on_request_ms)
    state.pipelines[pipeline] = with_heartbeat(facts, event.at_ms, f"event {event.type.value}")


def _transaction_event(state: State, event: LifecycleEvent) -> None:
    # Null means not reported.
    handle = Handle.from_json(event.data["handle"]) if event.data.get("handle") is not None else None
    identity = (
        handle_identity(handle)
        if handle is not None
        else HandleIdentity(_text(event, "transaction"), _int(event, "producer_id"), _int(event, "producer_epoch"))
    )
    batch_attempt = None
    if (
        isinstance(event.data.get("checkpoint_id"), str)
        and event.data.get("attempt") is not None
        and "batch" in event.data
    ):
        batch, attempt = _int(event, "batch"), _int(event, "attempt")
        batch_attempt = BatchAttempt(checkpoint_id=event.data["checkpoint_id"], batch=batch or 0, attempt=attempt or 0)
    known = state.reported.get(identity) or ReportedTransaction(identity=identity)
    manager = known.reported_manager
    if identity.producer_id is None:
        manager = max(manager, handle.resource_manager if handle is not None else _text(event, "resource_manager"))
    _int(event, "slot")  # kept nowhere, but one that is no number makes the event malformed
    first = min(event.at_ms, known.event_times.get(event.type, event.at_ms))
    lost = event.type is EventType.TRANSACTION_LOST
    state.reported[identity] = replace(
        known,
        reported_manager=manager,
        reported_batch_attempt=known.reported_batch_attempt or batch_attempt,
        reported_handle=known.reported_handle or handle,
        event_times={**known.event_times, event.type: first},
        lost_reason=max(known.lost_reason, _reason(event)) if lost else known.lost_reason,
    )


def _checkpoint_event(state: State, event: LifecycleEvent, pipeline: str) -> None:
    number = _int(event, "batch")
    if number is None:
        raise MalformedRecord(f"event {event.type.value} has no 'batch'")
    rows = duration_ms = None
    if event.type is EventType.CHECKPOINT_COMPLETED:
        rows, duration_ms = _int(event, "rows"), _int(event, "duration_ms")
    reason = _reason(event)
    put_checkpoint_event(state, event.type, pipeline, number, event.at_ms, rows, duration_ms, reason)


def put_checkpoint_event(
    state: State,
    type_: EventType,
    pipeline: str,
    number: int,
    at_ms: int,
    rows: int | None,
    duration_ms: int | None,
    reason: str,
) -> None:
    """Fold what one event reports of a checkpoint; rows and duration are those of a completed one, the reason a failed one's."""
    known = state.checkpoints.get((pipeline, number)) or CheckpointFacts(pipeline=pipeline, number=number)
    sources = known.sources if _REPORTED_IN in known.sources else known.sources | {_REPORTED_IN}
    match type_:
        case EventType.CHECKPOINT_STARTED:
            known = replace(known, sources=sources, started_ms=max(at_ms, known.started_ms or at_ms))
        case EventType.CHECKPOINT_COMPLETED if at_ms >= (known.completed_ms or -1):
            known = replace(known, sources=sources, completed_ms=at_ms, rows=rows, reported_duration_ms=duration_ms)
        case EventType.CHECKPOINT_FAILED:
            known = replace(known, sources=sources, failures=known.failures + 1)
            if at_ms >= (known.failed_ms or -1):
                known = replace(known, failed_ms=at_ms, reason=reason)
        case _:
            known = replace(known, sources=sources)
    state.checkpoints[pipeline, number] = known


def _checkpoint_file(state: State, file: CheckpointFile) -> None:
    key = (file.pipeline, file.number)
    known = state.checkpoints.get(key) or CheckpointFacts(pipeline=file.pipeline, number=file.number)
    known = replace(known, sources=known.sources | {"checkpoint directory"})
    if file.kind is CheckpointFileKind.OFFSETS:
        known = replace(known, planned_ms=max(file.at_ms, known.planned_ms or file.at_ms))
    else:
        known = replace(
            known,
            completed_ms=max(file.at_ms, known.completed_ms or file.at_ms),
            proven_ms=max(file.at_ms, known.proven_ms or file.at_ms),
        )
    state.checkpoints[key] = known


def _decision(state: State, seen: DecisionSeen) -> DecisionSeen:
    record = seen.record
    if seen.counts is None:
        counts = state.ledger.apply(seen.offset, record)
    else:
        # As it was when what it rests on was there: a snapshot repeats it, or history kept it while older rows left.
        counts = state.ledger.repeat(Kept(offset=seen.offset, counts=seen.counts, record=record))
    if isinstance(record, Decision):
        if counts and record.ruling is Ruling.COMMIT:
            decided = LastDecided(record.batch_attempt.batch, record.batch_attempt.attempt, record.at_ms)
            state.last_decided[record.batch_attempt.checkpoint_id] = max(
                decided, state.last_decided.get(record.batch_attempt.checkpoint_id, decided)
            )
        for handle in record.handles:
            identity = handle_identity(handle)
            known = state.reported.get(identity) or ReportedTransaction(identity=identity)
            state.reported[identity] = replace(known, listed=known.listed or Listed(record.batch_attempt, handle))
    if isinstance(record, RunStarted | CheckpointTakenOver) or not record.who.startswith(OPERATOR):
        facts = state.pipelines.get(record.prefix) or PipelineFacts(pipeline=record.prefix)
        what = _REPORTED_BY[type(record)]
        facts = replace(facts, logged_ms=max(record.at_ms, facts.logged_ms or record.at_ms))
        state.pipelines[record.prefix] = with_heartbeat(facts, record.at_ms, f"{what} in the decision log")
    return replace(seen, counts=counts)


def with_heartbeat(facts: PipelineFacts, at_ms: int, last_heartbeat: str) -> PipelineFacts:
    """Return the pipeline's facts with one more heartbeat of its driver: the newest stays."""
    if (at_ms, last_heartbeat) <= (facts.last_seen_ms or -1, facts.last_heartbeat):
        return facts
    return replace(facts, last_seen_ms=at_ms, last_heartbeat=last_heartbeat)


def _text(event: LifecycleEvent, name: str) -> str:
    value = event.data.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedRecord(f"event {event.type.value} field {name!r} is {value!r}, not text")
    return value


def _reason(event: LifecycleEvent) -> str:
    return str(event.data.get("reason") or "")


def _int(event: LifecycleEvent, name: str) -> int | None:
    value = event.data.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise MalformedRecord(f"event {event.type.value} field {name!r} is {value!r}, not a whole number")
    return value
