"""The rules that say which decision of the log counts.

The log is one Kafka partition and its order is the truth. Five rules make it a lock without a lock:
(1) the first decision for a (checkpoint id, batch, attempt) counts, every later one is void;
(2) a commit decision is void if another run of the same prefix or of the same checkpoint id started between its own run's start
and it; (3) the first outcome for a handle counts; (4) a commit decision about a batch below the last one of its checkpoint id
that has a commit decision that counts is void; (5) the first word that a checkpoint id was taken over counts, unless another
run of that checkpoint id started since who says so started its own: every later commit decision of that checkpoint id is void.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from indoubt.lifecycle.decisions import (
    BatchAttempt,
    CheckpointTakenOver,
    Decision,
    DecisionRecord,
    Kept,
    Outcome,
    Ruling,
    RunStarted,
    Settled,
    Snapshot,
)
from indoubt.lifecycle.identity import Handle, transactional_ids
from indoubt.lifecycle.resource_manager_kinds import KAFKA


@dataclass(slots=True)
class DecisionLedger:
    """The log folded in its order: who started, what counts, how handles ended. Feed every record once, in log order."""

    next_offset: int = 0
    _runs: dict[str, list[tuple[int, RunStarted]]] = field(default_factory=dict)
    _newest_of_checkpoint: dict[str, tuple[int, RunStarted]] = field(default_factory=dict)
    _first: dict[BatchAttempt, tuple[int, Decision, bool]] = field(default_factory=dict)
    _last_batch: dict[str, int] = field(default_factory=dict)
    _outcomes: dict[str, tuple[int, Outcome]] = field(default_factory=dict)
    _listed: dict[str, BatchAttempt] = field(default_factory=dict)
    _taken_over: dict[str, tuple[int, CheckpointTakenOver]] = field(default_factory=dict)

    def apply(self, offset: int, record: DecisionRecord) -> bool:
        """Fold one record; return True when it counts. An offset that was folded before is ignored (and does not count).

        A snapshot changes nothing: what it repeats was folded.
        """
        if offset < self.next_offset:
            return False
        self.next_offset = offset + 1
        match record:
            case RunStarted():
                self._add_run(offset, record)
                return True
            case Decision():
                if record.batch_attempt in self._first:
                    return False
                counts = record.ruling is Ruling.ABORT or (self._is_current(record) and not self._is_below_last(record))
                self._add_decision(offset, record, counts)
                return counts
            case Outcome():
                return self._add_outcome(offset, record)
            case CheckpointTakenOver(checkpoint_id=checkpoint_id):
                newest = self._newest_of_checkpoint.get(checkpoint_id)
                counts = checkpoint_id not in self._taken_over and newest is not None and newest[0] == record.attempt
                if counts:
                    self._taken_over[checkpoint_id] = (offset, record)
                return counts
            case Snapshot():
                return True

    def repeat(self, kept: Kept) -> bool:
        """Fold a record of which it is known whether it counts; return that. An offset that was folded before is ignored."""
        if kept.offset < self.next_offset:
            return False
        self.next_offset = kept.offset + 1
        match kept.record:
            case RunStarted():
                self._add_run(kept.offset, kept.record)
            case Decision():
                if kept.record.batch_attempt not in self._first:
                    self._add_decision(kept.offset, kept.record, kept.counts)
            case Outcome():
                self._add_outcome(kept.offset, kept.record)
            case CheckpointTakenOver() if kept.counts:
                self._taken_over[kept.record.checkpoint_id] = (kept.offset, kept.record)
        return kept.counts

    def skip(self, offset: int) -> None:
        """Pass over a record that cannot be understood, so that the next one is expected."""
        self.next_offset = max(self.next_offset, offset + 1)

    def forget(self, batch_attempt: BatchAttempt) -> None:
        """Drop what is known of an attempt that is settled, so that a reader who only shows the log stays within its memory.

        Whoever decides or commits reads the log itself: a decision about a forgotten attempt would be taken for its first.
        """
        found = self._first.pop(batch_attempt, None)
        for handle in found[1].handles if found else ():
            self._listed.pop(handle.key, None)
            self._outcomes.pop(handle.key, None)

    def kept(self) -> tuple[Kept, ...]:
        """Return the records that still matter, in log order: whoever knows them alone decides as who knows all.

        These are the newest run of each prefix and checkpoint id, the first decisions about each checkpoint id's last decided
        batch and those after it, every commit decision that counts and has a handle without an outcome, their runs, the
        outcomes of their handles, and which checkpoint ids were taken over.
        """
        kept: dict[int, Kept] = {}
        attempts: set[int] = set()
        for offset, decision, counts in self._first.values():
            if self._matters(decision, counts):
                kept[offset] = Kept(offset=offset, counts=counts, record=decision)
                if counts and decision.ruling is Ruling.COMMIT:
                    attempts.add(decision.batch_attempt.attempt)
                for handle in decision.handles:
                    if handle.key in self._outcomes:
                        at, outcome = self._outcomes[handle.key]
                        kept[at] = Kept(offset=at, counts=True, record=outcome)
        for runs in self._runs.values():
            newest = {run.checkpoint_id: offset for offset, run in runs}
            for offset, run in runs:
                if offset == newest[run.checkpoint_id] or offset in attempts:
                    kept[offset] = Kept(offset=offset, counts=True, record=run)
        for offset, taken_over in self._taken_over.values():
            kept[offset] = Kept(offset=offset, counts=True, record=taken_over)
        return tuple(kept[offset] for offset in sorted(kept))

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> DecisionLedger:
        """Return the ledger of the log before ``covers`` as far as it still matters; records from there on are folded next."""
        ledger = cls(next_offset=snapshot.covers)
        managed: set[str] = set()
        for kept in snapshot.kept:
            match kept.record:
                case RunStarted():
                    ledger._add_run(kept.offset, kept.record)
                case Decision():
                    ledger._add_decision(kept.offset, kept.record, kept.counts)
                    managed.update(handle.key for handle in kept.record.handles)
                case Outcome():
                    ledger._add_outcome(kept.offset, kept.record)
                case CheckpointTakenOver():
                    ledger._taken_over[kept.record.checkpoint_id] = (kept.offset, kept.record)
        ledger._outcomes = {key: found for key, found in ledger._outcomes.items() if key in managed}
        return ledger

    def forget_before(self, snapshot: Snapshot) -> None:
        """Drop what the snapshot leaves out: who read past it then knows no more than who starts at it, and stays as small."""
        decided = {kept.record.batch_attempt for kept in snapshot.kept if isinstance(kept.record, Decision)}
        gone = [a for a, (offset, _, _) in self._first.items() if offset < snapshot.covers and a not in decided]
        for batch_attempt in gone:
            self.forget(batch_attempt)
        managed = {handle.key for _, decision, _ in self._first.values() for handle in decision.handles}
        self._outcomes = {key: found for key, found in self._outcomes.items() if key in managed}
        repeated = {kept.offset for kept in snapshot.kept}
        self._runs = {
            prefix: [(offset, run) for offset, run in runs if offset >= snapshot.covers or offset in repeated]
            for prefix, runs in self._runs.items()
        }

    def _matters(self, decision: Decision, counts: bool) -> bool:
        if not self._is_below_last(decision):
            return True
        is_commit = counts and decision.ruling is Ruling.COMMIT
        return is_commit and any(handle.key not in self._outcomes for handle in decision.handles)

    def _add_run(self, offset: int, run: RunStarted) -> None:
        self._runs.setdefault(run.prefix, []).append((offset, run))
        self._newest_of_checkpoint[run.checkpoint_id] = (offset, run)

    def _add_decision(self, offset: int, decision: Decision, counts: bool) -> None:
        batch_attempt = decision.batch_attempt
        self._first[batch_attempt] = (offset, decision, counts)
        if counts and decision.ruling is Ruling.COMMIT:
            self._listed.update((handle.key, batch_attempt) for handle in decision.handles)
            self._last_batch[batch_attempt.checkpoint_id] = max(
                batch_attempt.batch, self._last_batch.get(batch_attempt.checkpoint_id, batch_attempt.batch)
            )

    def _add_outcome(self, offset: int, outcome: Outcome) -> bool:
        first = [key for key in outcome.handle_keys if key not in self._outcomes]
        self._outcomes.update((key, (offset, outcome)) for key in first)
        return bool(first)

    def _is_current(self, decision: Decision) -> bool:
        batch_attempt = decision.batch_attempt
        run = self.latest_run(decision.prefix)
        of_checkpoint = self._newest_of_checkpoint.get(batch_attempt.checkpoint_id)
        return (
            run is not None
            and of_checkpoint == run
            and run[0] == batch_attempt.attempt
            and batch_attempt.checkpoint_id not in self._taken_over
        )

    def _is_below_last(self, decision: Decision) -> bool:
        return decision.batch_attempt.batch < self._last_batch.get(
            decision.batch_attempt.checkpoint_id, decision.batch_attempt.batch
        )

    def counting(self, batch_attempt: BatchAttempt) -> Decision | None:
        """Return the decision that counts for this attempt, commit or abort, or None."""
        found = self._first.get(batch_attempt)
        return found[1] if found and found[2] else None

    def first(self, batch_attempt: BatchAttempt) -> tuple[int, Decision, bool] | None:
        """Return (offset, decision, whether it counts) of the first decision for this attempt: it says who was first."""
        return self._first.get(batch_attempt)

    def latest_run(self, prefix: str) -> tuple[int, RunStarted] | None:
        """Return (offset, record) of the newest run of the prefix."""
        runs = self._runs.get(prefix)
        return runs[-1] if runs else None

    def run_before(self, prefix: str, offset: int) -> tuple[int, RunStarted] | None:
        """Return (offset, record) of the newest run of the prefix that started before this offset."""
        return next((run for run in reversed(self._runs.get(prefix, [])) if run[0] < offset), None)

    def newer_run(self, prefix: str, checkpoint_id: str, attempt: int) -> tuple[int, RunStarted] | None:
        """Return (offset, record) of the newest run of this prefix or checkpoint id that started after ``attempt``, or None."""
        found = [
            run
            for run in (self.latest_run(prefix), self._newest_of_checkpoint.get(checkpoint_id))
            if run and run[0] > attempt
        ]
        return max(found, key=lambda run: run[0], default=None)

    def taken_over(self, checkpoint_id: str) -> tuple[int, CheckpointTakenOver] | None:
        """Return (offset, record) of what ended this checkpoint id, None while it goes on."""
        return self._taken_over.get(checkpoint_id)

    def last_decided_batch(self, checkpoint_id: str) -> int | None:
        """Return the highest batch of this checkpoint id that has a commit decision that counts, or None."""
        return self._last_batch.get(checkpoint_id)

    def checkpoint_id_of(self, prefix: str, attempt: int) -> str | None:
        """Return the checkpoint id of the run of this prefix that started at this offset, or None when the log has none there."""
        return next(
            (run.checkpoint_id for offset, run in reversed(self._runs.get(prefix, [])) if offset == attempt), None
        )

    def checkpoint_ids(self, prefix: str) -> tuple[str, ...]:
        """Return the checkpoint id of each run of the prefix, in log order."""
        return tuple(run.checkpoint_id for _, run in self._runs.get(prefix, []))

    def left_behind(self, prefix: str) -> frozenset[str]:
        """Return the resource managers that runs of the prefix wrote to and no later run looked in: something may lie there."""
        left: frozenset[str] = frozenset()
        for _, run in self._runs.get(prefix, []):
            left = left.difference(run.recovers_in) | frozenset(run.writes_to)
        return left - frozenset(self._runs[prefix][-1][1].recovers_in) if left else left

    def prefixes(self) -> frozenset[str]:
        """Return every prefix that ever started a run."""
        return frozenset(self._runs)

    def commit_decisions(self, prefix: str, checkpoint_id: str | None = None) -> list[tuple[int, Decision]]:
        """Return the commit decisions of a prefix that count, in log order, with their offsets; of one checkpoint id if given."""
        return [
            (offset, decision)
            for offset, decision, counts in self._first.values()
            if counts
            and decision.ruling is Ruling.COMMIT
            and decision.prefix == prefix
            and (checkpoint_id is None or decision.batch_attempt.checkpoint_id == checkpoint_id)
        ]

    def checkpoint_commits(self, checkpoint_id: str) -> list[Decision]:
        """Return the commit decisions of a checkpoint id that count, in log order."""
        return [
            decision
            for batch_attempt, (_, decision, counts) in self._first.items()
            if counts and decision.ruling is Ruling.COMMIT and batch_attempt.checkpoint_id == checkpoint_id
        ]

    def commits_of(self, checkpoint_id: str, batch: int) -> list[Decision]:
        """Return the commit decisions of this batch that count, in log order: more than one after a replay.

        The lost handles of the last one are what is missing.
        """
        return [
            decision for decision in self.checkpoint_commits(checkpoint_id) if decision.batch_attempt.batch == batch
        ]

    def listing(self, handle_key: str) -> tuple[int, Decision] | None:
        """Return (offset, decision) of the commit decision that counts and lists this handle, or None."""
        batch_attempt = self._listed.get(handle_key)
        if batch_attempt is None:
            return None
        offset, decision, _ = self._first[batch_attempt]
        return offset, decision

    def outcome(self, handle_key: str) -> Outcome | None:
        """Return the first outcome recorded for a handle, or None while it is not settled."""
        found = self._outcomes.get(handle_key)
        return found[1] if found else None

    def lost_keys(self) -> set[str]:
        """Return the keys of the handles whose outcome says that they were lost."""
        return {key for key, (_, outcome) in self._outcomes.items() if outcome.settled is Settled.LOST}

    def ids_with_outcome(self) -> set[str]:
        """Return the transactional ids of Kafka of which a transaction has an outcome."""
        return transactional_ids(KAFKA.name, self._outcomes)

    def unsettled(self, prefix: str, checkpoint_id: str | None = None) -> list[tuple[Decision, Handle]]:
        """Return the handles of the prefix (and checkpoint id) that were decided and may not be committed, oldest decision first.

        Only the last decided batch of each checkpoint id can hold any: its run goes on to the next batch after every handle
        of this one was committed. Handles with an outcome are settled.
        """
        return [
            (decision, handle)
            for _, decision in self.commit_decisions(prefix, checkpoint_id)
            for handle in decision.handles
            if decision.batch_attempt.batch == self._last_batch[decision.batch_attempt.checkpoint_id]
            and handle.key not in self._outcomes
        ]
