"""The transaction manager of a batch (X/Open): check, decide, commit; or abort. Runs beside the driver, once a batch."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import assert_never

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable, IndoubtError, ResourceManagerError
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Committed, Lost, RetryLater, RolledBack, Unknown
from indoubt.pipeline.config.sink_settings import COMMIT_MARGIN_MS
from indoubt.pipeline.runtime.crash_points import NO_STEPS, CrashPoint, Steps
from indoubt.pipeline.runtime.timeout_watch import WARNING_RATIO, report_timeout_near
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.pipeline.sink.slot_writer import SlotMessage
from indoubt.resource_managers.global_transaction import COMMIT_LIMIT_S
from indoubt.resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)

_logs: dict[tuple[int, str, str], DecisionLog] = {}


def _decision_log(options: SinkOptions) -> DecisionLog:
    # Kept across batches: Spark reuses the worker, and the log is then read on from where the last batch ended.
    key = (os.getpid(), options.kafka_secret, options.decisions_topic)
    if key not in _logs:
        _logs[key] = DecisionLog(options.kafka(), topic=options.decisions_topic)
    return _logs[key]


class BatchAborted(IndoubtError):
    """This attempt at the batch cannot be committed any more; Spark replays it after a restart."""


class Coordinator:
    """Settles one batch of one run."""

    def __init__(self, options: SinkOptions) -> None:
        self._options, self._steps = options, options.steps()
        self._managers = options.resource_managers()
        self._events = options.events()

    def commit(self, messages: Sequence[SlotMessage], batch: int) -> None:
        """Decide to commit the batch and do it.

        Raises BatchAborted before the decision, DecisionVoid when another process decided first, and after the decision the
        first error of a handle that could not be committed, when all have been tried.
        """
        rows = sum(message.rows for message in messages)
        # A batch without rows is let through: nothing of it could be lost.
        steps = self._steps if rows else NO_STEPS
        if self._options.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            steps.reach(CrashPoint.AFTER_PREPARE)
            handles = self._choose(messages, batch)
            if handles:
                self._check(
                    handles, batch, reported=frozenset[str]().union(*(message.timeout_reported for message in messages))
                )
                steps.reach(CrashPoint.BEFORE_DECISION)
                self._decide(handles, batch)
                steps.reach(CrashPoint.AFTER_DECISION)
                self._commit(handles, batch, steps)
        steps.reach(CrashPoint.AFTER_COMMIT)
        ended_ms = now_ms()
        self._events.checkpoint(
            EventType.CHECKPOINT_COMPLETED,
            batch,
            rows=rows,
            bytes=sum(message.bytes for message in messages),
            duration_ms=ended_ms - min((message.started_at_ms for message in messages), default=ended_ms),
        )

    def abort(self, messages: Sequence[SlotMessage], batch: int) -> None:
        """Roll back the prepared transactions, unless a commit decision for this attempt counts: then do nothing."""
        self._events.checkpoint(EventType.CHECKPOINT_FAILED, batch, reason="the attempt was aborted")
        handles = [handle for message in messages for handle in message.handles]
        if not handles:
            return
        try:
            decision = _decision_log(self._options).read_to_end().counting(self._batch_attempt(batch))
        except DecisionLogUnreadable as error:
            log.error("batch %d: nothing is rolled back while the decision log cannot be read: %s", batch, error)
            return
        if decision is not None and decision.ruling is Ruling.COMMIT:
            log.warning("batch %d was decided to be committed: its transactions stay for recovery to commit", batch)
            return
        self._roll_back(handles, batch)

    def _batch_attempt(self, batch: int) -> BatchAttempt:
        return BatchAttempt(checkpoint_id=self._options.checkpoint_id, batch=batch, attempt=self._options.attempt)

    def _choose(self, messages: Sequence[SlotMessage], batch: int) -> list[Handle]:
        prepared = [handle for message in messages for handle in message.handles]
        plan = self._options.plan
        if plan is None or plan.batch != batch:
            return prepared
        chosen, surplus = plan.choose(prepared, [message.fingerprint for message in messages])
        if surplus:
            self._roll_back(surplus, batch)
        return chosen

    def _check(self, handles: Sequence[Handle], batch: int, reported: frozenset[str]) -> None:
        """Raise BatchAborted unless every handle could be committed; warn of those near their timeout but not ``reported`` yet."""
        for readiness in self._managers.check(handles):
            handle, left_ms = readiness.handle, readiness.time_left_ms
            if not readiness.ready:
                raise BatchAborted(f"batch {batch}: {handle.transaction} cannot be committed: {readiness.reason}")
            if handle.timeout_ms <= 0:
                continue
            if left_ms < COMMIT_MARGIN_MS:
                raise BatchAborted(
                    f"batch {batch}: {handle.transaction} has {left_ms} ms left of {handle.timeout_ms} ms, less than "
                    f"{COMMIT_MARGIN_MS}: raise transaction_timeout_ms or make batches smaller"
                )
            age_ms = handle.timeout_ms - left_ms
            if age_ms > handle.timeout_ms * WARNING_RATIO and handle.key not in reported:
                report_timeout_near(self._events, handle, batch, age_ms)

    def _decide(self, handles: Sequence[Handle], batch: int) -> None:
        decision = Decision(
            prefix=self._options.prefix,
            batch_attempt=self._batch_attempt(batch),
            ruling=Ruling.COMMIT,
            handles=tuple(handles),
            who=f"run {self._options.attempt}",
            at_ms=now_ms(),
        )
        offset = _decision_log(self._options).decide(decision)
        for handle in handles:
            self._events.transaction(EventType.TRANSACTION_COMMIT_DECIDED, handle, batch, decision_offset=offset)

    def _commit(self, handles: Sequence[Handle], batch: int, steps: Steps) -> None:
        errors: list[str] = []
        for part in steps.in_parts(CrashPoint.MID_COMMIT, handles, lambda handle: handle.resource_manager):
            marker = self._batch_attempt(batch).marker
            outcomes = self._managers.commit(part, [marker] * len(part), COMMIT_LIMIT_S)
            self._record(outcomes, batch)
            errors += filter(None, (self._tell(outcome, batch) for outcome in outcomes))
        if errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise ResourceManagerError(f"batch {batch} is decided but not all of it is committed: {errors[0]}{more}")

    def _record(self, outcomes: Sequence[CommitOutcome], batch: int) -> None:
        """Have the log say which transactions are committed: markers expire, it does not. The batch does not wait for that.

        What is lost is left to recovery to say, which looks again.
        """
        committed = [outcome.handle.key for outcome in outcomes if isinstance(outcome, Committed | AlreadyCommitted)]
        if not committed:
            return
        record = Outcome(
            prefix=self._options.prefix,
            batch_attempt=self._batch_attempt(batch),
            handle_keys=tuple(committed),
            settled=Settled.COMMITTED,
            who=f"run {self._options.attempt}",
            at_ms=now_ms(),
        )
        try:
            _decision_log(self._options).append_soon(record)
        except DecisionLogUnreadable as error:
            log.warning("batch %d is committed, which the decision log does not say: %s", batch, error)

    def _tell(self, outcome: CommitOutcome, batch: int) -> str:
        """Send the event of one outcome; return an error text, empty when it is committed."""
        handle = outcome.handle
        match outcome:
            case Committed() | AlreadyCommitted():
                self._events.transaction(EventType.TRANSACTION_COMMITTED, handle, batch)
                return ""
            case Lost():
                self._events.transaction(EventType.TRANSACTION_LOST, handle, batch, reason=outcome.reason)
                return f"{handle.transaction} was lost ({outcome.reason}); its rows are replayed after the restart"
            case RetryLater():
                return f"{handle.transaction} is not committed yet ({outcome.reason}); recovery tries again"
            case Unknown():
                return f"it is unknown whether {handle.transaction} was committed ({outcome.reason})"
            case other:
                assert_never(other)

    def _roll_back(self, handles: Sequence[Handle], batch: int) -> None:
        for outcome in self._managers.rollback(handles, COMMIT_LIMIT_S):
            if isinstance(outcome, RolledBack):
                self._events.transaction(EventType.TRANSACTION_ABORTED, outcome.handle, batch)
            else:
                log.warning("batch %d: %s was not rolled back: %s", batch, outcome.handle.transaction, outcome)
