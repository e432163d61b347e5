"""Recovery, once per run before the query starts: settle what was decided, roll back what was not, plan the replay.

Never called from ``streamWriter``, which also runs in the commit worker, once a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import Decision, RunStarted, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable, SettingsError
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.resource_manager_kinds import FILES
from indoubt.pipeline.checkpoints.checkpoint_directory import (
    CheckpointDirectory,
    CheckpointIdentity,
    TopicIds,
    keep_sources,
    refuse_other_topics,
)
from indoubt.pipeline.config.sink_settings import KAFKA, SinkSettings, read_sinks
from indoubt.pipeline.recovery.run_start import RunStart
from indoubt.pipeline.recovery.settlement import Settlement, SinkAccess, proven_by_spark
from indoubt.pipeline.recovery.sweep import Sweep, must_commit
from indoubt.pipeline.runtime.crash_points import NO_STEPS, Steps
from indoubt.pipeline.runtime.event_sender import EventSender
from indoubt.pipeline.sink.replay import ReplayPlan, plan_replay
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.global_transaction import ResourceManagers
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)
DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a run starts from. ``checkpoint`` is its directory, as Spark is given it."""

    identity: CheckpointIdentity
    checkpoint: str
    attempt: int
    plan: ReplayPlan | None
    committed: int
    lost: int
    rolled_back: int


class Recovery:
    """Recovers one pipeline; also sweeps now and then, and after a stop."""

    def __init__(
        self,
        settings: SinkSettings,
        connection: KafkaConnection,
        databases: Mapping[str, DatabaseConnection] | None = None,
        steps: Steps = NO_STEPS,
    ) -> None:
        self._settings, self._connection, self._databases = settings, connection, dict(databases or {})
        self._log = DecisionLog(connection, topic=settings.decisions_topic)
        self._access = SinkAccess(
            settings=settings, connection=connection, databases=self._databases, decisions=self._log
        )
        self._sweep = Sweep(self._access)
        self._steps = steps
        self._run = self._checkpoint_id = ""

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> None:
        """Return when every sink can take these columns. Raises SettingsError naming what is wrong, Unreachable."""
        self._managers().verify(columns)

    def recover(self, run: str = "", sources: TopicIds | None = None) -> Recovered:
        """Start a run in the log, settle every handle of a decided batch, roll back everything else of this prefix.

        ``run`` is its id, made here unless given; ``sources``: the topics that are known to be read. Raises ResourceManagerError
        when a decided handle could not be settled (the run must not start then), SettingsError when the checkpoint directory is
        not one to go on from or the decision log forgets, CheckpointUnwritable, DecisionLogUnreadable.
        """
        settings = self._settings
        self._log.ensure_topic(settings.decisions_replication_factor, settings.decisions_min_insync_replicas)
        self._run = run or uuid4().hex
        start = RunStart(self._access, sinks=self._managers().identities(), sources=sources or {})
        started = start.start(self._run)
        ledger, checkpoint_id = started.ledger, started.identity.checkpoint_id
        self._checkpoint_id = checkpoint_id
        events = self.events(started.attempt)
        settlement = Settlement(self._access, settings.sink, steps=self._steps)
        proven = proven_by_spark(ledger, checkpoint_id, started.progress.finished)
        settled = settlement.settle(ledger.unsettled(settings.prefix), events, checkpoint_id, proven)
        settled |= settlement.settle(self._decided_and_open(ledger, settled), events, checkpoint_id)
        rolled_back = self._sweep.before_start(started.attempt)
        self._warn_of(ledger.left_behind(settings.prefix))
        known = _known_outcomes(ledger, settings.prefix, checkpoint_id) | settled
        return Recovered(
            identity=started.identity,
            checkpoint=start.directory.location.for_spark,
            attempt=started.attempt,
            plan=plan_replay(ledger, settings.prefix, checkpoint_id, known),
            committed=sum(outcome is Settled.COMMITTED for outcome in settled.values()),
            lost=sum(outcome is Settled.LOST for outcome in settled.values()),
            rolled_back=rolled_back,
        )

    def events(self, attempt: int) -> EventSender:
        """Return what sends the events of the run that ``recover`` started."""
        return self._access.events(self._settings.prefix, self._checkpoint_id, attempt)

    def options(self, recovered: Recovered) -> SinkOptions:
        """Return the sink's options for the run that was recovered."""
        return SinkOptions.of(
            self._settings,
            self._connection,
            self._databases,
            checkpoint_id=recovered.identity.checkpoint_id,
            attempt=recovered.attempt,
            plan=recovered.plan,
        )

    def require_unchanged(self, sources: TopicIds) -> None:
        """Return while directory, sources and sink topic are what this run started with; keep topics that are new.

        Raises SettingsError naming what is another one now, CheckpointUnwritable, Unreachable, ResourceManagerError.
        """
        directory = CheckpointDirectory.at(self._settings)
        kept = directory.read()
        if kept is None or kept.checkpoint_id != self._checkpoint_id:
            raise SettingsError(
                f"checkpoint directory {directory.location.for_spark} was given to another pipeline, or replaced, while this run "
                "wrote from it: this run ends"
            )
        topics = [sink.target for sink in read_sinks(self._settings.sink) if sink.resource_manager == KAFKA]
        now = "".join(self._connection.topic_ids(topics).values())
        refuse_other_topics(directory, kept, {KAFKA: now}, sources)
        keep_sources(directory, sources)

    def superseded_by(self, attempt: int) -> RunStarted | None:
        """Return the newest run of this prefix or checkpoint id that started after ours, or None while ours is the newest."""
        newer = self._log.read_to_end().newer_run(self._settings.prefix, self._checkpoint_id, attempt)
        return newer[1] if newer else None

    def sweep(self) -> int:
        """Roll back what this run left open, when no batch is under way and none will come; return how many.

        Nothing once a newer run of the prefix has started: what is open is its own then. Raises ResourceManagerError naming
        the first that could not be rolled back, DecisionLogUnreadable.
        """
        return self._sweep.after([self._run])

    def sweep_unused(self, attempt: int) -> int:
        """Roll back what zombies left open while this run goes on, never what is of its batch under way; return how many."""
        return self._sweep.unused(attempt)

    def keep_log_short(self, attempt: int) -> None:
        """Write a snapshot into the decision log when one is due, and cut the log behind it; what fails is logged."""
        keep_short(self._log, self._settings, self._checkpoint_id, attempt)

    def _managers(self) -> ResourceManagers:
        settings = self._settings
        return self._access.managers(read_sinks(settings.sink), settings.producer_properties)

    def _warn_of(self, out_of_reach: Collection[str]) -> None:
        for name in sorted(out_of_reach):
            if name == FILES.name:
                log.warning(
                    "an earlier run of %r wrote files to a directory that is no sink now: what it left below _indoubt/branches "
                    "there stays, and no reader sees it. Start once with that sink: then it is removed, unless it was decided "
                    "to be committed",
                    self._settings.prefix,
                )
                continue
            log.warning(
                "an earlier run of %r wrote to %s, which no setting says how to reach: a branch that it left prepared there keeps "
                "its rows locked. Start once with %s.host, .user and .database in the file of --database-properties: then it "
                "is rolled back, unless it was decided to be committed",
                self._settings.prefix,
                name,
                name,
            )

    def _decided_and_open(
        self, ledger: DecisionLedger, settled: Mapping[str, Settled]
    ) -> list[tuple[Decision, Handle]]:
        """Return what is open, decided, and not of a checkpoint id's last decided batch, to which no run should ever come."""
        return [
            (decision, handle)
            for view in self._sweep.open()
            if view.key not in settled and (decision := must_commit(ledger, view.key))
            for handle in decision.handles
            if handle.key == view.key
        ]


def _known_outcomes(ledger: DecisionLedger, prefix: str, checkpoint_id: str) -> dict[str, Settled]:
    outcomes = {
        handle.key: ledger.outcome(handle.key)
        for _, decision in ledger.commit_decisions(prefix, checkpoint_id)
        for handle in decision.handles
    }
    return {key: outcome.settled for key, outcome in outcomes.items() if outcome is not None}


def keep_short(decisions: DecisionLog, settings: SinkSettings, checkpoint_id: str, attempt: int) -> bool:
    """Write a snapshot when the newest one is old, and cut the log behind it; return whether one was written.

    Only the newest run does. What fails is logged and tried again at the next call: the log is longer meanwhile, no more.
    """
    try:
        ledger = decisions.read_to_end()
        newest = decisions.newest_snapshot
        age_ms = now_ms() - newest.at_ms if newest else None
        is_due = age_ms is None or age_ms >= settings.decisions_snapshot_interval_ms
        if not is_due or ledger.newer_run(settings.prefix, checkpoint_id, attempt) is not None:
            return False
        before = decisions.snapshot(settings.prefix, f"run {attempt}")
        first = decisions.cut(before, settings.decisions_keep_days * DAY_MS)
        log.info(
            "%s: a snapshot stands for what is before offset %d, the log begins at %d", decisions.topic, before, first
        )
        return True
    except DecisionLogUnreadable as error:
        log.warning("the decision log was not shortened, which is tried again: %s", error)
        return False
