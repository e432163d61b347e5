"""The one function that folds observations into current state. No I/O and no clock: the same observations, the same state.

Observations of different sources may arrive in any order; those of the decision log arrive in log order, which its rules need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from collector.branches import branch_key, with_gone, with_listed
from collector.facts import (
    BrokerIdentity,
    BrokerTransaction,
    CheckpointFacts,
    HandleIdentity,
    Init,
    PipelineFacts,
    ToldTransaction,
    handle_identity,
    merged,
    of_record,
)
from collector.flink_records import FlinkCheckpoint, FlinkJob
from collector.observations import (
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
from collector.state import State, put_with_older, take_from_older
from collector.state_trimming import trim_when_needed
from collector.transaction_state_records import BrokerStatus
from lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted
from lifecycle.errors import MalformedRecord
from lifecycle.events import STOPPED_ON_REQUEST, EventType, LifecycleEvent
from lifecycle.identity import Handle

OPERATOR = "operator:"
"""What ``who`` starts with in decision log records that an operator caused."""
INITS_KEPT_PER_ID = 4
_TOLD_IN = "lifecycle events"


def apply(state: State, observation: Observation) -> None:
    """Fold one observation into ``state``. Raises MalformedRecord, before anything changed, for an event with wrong data."""
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
            _decision(state, observation)
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
    key = branch_key(seen.resource_manager, seen.transaction, seen.place)
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
        _transaction_event(state, event, pipeline)
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
    state.pipelines[pipeline] = with_sign(facts, event.at_ms, f"event {event.type.value}")


def _transaction_event(state: State, event: LifecycleEvent, pipeline: str) -> None:
    # What is null is not told.
    handle = Handle.from_json(event.data["handle"]) if event.data.get("handle") is not None else None
    identity = (
        handle_identity(handle)
        if handle is not None
        else HandleIdentity(_text(event, "transaction"), _int(event, "producer_id"), _int(event, "producer_epoch"))
    )
    about = None
    if isinstance(event.data.get("life"), str) and event.data.get("attempt") is not None and "batch" in event.data:
        batch, attempt = _int(event, "batch"), _int(event, "attempt")
        about = BatchAttempt(life=event.data["life"], batch=batch or 0, attempt=attempt or 0)
    told = told_of(state, identity, pipeline, about, handle)
    if handle is None and identity.producer_id is None:
        # Only Kafka has producers: its transactions are also known without our events.
        told = replace(told, resource_manager=_text(event, "resource_manager"))
    slot = _int(event, "slot") if "slot" in event.data else None
    first = min(event.at_ms, told.told.get(event.type, event.at_ms))
    told = replace(told, told={**told.told, event.type: first}, slot=told.slot if told.slot is not None else slot)
    if event.type is EventType.TRANSACTION_LOST:
        told = replace(told, lost_reason=max(told.lost_reason, _reason(event)))
    state.told[identity] = told


def told_of(
    state: State, identity: HandleIdentity, pipeline: str, about: BatchAttempt | None, handle: Handle | None
) -> ToldTransaction:
    """Return what is told of a transaction, with these besides; ``state`` is left as it is."""
    known = state.told.get(identity) or ToldTransaction(identity=identity)
    return replace(
        known,
        resource_manager=handle.resource_manager if handle is not None else known.resource_manager,
        pipeline=max(known.pipeline, pipeline),
        about=known.about or about,
        handle=known.handle or handle,
        slot=handle.slot if handle is not None else known.slot,
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
    """Fold what one event tells of a checkpoint; rows and duration are those of a completed one, the reason a failed one's."""
    known = state.checkpoints.get((pipeline, number)) or CheckpointFacts(pipeline=pipeline, number=number)
    sources = known.sources if _TOLD_IN in known.sources else known.sources | {_TOLD_IN}
    match type_:
        case EventType.CHECKPOINT_STARTED:
            known = replace(known, sources=sources, started_ms=max(at_ms, known.started_ms or at_ms))
        case EventType.CHECKPOINT_COMPLETED if at_ms >= (known.completed_ms or -1):
            known = replace(known, sources=sources, completed_ms=at_ms, rows=rows, told_duration_ms=duration_ms)
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
        known = replace(known, completed_ms=max(file.at_ms, known.completed_ms or file.at_ms))
    state.checkpoints[key] = known


def _decision(state: State, seen: DecisionSeen) -> None:
    record = seen.record
    counts = state.ledger.apply(seen.offset, record)
    if isinstance(record, Decision):
        if counts and record.ruling is Ruling.COMMIT:
            decided = (record.about.batch, record.at_ms)
            state.last_decided[record.about.life] = max(decided, state.last_decided.get(record.about.life, decided))
        for handle in record.handles:
            identity = handle_identity(handle)
            state.told[identity] = told_of(state, identity, record.prefix, record.about, handle)
    if isinstance(record, RunStarted) or not record.who.startswith(OPERATOR):
        facts = state.pipelines.get(record.prefix) or PipelineFacts(pipeline=record.prefix)
        what = {RunStarted: "run started", Decision: "decision", Outcome: "outcome"}[type(record)]
        state.pipelines[record.prefix] = with_sign(facts, record.at_ms, f"{what} in the decision log")


def with_sign(facts: PipelineFacts, at_ms: int, sign: str) -> PipelineFacts:
    """Return the pipeline's facts with one more sign of life of its driver: the newest stays."""
    if (at_ms, sign) <= (facts.sign_ms or -1, facts.sign):
        return facts
    return replace(facts, sign_ms=at_ms, sign=sign)


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
