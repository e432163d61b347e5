"""The sweep: roll back what no run will decide any more under one prefix, so that no reader and no row waits behind it.

A sweep after the end also commits what was decided: the log proves it, and no other process would before the next start.
No clock is compared with another machine's, and no order rests on how fast anything is: what is open is listed first and
the log read then, so that whatever a later run opens is not in the list.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Sequence

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted, Settled
from indoubt.lifecycle.errors import DecisionVoid, IndoubtError, ResourceManagerError
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory
from indoubt.pipeline.config.sink_settings import KAFKA, SinkSettings, SinkTarget, read_sinks
from indoubt.pipeline.recovery.settlement import Settlement, SinkAccess
from indoubt.resource_managers.global_transaction import COMMIT_LIMIT_S
from indoubt.resource_managers.protocol import OpenTransactionView

log = logging.getLogger(__name__)

REACH_LIMIT_S = 5.0
"""How long a sweep after the end waits for a broker: it is the last thing that a supervisor does."""


class Sweep:
    """Sweeps the resource managers of the sink, Kafka, and every database whose connection is configured.

    An earlier run of the prefix may have written to one that the sink lacks now. For one thread at a time.
    """

    def __init__(self, access: SinkAccess) -> None:
        settings = access.settings
        self._access, self._settings, self._log = access, settings, access.decisions
        sinks = read_sinks(settings.sink)
        self._needed = [sink.resource_manager for sink in sinks]
        self._others = [name for name in (KAFKA, *access.databases) if name not in self._needed]
        others = [SinkTarget(resource_manager=name, target="") for name in self._others]
        self._managers = access.managers([*sinks, *others])
        self._reported: set[str] = set()
        self._seen: frozenset[tuple[str, int | None]] = frozenset()
        self._seen_to = 0

    def open(self) -> list[OpenTransactionView]:
        """Return what this prefix has open anywhere; one that the sink lacks and that cannot be asked is reported once.

        Raises ResourceManagerError, SettingsError for one of the sink's.
        """
        views = self._managers.recover(self._settings.prefix, self._needed)
        for name in self._others:
            try:
                views += self._managers.recover(self._settings.prefix, [name])
                self._reported.discard(name)
            except IndoubtError as error:
                if name not in self._reported:
                    log.warning(
                        "%s, which is not in the sink, cannot be asked what %r left there: %s",
                        name,
                        self._settings.prefix,
                        error,
                    )
                self._reported.add(name)
        return views

    def before_start(self, attempt: int) -> int:
        """Roll back all that is open and undecided, when this run is the newest and has opened nothing; return how many.

        Raises ResourceManagerError naming the first that could not be rolled back, DecisionLogUnreadable.
        """
        views = self.open()
        ledger = self._log.read_to_end()
        newest = ledger.latest_run(self._settings.prefix)
        return self._roll_back(views, ledger) if newest and newest[0] == attempt else 0

    def of_checkpoint(self, checkpoint_id: str, attempt: int) -> int:
        """Roll back all that a checkpoint id left open and undecided under a prefix that no later one took; return how many.

        For a checkpoint id that is taken over by run ``attempt``, while that is its newest: all others are void. Raises as
        before_start.
        """
        views = self.open()
        ledger = self._log.read_to_end()
        newest = ledger.latest_run(self._settings.prefix)
        is_left = (
            newest is not None
            and newest[1].checkpoint_id == checkpoint_id
            and ledger.newer_run("", checkpoint_id, attempt) is None
        )
        return self._roll_back(views, ledger) if is_left else 0

    def after(self, runs: Collection[str]) -> int:
        """Roll back all that is open and undecided, now that these runs are over; return how many. Raises as before_start.

        Nothing once another run of the prefix has started. No run is started for this: it would void what that one decides.
        One of the same checkpoint id and another prefix opens nothing under this one, and decides nothing about what is open
        here. A decision of a run that was killed may still be on its way to the log: an abort decision is put before it.
        """
        views = self.open()
        newest = self._newest_of(runs)
        if not views or newest is None:
            return 0
        self._abort_unfinished_batch(*newest)
        return self._roll_back(views, self._log.read_to_end()) if self._newest_of(runs) else 0

    def commit_decided(self, runs: Collection[str]) -> int:
        """Commit what was decided in the checkpoint id of these runs, now that they are over; return how many handles were settled.

        Only handles that a decision lists which counts, each with its outcome in the log, as recovery does. Nothing once another
        run of the prefix or of the checkpoint id has started: it does so itself. Raises as before_start.
        """
        ledger = self._log.read_to_end()
        newest = self._newest_of(runs)
        if newest is None or ledger.newer_run("", newest[1].checkpoint_id, newest[0]) is not None:
            return 0
        attempt, checkpoint_id = newest[0], newest[1].checkpoint_id
        unsettled = ledger.unsettled(self._settings.prefix, checkpoint_id)
        if not unsettled:
            return 0
        events = self._access.events(self._settings.prefix, checkpoint_id, attempt)
        settlement = Settlement(self._access, self._settings.sink, who=f"sweep after run {attempt}")
        try:
            return len(settlement.settle(unsettled, events, checkpoint_id))
        finally:
            events.flush(REACH_LIMIT_S)

    def unused(self, attempt: int) -> int:
        """Roll back, while this run goes on, what zombies of earlier runs and tries of tasks that died left open.

        Never what belongs to the batch under way. What was open at the last poll belongs to the batch that was under way
        then, or to an earlier one; when this run has decided since, that batch is over, and what it did not
        list never will be. The branch of a database names its attempt and batch. Raises as before_start.
        """
        views = self.open()
        ledger = self._log.read_to_end()
        mine = [
            pair for pair in ledger.commit_decisions(self._settings.prefix) if pair[1].batch_attempt.attempt == attempt
        ]
        offset, batch = max(((at, decision.batch_attempt.batch) for at, decision in mine), default=(-1, -1))
        seen = self._seen if offset >= self._seen_to else frozenset()
        self._seen, self._seen_to = frozenset(_identity(view) for view in views), ledger.next_offset
        left = [view for view in views if _identity(view) in seen or _is_past(view, attempt, batch)]
        return self._roll_back(left, ledger)

    def _newest_of(self, runs: Collection[str]) -> tuple[int, RunStarted] | None:
        """Return the newest run of the prefix if it is one of these."""
        newest = self._log.read_to_end().latest_run(self._settings.prefix)
        return newest if newest and newest[1].run in runs else None

    def _abort_unfinished_batch(self, attempt: int, run: RunStarted) -> None:
        try:
            batch = CheckpointDirectory.at(self._settings).progress().unfinished
        except IndoubtError as error:
            # Then a decision that lands later is settled by the next start: lost, and its rows replayed.
            log.warning("which batch is unfinished is not known: %s", error)
            return
        if batch is None:
            return
        decision = Decision(
            prefix=run.prefix,
            batch_attempt=BatchAttempt(checkpoint_id=run.checkpoint_id, batch=batch, attempt=attempt),
            ruling=Ruling.ABORT,
            handles=(),
            who=f"sweep after run {attempt}",
            at_ms=now_ms(),
        )
        with contextlib.suppress(DecisionVoid):  # It was decided before: what it lists is committed at the next start.
            self._log.decide(decision)

    def _roll_back(self, views: Sequence[OpenTransactionView], ledger: DecisionLedger) -> int:
        """Roll back those of these that no decision lists. ``ledger`` was read after they were listed."""
        left = [view for view in views if must_commit(ledger, view.key) is None]
        errors = [error for error in self._managers.fence(left, COMMIT_LIMIT_S) if error]
        if errors:
            raise ResourceManagerError(
                f"{len(errors)} of {len(left)} open transactions were not rolled back: {errors[0]}"
            )
        for view in left:
            log.warning("rolled back %s, which no decision lists", view.transaction)
        return len(left)


def must_commit(ledger: DecisionLedger, key: str) -> Decision | None:
    """Return the commit decision that counts and lists this transaction, unless it is known to be lost."""
    listing, outcome = ledger.listing(key), ledger.outcome(key)
    return listing[1] if listing and (outcome is None or outcome.settled is not Settled.LOST) else None


def sweep_after(settings: SinkSettings, runs: Collection[str]) -> None:
    """Settle what these runs left open, when every process of theirs is gone: all is tried. Raises IndoubtError."""
    sweep = Sweep(SinkAccess.of(settings, limit_s=REACH_LIMIT_S))
    try:
        sweep.after(runs)
    finally:
        sweep.commit_decided(runs)


def _identity(view: OpenTransactionView) -> tuple[str, int | None]:
    # The start is the coordinator's, and compared only with what it said before: below transaction.version 2 an epoch
    # outlives its transaction.
    return view.key, view.started_at_ms


def _is_past(view: OpenTransactionView, attempt: int, batch: int) -> bool:
    """Say whether the name of a database's branch tells that it is of an earlier run, or of a batch up to this one."""
    branch = BranchId.parse(view.transaction) if view.producer_id is None else None
    return branch is not None and (branch.attempt, branch.batch) <= (attempt, batch)
