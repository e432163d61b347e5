"""Adoption: a checkpoint directory is taken over by a pipeline whose prefix, sink or decision log is another one.

It gets a new checkpoint id. What the log says of the old one was written somewhere else, or under a name that this pipeline
does not look for: read as its own, it would leave out batches, or write them again.

Where both write to a common sink, the old checkpoint id is ended in its log first. Where they do not, it is left alone: nothing
tells a copy of a directory from its original for certain, and the original of a copy goes on. What was left is kept in the
directory, which may never write there again by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import CheckpointTakenOver, RunStarted
from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory, CheckpointIdentity, check_history
from indoubt.pipeline.config.sink_settings import read_sinks
from indoubt.pipeline.recovery.settlement import Settlement, SinkAccess, proven_by_spark
from indoubt.pipeline.recovery.sweep import Sweep

log = logging.getLogger(__name__)


class Adoption:
    """Takes over one directory from ``before``, whose log that of ``access`` is; the caller appends its own start in between."""

    def __init__(
        self,
        access: SinkAccess,
        directory: CheckpointDirectory,
        before: CheckpointIdentity,
        sinks: Mapping[str, str],
    ) -> None:
        self._access, self._settings, self._log = access, access.settings, access.decisions
        self._directory, self._before, self._sinks = directory, before, sinks
        self._attempt = -1

    def settle_what_was_before(self, run: str) -> None:
        """End the earlier pipeline's right to decide, settle what it decided, roll back what it did not.

        Where no sink is common, it may go on: the directory may be a copy of its own. Raises SettingsError while a batch is
        unfinished, and for a sink that was left before; ResourceManagerError, DecisionLogUnreadable.
        """
        before = self._before
        self._refuse_what_was_left()
        self._refuse_unfinished()
        if not may_share_a_sink(before, self._sinks):
            log.warning("%s writes elsewhere from here on; what wrote with %s may go on", self._where, said_of(before))
            return
        check_history(self._directory.location, before, self._directory.progress(), self._log.read_to_end())
        # The old checkpoint id's, in its own log: from here on nothing that its driver decides counts, whatever its prefix.
        started = RunStarted(prefix=self._settings.prefix, checkpoint_id=before.checkpoint_id, run=run, at_ms=now_ms())
        self._attempt = self._log.start_run(started)
        ledger = self._log.read_to(self._attempt)
        if self._directory.read() != before:
            raise self._taken_over_by_another()
        # A copy's own files know nothing of what its original decided between the first look and that record.
        check_history(self._directory.location, before, self._directory.progress(), ledger)
        events = self._access.events(before.prefix, before.checkpoint_id, self._attempt)
        unsettled = ledger.unsettled(before.prefix, before.checkpoint_id)
        proven = proven_by_spark(ledger, before.checkpoint_id, self._directory.progress().finished)
        settlement = Settlement(self._access, before.sink)
        settlement.settle(unsettled, events, before.checkpoint_id, proven)
        self._refuse_unfinished()
        self._sweep()

    def replace_identity(self, identity: CheckpointIdentity) -> None:
        """End the old checkpoint id in its log and write the new one, unless another run was started on the directory meanwhile.

        A run of the old checkpoint id that starts later is refused by that record, on whatever copy of the directory. The
        directory says first what it is about to become: whoever finds it so, and the record, finishes what was begun here.
        Raises SettingsError, DecisionLogUnreadable.
        """
        before = self._before
        if self._attempt >= 0:
            before = replace(before, becomes=identity.checkpoint_id)
            if not self._directory.replace(self._before, before):
                raise self._taken_over_by_another()
            self._end_old_checkpoint(identity)
        if not self._directory.replace(before, identity):
            raise self._taken_over_by_another()

    def _end_old_checkpoint(self, identity: CheckpointIdentity) -> None:
        before = self._before
        offset, ledger = self._log.append_and_read(
            CheckpointTakenOver(
                prefix=identity.prefix,
                checkpoint_id=before.checkpoint_id,
                attempt=self._attempt,
                new_checkpoint_id=identity.checkpoint_id,
                sink=identity.sink,
                decisions=identity.decisions,
                location=identity.location,
                at_ms=now_ms(),
            )
        )
        over = ledger.taken_over(before.checkpoint_id)
        if over is not None and over[0] == offset:
            return
        newer = ledger.newer_run("", before.checkpoint_id, self._attempt)
        if over is not None or newer is None:
            raise self._taken_over_by_another()
        raise SettingsError(
            f"run {newer[1].run} of prefix {newer[1].prefix!r} was started on checkpoint directory {self._where} at the "
            "same moment: this one ends; stop the earlier pipeline before its directory is taken over"
        )

    @property
    def _where(self) -> str:
        return self._directory.location.for_spark

    def _refuse_unfinished(self) -> None:
        batch = self._directory.progress().unfinished
        if batch is None:
            return
        settings = self._settings
        wanted = replace(self._before, prefix=settings.prefix, sink=settings.sink, decisions=settings.decisions_topic)
        text = (
            f"checkpoint directory {self._where} was used with {said_of(self._before)}, and its last batch is unfinished "
            f"({batch}): "
        )
        settle = f"start once more with these to settle it, before changing to {said_of(wanted)}"
        if may_share_a_sink(self._before, self._sinks):
            raise SettingsError(text + settle)
        raise SettingsError(
            f"{text}if this is a copy and that pipeline goes on, stop it in order, copy its directory again and start here; "
            f"if it is that pipeline's own directory, {settle}"
        )

    def _refuse_what_was_left(self) -> None:
        left = self._before.left
        for name, sink in self._sinks.items():
            if sink in left:
                raise SettingsError(
                    f"checkpoint directory {self._where} (or the one that it is a copy of) wrote to this {name} sink before, "
                    f"with {left[sink]}, and that pipeline may go on from another copy. What was written from here since "
                    f"went to other sinks ({self._before.sink}), and would be missing there. Bring back that pipeline's own "
                    "directory, or a backup of this one from before it was given another sink, and start with that"
                )

    def _taken_over_by_another(self) -> SettingsError:
        return SettingsError(
            f"another pipeline took over checkpoint directory {self._where} at the same moment: that one goes on, this one "
            "ends; start only one of them"
        )

    def _sweep(self) -> None:
        """Roll back what the earlier pipeline left open under its prefix, unless another one uses that prefix now."""
        before = self._before
        if before.prefix == self._settings.prefix:
            return
        try:
            # Its sinks may be out of reach by now; that is no reason not to start.
            settings = replace(self._settings, prefix=before.prefix, decisions_topic=before.decisions)
            Sweep(replace(self._access, settings=settings)).of_checkpoint(before.checkpoint_id, self._attempt)
        except IndoubtError as error:
            log.warning("what prefix %r left open stays until its timeout: %s", before.prefix, error)


def may_share_a_sink(before: CheckpointIdentity, sinks: Mapping[str, str]) -> bool:
    """Say whether the sinks of ``before`` may hold one of these (what each is, by resource manager; empty: it is not known)."""
    for name in {target.resource_manager for target in read_sinks(before.sink)} & sinks.keys():
        known = before.sinks.get(name, "")
        if not known or not sinks[name] or known == sinks[name]:
            return True
    return False


def goes_on_as(
    found: CheckpointIdentity, directory: CheckpointDirectory, ledger: DecisionLedger
) -> CheckpointIdentity | None:
    """Return the checkpoint id by which the one that was found in this directory was taken over, None while it goes on.

    Raises SettingsError where that was not done in this directory, but in a copy of it or its original.
    """
    over = ledger.taken_over(found.checkpoint_id)
    if over is None:
        return None
    offset, record = over
    identity = CheckpointIdentity(
        checkpoint_id=record.new_checkpoint_id,
        prefix=record.prefix,
        sink=record.sink,
        decisions=record.decisions,
        location=record.location,
        left=found.left,
        sources=found.sources,
    )
    if found.becomes == identity.checkpoint_id:
        return identity
    at = datetime.fromtimestamp(record.at_ms / 1000, UTC).isoformat(timespec="seconds")
    where = directory.location.for_spark
    raise SettingsError(
        f"checkpoint directory {where} is a copy, or the original, of one that was taken over at {at} by the pipeline with "
        f"{said_of(identity)}: it goes on in {identity.location}, on the host where that was done (decision log "
        f"{found.decisions!r}, offset {offset}). Started here, the batches that were written since would be written again. Start "
        "that one. Or stop it in order, copy its directory over this one, and start here with exactly its prefix, sink and "
        "decision log. To write from here to a sink of its own, name another --sink and --prefix"
    )


def said_of(identity: CheckpointIdentity) -> str:
    """Return a pipeline's settings, as errors name it."""
    return f"prefix {identity.prefix!r}, sink {identity.sink!r} and decision log {identity.decisions!r}"
