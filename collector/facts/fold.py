"""The one fold of observations into current state: each is a group of one, and many in columns are larger groups.

No I/O and no clock: the same observations give the same state, however they are grouped.

Observations of different sources may arrive in any order; those of the decision log arrive in log order, which its rules need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from indoubt.collector.facts.eviction import put_settled, trim_when_needed
from indoubt.collector.facts.state import (
    LastDecided,
    State,
    holds_offsets,
    put_with_older,
    take_from_older,
)
from indoubt.collector.records import broker_record_batch, event_reports
from indoubt.collector.records.branches import branch_key, with_gone, with_listed
from indoubt.collector.records.broker_record_batch import BrokerRecords
from indoubt.collector.records.event_reports import CheckpointReport
from indoubt.collector.records.facts import (
    BrokerIdentity,
    BrokerTransaction,
    CheckpointFacts,
    Init,
    Listed,
    PipelineFacts,
    ReportedTransaction,
    handle_identity,
    merged,
    merged_reports,
    of_record,
)
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob
from indoubt.collector.records.formats.lifecycle_event_batch import EventColumns
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    BranchGone,
    BranchListed,
    BrokerRecord,
    CheckpointFile,
    CheckpointFileKind,
    DecisionSeen,
    EventSeen,
    IdExpired,
    Observation,
    OffsetsSeen,
    OperatorOrder,
    Quarantined,
)
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.records.pipeline_runs import RUNS_KEPT, RunFacts, with_sign
from indoubt.lifecycle.decisions import CheckpointTakenOver, Decision, Kept, Outcome, Ruling, RunStarted
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.events import STOPPED_ON_REQUEST, EventType, LifecycleEvent

OPERATOR, BY_RUN = "operator:", "run "
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
            state.commits.longest_with_offsets.pop(observation.transaction, None)
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
        case Quarantined():
            state.malformed += 1
        case _:
            assert_never(observation)
    if not isinstance(observation, Quarantined | OperatorOrder):
        state.events += 1
    trim_when_needed(state)
    return observation


def put_records(state: State, records: BrokerRecords) -> None:
    """Fold states of the coordinator's log in columns: the same state as one by one, one step per transaction."""
    for transaction, first_ms, last_ms in broker_record_batch.uses(records):
        state.ids.see(transaction, first_ms)
        state.ids.see(transaction, last_ms)
    for transaction, init in broker_record_batch.inits(records):
        put_init(state, transaction, init)
    for new in broker_record_batch.transactions(records):
        put_transaction(state, new)
    state.events += len(records)
    trim_when_needed(state)


def put_events(state: State, events: EventColumns) -> None:
    """Fold lifecycle events of transactions and of checkpoints in columns, in the same way."""
    for reported in event_reports.transactions(events):
        put_reported(state, reported)
    for report in event_reports.checkpoints(events):
        _checkpoint_report(state, report)
    for pipeline, at_ms, last_heartbeat in event_reports.heartbeats(events):
        facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
        state.pipelines[pipeline] = with_heartbeat(facts, at_ms, last_heartbeat)
        state.signs.heard_of.add(pipeline)
    state.events += len(events)
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
        state.log_end_of.pop(identity, None)
        put_settled(state, after, before)
        if before is None or not before.is_final:
            state.ends.put(identity.transaction, is_commit=after.is_committing, ended_ms=after.ended_ms or 0)
    else:
        state.open.add(identity)
        if after.gone_ms is not None:
            put_settled(state, after, before)
    if after.is_aborting:
        state.aborted.add(identity)
    if after.is_committing and (before is None or not before.is_committing):
        state.commits.put(identity.transaction)
        _put_length(state, after)
    latest = state.latest_of_id.get(identity.transaction)
    if before is not None:
        take_from_older(state, identity, before.handle_identity)
    if latest is None or (latest.start_ms, latest.producer_id) <= (identity.start_ms, identity.producer_id):
        state.latest_of_id[identity.transaction] = identity
        if latest is not None and latest != identity:
            put_settled(state, state.broker[latest], state.broker[latest])
            put_with_older(state, latest)
    else:
        put_settled(state, after, before)
        put_with_older(state, identity)


def _put_length(state: State, committed: BrokerTransaction) -> None:
    """Note how long a committed transaction with offsets of its input was open."""
    id_, ended_ms = committed.identity.transaction, committed.ended_ms
    known_ms = state.commits.longest_with_offsets.get(id_)
    if known_ms is None and not holds_offsets(state, committed.partitions):
        return
    state.commits.longest_with_offsets[id_] = max(known_ms or 0, (ended_ms or 0) - committed.identity.start_ms)


def _branch(state: State, seen: BranchListed | BranchGone) -> None:
    key = branch_key(seen.resource_manager, seen.transaction, seen.instance)
    known = state.branches.get(key)
    state.branches[key] = with_listed(known, seen) if isinstance(seen, BranchListed) else with_gone(known, seen)


def _event(state: State, event: LifecycleEvent) -> None:
    pipeline = event_reports.text(event, "pipeline")
    settings = event.data.get("settings", {}) if event.type is EventType.PIPELINE_STARTED else {}
    if not isinstance(settings, dict):
        raise MalformedRecord(f"event field 'settings' is {settings!r}, not an object")
    kind = event.type.value.partition(".")[0]
    attempt = event_reports.whole_number(event, "attempt") if kind == "pipeline" else None
    if kind == "transaction":
        put_reported(state, event_reports.transaction_of(event))
    elif kind == "checkpoint":
        _checkpoint_report(state, event_reports.checkpoint_of(event))
    facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
    answer = (event.at_ms, str(event.data.get("order", "")))
    on_request = event.type is EventType.PIPELINE_STOPPED and event.data.get("reason") == STOPPED_ON_REQUEST
    # A supervisor's report is no sign of the run that it names: that one is over.
    if attempt is not None and attempt >= 0 and event.type is not EventType.PIPELINE_RESTARTING and not answer[1]:
        query_starts = event.type is EventType.PIPELINE_STARTED
        runs = with_sign(facts.runs, attempt, event.at_ms, query_starts=query_starts, stopped_on_request=on_request)
        facts = replace(facts, runs=runs)
    if event.type is EventType.PIPELINE_ALIVE:
        state.pipelines[pipeline] = replace(facts, alive_ms=max(event.at_ms, facts.alive_ms or event.at_ms))
        return
    if event.type is EventType.PIPELINE_STARTED:
        facts = replace(facts, started_attempt=max(facts.started_attempt, -1 if attempt is None else attempt))
        if event.at_ms >= (facts.started_ms or -1):
            facts = replace(facts, started_ms=event.at_ms, settings=settings)
    elif event.type is EventType.PIPELINE_RESTARTING:
        facts = replace(facts, restarting_ms=max(event.at_ms, facts.restarting_ms or event.at_ms))
        facts = replace(facts, restart_answer=max(answer, facts.restart_answer))
        facts = replace(facts, restarts_ms=tuple(sorted({*facts.restarts_ms, event.at_ms})[-RUNS_KEPT:]))
    elif event.type is EventType.PIPELINE_STOPPED:
        facts = replace(facts, stopped_ms=max(event.at_ms, facts.stopped_ms or event.at_ms))
        facts = replace(facts, stop_answer=max(answer, facts.stop_answer))
        if on_request:
            on_request_ms = max(event.at_ms, facts.stopped_on_request_ms or event.at_ms)
            facts = replace(facts, stopped_on_request_ms=on_request_ms)
    state.pipelines[pipeline] = with_heartbeat(facts, event.at_ms, f"event {event.type.value}")
    state.signs.heard_of.add(pipeline)


def put_reported(state: State, new: ReportedTransaction) -> None:
    """Fold what one event or decision, or several about one transaction, report of it."""
    known = state.reported.get(new.identity)
    state.reported[new.identity] = new if known is None else merged_reports(known, new)


def _checkpoint_report(state: State, report: CheckpointReport) -> None:
    type_, pipeline, attempt, number, at_ms, rows, duration_ms, reason = report
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
    if type_ is EventType.CHECKPOINT_COMPLETED and attempt is not None and attempt >= 0:
        # The batch that a new run repeats first may have been committed before: then its end is all that is seen of it.
        facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
        runs = with_sign(facts.runs, attempt, at_ms, commits=True, opened_ms=at_ms - (duration_ms or 0))
        state.pipelines[pipeline] = replace(facts, runs=runs)


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
            listed = Listed(record.batch_attempt, handle)
            put_reported(state, ReportedTransaction(identity=handle_identity(handle), listed=listed))
    if isinstance(record, RunStarted | CheckpointTakenOver) or not record.who.startswith(OPERATOR):
        facts = state.pipelines.get(record.prefix) or PipelineFacts(pipeline=record.prefix)
        what = _REPORTED_BY[type(record)]
        runs = _runs_after(facts, seen.offset, record, counts=counts)
        facts = replace(facts, runs=runs, logged_ms=max(record.at_ms, facts.logged_ms or record.at_ms))
        state.pipelines[record.prefix] = with_heartbeat(facts, record.at_ms, f"{what} in the decision log")
        state.signs.heard_of.add(record.prefix)
    return replace(seen, counts=counts)


def _runs_after(
    facts: PipelineFacts, offset: int, record: RunStarted | CheckpointTakenOver | Decision | Outcome, *, counts: bool
) -> Mapping[int, RunFacts]:
    """Return the pipeline's runs with what its own record in the decision log tells of them."""
    if isinstance(record, RunStarted):
        return with_sign(facts.runs, offset, record.at_ms, begins=True)
    if isinstance(record, Decision) and record.who.startswith(BY_RUN):
        opened_ms = min((handle.opened_at_ms for handle in record.handles), default=None)
        commits = counts and record.ruling is Ruling.COMMIT
        return with_sign(facts.runs, record.batch_attempt.attempt, record.at_ms, commits=commits, opened_ms=opened_ms)
    return facts.runs


def with_heartbeat(facts: PipelineFacts, at_ms: int, last_heartbeat: str) -> PipelineFacts:
    """Return the pipeline's facts with one more heartbeat of its driver: the newest stays."""
    if (at_ms, last_heartbeat) <= (facts.last_seen_ms or -1, facts.last_heartbeat):
        return facts
    return replace(facts, last_seen_ms=at_ms, last_heartbeat=last_heartbeat)
