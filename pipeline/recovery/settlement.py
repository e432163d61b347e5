"""Settlement: every handle of a decided batch is committed, or known to be lost, and its outcome appended to the log."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, assert_never

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Settled
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Committed, Lost, RetryLater, Unknown
from indoubt.pipeline.config.sink_settings import (
    SinkSettings,
    SinkTarget,
    connect,
    connect_databases,
    files_access,
    make_resource_managers,
    pairs,
    read_sinks,
)
from indoubt.pipeline.runtime.crash_points import NO_STEPS, CrashPoint, Steps
from indoubt.pipeline.runtime.event_sender import EventSender
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.global_transaction import COMMIT_LIMIT_S, ResourceManagers
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)

HOW_TO_SETTLE = (
    "compare the rows of this batch in the sink with its input, then tell the log what you found: "
    "indoubt pipeline settle, with the settings of run, --outcome committed (or lost), --who YOUR_NAME and --yes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAccess:
    """The settings of one sink, and how its brokers, its databases and its decision log are reached."""

    settings: SinkSettings
    connection: KafkaConnection
    databases: Mapping[str, DatabaseConnection]
    decisions: DecisionLog

    @classmethod
    def of(cls, settings: SinkSettings, *, limit_s: float, decisions_topic: str = "") -> Self:
        """Return the access that the settings' files give, once a broker answers; by default to the log that they name.

        Raises Unreachable when none does within ``limit_s``, SettingsError.
        """
        connection = connect(settings)
        connection.reach(limit_s)
        decisions = DecisionLog(connection, topic=decisions_topic or settings.decisions_topic)
        return cls(settings=settings, connection=connection, databases=connect_databases(settings), decisions=decisions)

    def managers(self, targets: Sequence[SinkTarget], producer_properties: str = "") -> ResourceManagers:
        """Return the resource managers of these targets."""
        return make_resource_managers(
            targets,
            self.connection,
            self.databases,
            files_access(self.settings),
            transaction_timeout_ms=self.settings.transaction_timeout_ms,
            decisions_topic=self.decisions.topic,
            producer_properties=pairs(producer_properties),
        )

    def events(self, pipeline: str, checkpoint_id: str, attempt: int) -> EventSender:
        """Return what sends events of one run of this prefix."""
        topic = self.settings.lifecycle_topic
        return EventSender(self.connection, topic, pipeline=pipeline, checkpoint_id=checkpoint_id, attempt=attempt)


class Settlement:
    """Settles what one decision log says was decided. ``sink`` is where it was written to.

    ``reported`` is how a person says that those ended whose end nothing proves; ``who`` stands in the log for it.
    """

    def __init__(
        self,
        access: SinkAccess,
        sink: str,
        *,
        who: str = "recovery",
        reported: Settled | None = None,
        steps: Steps = NO_STEPS,
    ) -> None:
        self._access, self._log, self._who, self._reported = access, access.decisions, who, reported
        self._targets = {target.resource_manager: target for target in read_sinks(sink)}
        self._steps = steps

    def settle(
        self,
        unsettled: Sequence[tuple[Decision, Handle]],
        events: EventSender,
        checkpoint_id: str,
        proven: Collection[str] = (),
    ) -> dict[str, Settled]:
        """Commit every decided handle, append the outcome of each; return outcomes by handle key.

        ``proven`` are the keys of handles that were committed for certain: no resource manager is asked about them. Raises
        ResourceManagerError when one of this checkpoint id stays unclear, SettingsError for a database without a connection.
        """
        if unsettled:
            log.warning("settling %d decided transactions that an earlier run left", len(unsettled))
        settled: dict[str, Settled] = {}
        unclear: list[str] = []
        for part in self._steps.in_parts(CrashPoint.MID_RECOVERY, unsettled, lambda pair: pair[1].resource_manager):
            unclear += self._settle_part(part, events, checkpoint_id, proven, settled)
        if unclear:
            raise ResourceManagerError(f"{len(unclear)} decided transactions could not be settled: {unclear[0]}")
        return settled

    def _settle_part(
        self,
        unsettled: Sequence[tuple[Decision, Handle]],
        events: EventSender,
        checkpoint_id: str,
        proven: Collection[str],
        settled: dict[str, Settled],
    ) -> list[str]:
        """Settle these and add each outcome to ``settled``; return a text for each that stays unclear."""
        outcomes = self._outcomes(unsettled, proven)
        unclear: list[str] = []
        ended: dict[tuple[BatchAttempt, Settled], tuple[Decision, list[Handle]]] = {}
        for (decision, handle), outcome in zip(unsettled, outcomes, strict=True):
            how = self._settled(outcome)
            if isinstance(how, str):
                text = f"{handle.resource_manager} {handle.transaction} of batch {decision.batch_attempt.batch}: {how}"
                if isinstance(outcome, Unknown) and decision.batch_attempt.checkpoint_id != checkpoint_id:
                    log.error("left as it is, for it belongs to another checkpoint directory: %s", text)
                else:
                    unclear.append(text)
                continue
            settled[handle.key] = how
            ended.setdefault((decision.batch_attempt, how), (decision, []))[1].append(handle)
            kind = EventType.TRANSACTION_COMMITTED if how is Settled.COMMITTED else EventType.TRANSACTION_LOST
            reason = outcome.reason if isinstance(outcome, Lost) else f"settled by {self._who}"
            events.transaction(kind, handle, decision.batch_attempt.batch, reason=reason)
            log.warning("%s of batch %d: %s", handle.transaction, decision.batch_attempt.batch, how.value)
        self._log.append_all([self._record(decision, how, of) for (_, how), (decision, of) in ended.items()])
        return unclear

    def _record(self, decision: Decision, how: Settled, handles: Sequence[Handle]) -> Outcome:
        return Outcome(
            prefix=decision.prefix,
            batch_attempt=decision.batch_attempt,
            handle_keys=tuple(handle.key for handle in handles),
            settled=how,
            who=self._who,
            at_ms=now_ms(),
        )

    def _outcomes(
        self, unsettled: Sequence[tuple[Decision, Handle]], proven: Collection[str]
    ) -> Sequence[CommitOutcome]:
        """Commit those that nothing proves; return the outcome of each handle, in order."""
        asked = [(decision, handle) for decision, handle in unsettled if handle.key not in proven]
        answers: dict[str, CommitOutcome] = {}
        if asked:
            handles = [handle for _, handle in asked]
            markers = [decision.batch_attempt.marker for decision, _ in asked]
            found = self._managers(handles).commit(handles, markers, COMMIT_LIMIT_S)
            answers = {outcome.handle.key: outcome for outcome in found}
        return [answers.get(handle.key, AlreadyCommitted(handle=handle)) for _, handle in unsettled]

    def _managers(self, handles: Sequence[Handle]) -> ResourceManagers:
        """Return resource managers for these handles. Raises SettingsError when one of them cannot be reached.

        A checkpoint that was given up may have written elsewhere under its prefix: to finish by handle takes no target.
        """
        names = dict.fromkeys(handle.resource_manager for handle in handles)
        targets = [self._targets.get(name, SinkTarget(resource_manager=name, target="")) for name in names]
        return self._access.managers(targets)

    def _settled(self, outcome: CommitOutcome) -> Settled | str:
        match outcome:
            case Committed() | AlreadyCommitted():
                return Settled.COMMITTED
            case Lost():
                return Settled.LOST
            case RetryLater():
                return f"no answer yet ({outcome.reason}): start again when it is well"
            case Unknown():
                if self._reported is not None:
                    return self._reported
                return f"it is unknown whether it was committed ({outcome.reason}): {HOW_TO_SETTLE}"
            case other:
                assert_never(other)


def proven_by_spark(ledger: DecisionLedger, checkpoint_id: str, finished: int | None) -> frozenset[str]:
    """Return the keys of this checkpoint id's decided handles whose commit Spark's own commit log proves.

    Spark writes commits/N when the sink has returned from committing batch N, which it does when every handle of its last
    decision is committed. ``finished`` is the newest N of the checkpoint id's directory. The proof does not expire as markers
    do.
    """
    batch = ledger.last_decided_batch(checkpoint_id)
    if batch is None or finished is None or batch > finished:
        return frozenset()
    return frozenset(handle.key for handle in ledger.commits_of(checkpoint_id, batch)[-1].handles)
