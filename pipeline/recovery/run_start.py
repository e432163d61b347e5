"""The start of a run: whose directory this is, what is refused, and the run's record in the decision log.

What is refused would write rows again that are there, or leave out rows that are not. It is refused before the record is
appended, so that a start by mistake stops no other run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.errors import MalformedRecord, SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.pipeline.checkpoints.checkpoint_directory import (
    FILE,
    TAKE_OVER,
    CheckpointDirectory,
    CheckpointIdentity,
    SparkProgress,
    TopicIds,
    check_history,
    refuse_other_topics,
    with_sources,
)
from indoubt.pipeline.checkpoints.damaged_logs import check_logs, written_by
from indoubt.pipeline.config.sink_settings import KAFKA, read_sinks, same_sinks
from indoubt.pipeline.recovery.adoption import Adoption, goes_on_as, may_share_a_sink, said_of
from indoubt.pipeline.recovery.settlement import SinkAccess
from indoubt.resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run that stands in the log, the directory that it goes on from, and how far Spark had got there."""

    identity: CheckpointIdentity
    attempt: int
    ledger: DecisionLedger
    progress: SparkProgress


class RunStart:
    """Starts one run. ``sinks``: what its topic and tables are; ``sources``: its topics, as far as they are known before the
    query is."""

    def __init__(self, access: SinkAccess, *, sinks: Mapping[str, str], sources: TopicIds) -> None:
        self._access, self._settings, self._log = access, access.settings, access.decisions
        self._sinks, self._sources = sinks, sources
        self.directory = CheckpointDirectory.open(access.settings)

    def start(self, run: str) -> StartedRun:
        """Append the run's start and return it. ``run`` is its id.

        Raises SettingsError for what must not go on, CheckpointUnwritable, Unreachable, ResourceManagerError when what was
        decided under other settings could not be settled, DecisionLogUnreadable.
        """
        found = self._current(self._find())
        self._check_logs(found)
        if found.is_taken_over:
            identity = self._new_identity()
            attempt = self._append(identity, run)
            self.directory.replace(found, identity)
        elif self._is_same(found):
            refuse_other_topics(self.directory, found, self._sinks, self._sources)
            identity = replace(found, sink=self._settings.sink, becomes="", sinks=self._noted(found.sinks))
            identity = with_sources(identity, self._sources)
            self._refuse(identity, self._log.read_to_end())
            attempt = self._append(identity, run)
            # Another run may have decided between the first look and the record, which ends its decisions.
            self._refuse(identity, self._log.read_to(attempt))
            if identity != found:
                self.directory.replace(found, identity)
        else:
            refuse_other_topics(self.directory, found, {}, self._sources)
            identity = self._new_identity(before=found)
            of_before = replace(self._access, decisions=self._log_of(found))
            adoption = Adoption(of_before, self.directory, found, self._sinks)
            adoption.settle_what_was_before(run)
            # The record first: a checkpoint id that the directory keeps is known to its log.
            attempt = self._append(identity, run)
            adoption.replace_identity(identity)
        if self.directory.read() != identity:
            raise self._started_by_another()
        return StartedRun(
            identity=identity, attempt=attempt, ledger=self._log.read_to(attempt), progress=self.directory.progress()
        )

    def _find(self) -> CheckpointIdentity:
        """Return the checkpoint id of the directory, made here for one that no query ever ran on. Raises SettingsError."""
        try:
            found = self.directory.read()
        except MalformedRecord as error:
            raise self._identity_missing(str(error)) from None
        if found is None:
            if self.directory.progress().has_files:
                raise self._identity_missing(f"{self._file} is missing")
            found = self._new_identity()
            if not self.directory.create(found):
                return self._find()
        return found

    def _current(self, found: CheckpointIdentity) -> CheckpointIdentity:
        """Return the checkpoint id that the directory has by its log: a takeover that died on its way is finished.

        Raises SettingsError when the checkpoint id goes on in another directory, DecisionLogUnreadable.
        """
        if found.is_taken_over or not may_share_a_sink(found, self._sinks):
            return found
        identity = goes_on_as(found, self.directory, self._log_of(found).read_to_end())
        if identity is None:
            return found
        if not self.directory.replace(found, identity):
            raise self._started_by_another()
        return self._current(identity)

    def _check_logs(self, found: CheckpointIdentity) -> None:
        """Raise SettingsError where Spark's files are damaged: it says what to do by what the decision log knows."""
        exactly_once = self._settings.guarantee is DeliveryGuarantee.EXACTLY_ONCE and not found.is_taken_over
        # A fork's sink is another one than that of which the log tells.
        known = exactly_once and may_share_a_sink(found, self._sinks)
        ledger = self._log_of(found).read_to_end() if known else None
        check_logs(self.directory, written_by(ledger, found.checkpoint_id) if ledger is not None else None)

    def _log_of(self, identity: CheckpointIdentity) -> DecisionLog:
        same = identity.decisions == self._settings.decisions_topic
        return self._log if same else DecisionLog(self._access.connection, topic=identity.decisions)

    def _started_by_another(self) -> SettingsError:
        return SettingsError(
            f"another pipeline was started on checkpoint directory {self.directory.location.for_spark} at the same moment: "
            "that one goes on, this one ends; start only one of them"
        )

    def _is_same(self, found: CheckpointIdentity) -> bool:
        settings = self._settings
        if (found.prefix, found.decisions) != (settings.prefix, settings.decisions_topic):
            return False
        return same_sinks(found.sink, settings.sink) or (all(self._sinks.values()) and found.sinks == self._sinks)

    def _refuse(self, identity: CheckpointIdentity, ledger: DecisionLedger) -> None:
        progress = self.directory.progress()
        check_history(self.directory.location, identity, progress, ledger)
        if ledger.taken_over(identity.checkpoint_id) is not None:
            raise self._started_by_another()
        last = ledger.last_decided_batch(identity.checkpoint_id)
        if self._settings.guarantee is not DeliveryGuarantee.EXACTLY_ONCE and last is not None:
            if last != progress.unfinished:
                return
            raise SettingsError(
                f"batch {last} of checkpoint directory {self.directory.location.for_spark} is decided and not finished: "
                f"with {self._settings.delivery_guarantee} it would be written once more. Start once with "
                "--delivery-guarantee exactly_once to finish it, then change"
            )

    @property
    def _file(self) -> str:
        return f"{self.directory.location.for_spark}/{FILE}"

    def _identity_missing(self, cause: str) -> SettingsError:
        """Return the refusal of a directory that Spark used and whose checkpoint id is gone, with what to write in its place."""
        progress = self.directory.progress()
        if not progress.has_files:
            return SettingsError(
                f"{cause}. No batch was planned in this directory: if that is as it should be, remove the file; if Spark's files "
                "were lost, restore them with it (a new checkpoint id would write every row again)"
            )
        text = (
            f"{cause}, and Spark planned batches in this directory (the last one is {progress.planned}). Without it, it is "
            "unknown which of them were written, and a new checkpoint id would write them again. Restore it from the "
            "backup that the directory is from. "
        )
        for identity, batch, at in self._checkpoint_ids_that_fit(progress):
            text += (
                f"If this is the directory whose last decided batch is {batch}, decided at {at}, write into it: "
                f"{self._new_identity(checkpoint_id=identity).to_json()} . "
            )
        return SettingsError(
            f"{text}If no pipeline of indoubt ever wrote from this directory (a plain Spark query did), write into it: "
            f"{json.dumps(TAKE_OVER)} . The pipeline then takes the directory over as it stands, and goes on with the batch "
            "that Spark does next"
        )

    def _checkpoint_ids_that_fit(self, progress: SparkProgress) -> list[tuple[str, int, str]]:
        """Return (id, last decided batch, when) of each checkpoint id of this prefix that may be the directory's, newest first."""
        ledger = self._log.read_to_end()
        found = []
        for checkpoint_id in reversed(dict.fromkeys(ledger.checkpoint_ids(self._settings.prefix))):
            batch = ledger.last_decided_batch(checkpoint_id)
            if batch is not None and progress.planned is not None and batch <= progress.planned <= batch + 1:
                at_ms = ledger.commits_of(checkpoint_id, batch)[-1].at_ms
                found.append(
                    (checkpoint_id, batch, datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds"))
                )
        return found

    def _noted(self, sinks: Mapping[str, str]) -> dict[str, str]:
        """Return what is to be kept of what the sinks are: nothing of one whose server does not tell."""
        for name, sink in self._sinks.items():
            if sinks.get(name, sink) != sink:
                # A standby took over, or the address leads elsewhere: that the run wrote there is proven by its markers alone.
                log.warning("sink %s is another one than before: %s, it was %s", name, sink or "unknown", sinks[name])
        return {name: sink for name, sink in self._sinks.items() if sink}

    def _new_identity(self, *, checkpoint_id: str = "", before: CheckpointIdentity | None = None) -> CheckpointIdentity:
        settings = self._settings
        left = dict(before.left) if before is not None else {}
        if before is not None and not may_share_a_sink(before, self._sinks):
            left |= dict.fromkeys(before.sinks.values(), said_of(before))
        identity = CheckpointIdentity(
            checkpoint_id=checkpoint_id or uuid4().hex,
            prefix=settings.prefix,
            sink=settings.sink,
            decisions=settings.decisions_topic,
            location=self.directory.location.uri,
            sinks=self._noted({}),
            left=left,
            sources=before.sources if before is not None else {},
        )
        return with_sources(identity, self._sources)

    def _append(self, identity: CheckpointIdentity, run: str) -> int:
        writes_to = tuple(target.resource_manager for target in read_sinks(identity.sink))
        started = RunStarted(
            prefix=identity.prefix,
            checkpoint_id=identity.checkpoint_id,
            run=run,
            at_ms=now_ms(),
            writes_to=writes_to,
            recovers_in=tuple(dict.fromkeys((*writes_to, KAFKA, *self._access.databases))),
        )
        return self._log.start_run(started)
