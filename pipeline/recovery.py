"""Recovery, once per run before the query starts: settle what was decided, roll back what was not, plan the replay.

Never called from ``streamWriter``, which also runs in the commit worker, once a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never
from uuid import uuid4

import pyarrow as pa

from lifecycle.branch_id import BranchId
from lifecycle.decisions import Decision, DecisionLedger, Outcome, RunStarted, Settled
from lifecycle.errors import ResourceManagerError, SettingsError
from lifecycle.events import EventType
from lifecycle.identity import Handle, Marker, TransactionalId
from lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Committed, Lost, RetryLater, Unknown
from pipeline.checkpoint_directory import Life, has_unfinished_batch, open_checkpoint, write
from pipeline.crash_points import CrashPoint, CrashPoints
from pipeline.event_sender import EventSender
from pipeline.replay import ReplayPlan, plan_replay
from pipeline.settings import PipelineSettings, crash_points_directory
from pipeline.sink_options import SinkOptions
from pipeline.sinks import SinkTarget, make_resource_managers, read_sinks, same_sinks
from resource_managers.database_connection import DatabaseConnection
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.protocol import OpenTransactionView
from resource_managers.several import ResourceManagers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a run starts from."""

    life: Life
    attempt: int
    plan: ReplayPlan | None
    committed: int
    lost: int
    rolled_back: int


class Recovery:
    """Recovers one pipeline; also sweeps now and then, and after a stop."""

    def __init__(
        self,
        settings: PipelineSettings,
        connection: KafkaConnection,
        databases: Mapping[str, DatabaseConnection] | None = None,
    ) -> None:
        self._settings, self._connection, self._databases = settings, connection, dict(databases or {})
        self._log = DecisionLog(connection, topic=settings.decisions_topic)
        self._crash_points = CrashPoints(directory=crash_points_directory())
        self._managers = self._make(read_sinks(settings.sink))
        self._attempt: int | None = None
        self._life = ""

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> None:
        """Return when every sink can take these columns. Raises SettingsError naming what is wrong, Unreachable."""
        self._managers.verify(columns)

    def recover(self) -> Recovered:
        """Start a run in the log, settle every handle of a decided batch, roll back everything else of this prefix.

        Raises ResourceManagerError when a decided handle could not be settled (the run must not start then),
        SettingsError when sink or prefix changed while something is undecided, CheckpointUnwritable,
        DecisionLogUnreadable.
        """
        settings = self._settings
        life, _ = open_checkpoint(settings.checkpoint, settings.prefix, settings.sink, settings.decisions_topic)
        life = self._adopt(life)
        self._life = life.life
        run = RunStarted(prefix=settings.prefix, life=life.life, run=uuid4().hex, at_ms=_now_ms())
        attempt = self._attempt = self._log.start_run(run)
        ledger = self._log.read_to(attempt)
        events = EventSender(
            self._connection, settings.lifecycle_topic, pipeline=settings.prefix, life=life.life, attempt=attempt
        )
        settled = self._settle(ledger.unsettled(settings.prefix), events)
        settled |= self._settle(self._decided_and_open(ledger, settled), events)
        rolled_back = self.sweep()
        known = self._known_outcomes(ledger, life.life) | settled
        plan = plan_replay(ledger, life.life, known)
        return Recovered(
            life=life,
            attempt=attempt,
            plan=plan,
            committed=sum(outcome is Settled.COMMITTED for outcome in settled.values()),
            lost=sum(outcome is Settled.LOST for outcome in settled.values()),
            rolled_back=rolled_back,
        )

    def options(self, recovered: Recovered) -> SinkOptions:
        """Return the sink's options for the run that was recovered."""
        return SinkOptions.of(
            self._settings,
            self._connection,
            self._databases,
            life=recovered.life.life,
            attempt=recovered.attempt,
            plan=recovered.plan,
        )

    def overtaken_by(self, attempt: int) -> RunStarted | None:
        """Return the newer run of this prefix, or None while ours is the newest."""
        latest = self._log.read_to_end().latest_run(self._settings.prefix)
        return latest[1] if latest and latest[0] > attempt else None

    def sweep(self) -> int:
        """Roll back every open transaction of this prefix that no counting decision lists; return how many.

        For when no batch is under way. Nothing is rolled back once a newer run of the prefix has started: what is open is
        its own then. Raises ResourceManagerError naming the first that could not be rolled back.
        """
        if self._attempt is not None and self.overtaken_by(self._attempt) is not None:
            return 0
        return self._roll_back(self._managers.recover(self._settings.prefix))

    def sweep_unused(self, attempt: int) -> int:
        """Roll back, while a run goes on, what zombie executors of earlier runs, and tries of tasks that died, left open.

        Never what belongs to the batch under way. Kafka's ids are pooled, so there it is what lies in slots that this run
        has not, from before its last decision: the batch under way may have more slots than the last one. A database's
        branch says its attempt and batch itself.
        """
        ledger = self._log.read_to_end()
        mine = [d for _, d in ledger.commit_decisions(self._settings.prefix) if d.about.attempt == attempt]
        if not mine or not mine[-1].handles:
            return 0
        last = mine[-1]
        views = self._managers.recover(self._settings.prefix)
        return self._roll_back([view for view in views if _is_left_over(view, last)])

    def _decided_and_open(
        self, ledger: DecisionLedger, settled: Mapping[str, Settled]
    ) -> list[tuple[Decision, Handle]]:
        """Return what is open, decided, and not of a life's last decided batch, to which no run should ever come."""
        return [
            (decision, handle)
            for view in self._managers.recover(self._settings.prefix)
            if view.key not in settled and (decision := _must_commit(ledger, view.key))
            for handle in decision.handles
            if handle.key == view.key
        ]

    def _roll_back(self, views: Sequence[OpenTransactionView]) -> int:
        ledger = self._log.read_to_end()
        left = [view for view in views if _must_commit(ledger, view.key) is None]
        errors = [error for error in self._managers.fence(left, self._settings.commit_limit_ms / 1000) if error]
        if errors:
            raise ResourceManagerError(
                f"{len(errors)} of {len(left)} open transactions were not rolled back: {errors[0]}"
            )
        for view in left:
            log.warning("rolled back %s, which no decision lists", view.transaction)
        return len(left)

    def _adopt(self, life: Life) -> Life:
        """Take over a checkpoint whose prefix, sink or decision log is another one now; refuse while something is in doubt."""
        settings = self._settings
        wanted = Life(life=life.life, prefix=settings.prefix, sink=settings.sink, decisions=settings.decisions_topic)
        before = replace(life, decisions=life.decisions or wanted.decisions)
        if (
            before.prefix == wanted.prefix
            and same_sinks(before.sink, wanted.sink)
            and before.decisions == wanted.decisions
        ):
            if life.decisions != wanted.decisions:
                write(settings.checkpoint, before)
            return before
        if has_unfinished_batch(settings.checkpoint):
            raise SettingsError(
                f"checkpoint {settings.checkpoint} was used with {_said(before)}, and its last batch is unfinished: start "
                f"once more with these to settle it, before changing to {_said(wanted)}"
            )
        write(settings.checkpoint, wanted)
        return wanted

    def _settle(self, unsettled: Sequence[tuple[Decision, Handle]], events: EventSender) -> dict[str, Settled]:
        """Commit every decided handle, append the outcome of each; return outcomes by handle key."""
        if unsettled:
            log.warning("settling %d decided transactions that an earlier run left", len(unsettled))
        armed = self._crash_points.is_armed(CrashPoint.MID_RECOVERY)
        first = (len(unsettled) + 1) // 2 if armed else len(unsettled)
        settled: dict[str, Settled] = {}
        unclear = self._settle_part(unsettled[:first], events, settled)
        self._crash_points.reach(CrashPoint.MID_RECOVERY)
        unclear += self._settle_part(unsettled[first:], events, settled)
        if unclear:
            raise ResourceManagerError(f"{len(unclear)} decided transactions could not be settled: {unclear[0]}")
        return settled

    def _settle_part(
        self, unsettled: Sequence[tuple[Decision, Handle]], events: EventSender, settled: dict[str, Settled]
    ) -> list[str]:
        """Settle these and add each outcome to ``settled``; return a text for each that stays unclear."""
        markers = [_marker(decision) for decision, _ in unsettled]
        handles = [handle for _, handle in unsettled]
        managers = self._holders(handles)
        outcomes = managers.commit(handles, markers, self._settings.commit_limit_ms / 1000)
        unclear: list[str] = []
        records: list[Outcome] = []
        for (decision, handle), outcome in zip(unsettled, outcomes, strict=True):
            how = _settled(outcome)
            if isinstance(how, str):
                text = f"{handle.resource_manager} {handle.transaction} of batch {decision.about.batch}: {how}"
                if isinstance(outcome, Unknown) and decision.about.life != self._life:
                    log.error("left as it is, for it belongs to another checkpoint directory: %s", text)
                else:
                    unclear.append(text)
                continue
            settled[handle.key] = how
            records.append(
                Outcome(
                    prefix=decision.prefix,
                    about=decision.about,
                    handle_key=handle.key,
                    settled=how,
                    who="recovery",
                    at_ms=_now_ms(),
                )
            )
            kind = EventType.TRANSACTION_COMMITTED if how is Settled.COMMITTED else EventType.TRANSACTION_LOST
            reason = outcome.reason if isinstance(outcome, Lost) else "settled by recovery"
            events.transaction(kind, handle, decision.about.batch, reason=reason)
            log.warning("%s of batch %d: %s", handle.transaction, decision.about.batch, how.value)
        self._log.append_all(records)
        return unclear

    def _holders(self, handles: Sequence[Handle]) -> ResourceManagers:
        """Return resource managers for these handles. Raises SettingsError when one of them cannot be reached.

        A checkpoint that was given up may have written elsewhere under this prefix: to finish by handle takes no target.
        """
        others = dict.fromkeys(h.resource_manager for h in handles if h.resource_manager not in self._managers.names)
        if not others:
            return self._managers
        sinks = [SinkTarget(resource_manager=name, target="") for name in others]
        return self._make([*read_sinks(self._settings.sink), *sinks])

    def _make(self, sinks: Sequence[SinkTarget]) -> ResourceManagers:
        return make_resource_managers(
            sinks,
            self._connection,
            self._databases,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            decisions_topic=self._settings.decisions_topic,
        )

    @staticmethod
    def _known_outcomes(ledger: DecisionLedger, life: str) -> dict[str, Settled]:
        found = {}
        for decision in ledger.life_commits(life):
            for handle in decision.handles:
                outcome = ledger.outcome(handle.key)
                if outcome is not None:
                    found[handle.key] = outcome.settled
        return found


def _settled(outcome: CommitOutcome) -> Settled | str:
    match outcome:
        case Committed() | AlreadyCommitted():
            return Settled.COMMITTED
        case Lost():
            return Settled.LOST
        case RetryLater():
            return f"no answer yet ({outcome.reason}): start again when it is well"
        case Unknown():
            return (
                f"nobody can tell whether it was committed ({outcome.reason}): compare the sink with the input by hand; "
                "then start with a new checkpoint directory, or append its outcome to the decision log"
            )
        case other:
            assert_never(other)


def _marker(decision: Decision) -> Marker:
    return Marker(batch=decision.about.batch, attempt=decision.about.attempt, life=decision.about.life)


def _must_commit(ledger: DecisionLedger, key: str) -> Decision | None:
    """Return the commit decision that counts and lists this transaction, unless it is known to be lost."""
    listing, outcome = ledger.listing(key), ledger.outcome(key)
    return listing[1] if listing and (outcome is None or outcome.settled is not Settled.LOST) else None


def _is_left_over(view: OpenTransactionView, last: Decision) -> bool:
    """Say whether a transaction of the prefix cannot belong to a batch after ``last``, the run's last decision."""
    pooled = TransactionalId.parse(view.transaction)
    if view.producer_id is not None and pooled is not None:
        slots = max((handle.slot for handle in last.handles), default=-1) + 1
        return pooled.slot >= slots and (view.started_at_ms or 0) < last.at_ms
    branch = BranchId.parse(view.transaction)
    about = last.about
    return branch is not None and (
        branch.attempt < about.attempt or (branch.attempt == about.attempt and branch.batch <= about.batch)
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _said(life: Life) -> str:
    return f"prefix {life.prefix!r}, sink {life.sink!r} and decision log {life.decisions!r}"
