"""One batch, all its parts: its decision, its transactions in every resource manager, and whether they ended alike.

Pure functions over judged transactions and the time that is passed in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling
from indoubt.lifecycle.states import ROLLED_BACK, TransactionState
from indoubt.lifecycle.verdicts import Verdict

BatchKey = tuple[str, BatchAttempt]
"""Pipeline and attempt."""


class BatchVerdict(Enum):
    """How an attempt at a batch stands, most urgent first: the order of the list."""

    ONE_SIDE_ONLY = "one side only"
    """Committed in one resource manager and not in another: readers of both see different data until an operator acts."""
    LOST = "lost"
    """Decided, and some of it was aborted: only a replay brings its rows back."""
    IN_DOUBT = "in doubt"
    """Decided, and some of it is not committed yet."""
    UNDECIDED = "undecided"
    """No decision about it counts, and some of it is open."""
    ABORTED = "aborted"
    """Nothing of it was decided and all of it was undone; its batch will be replayed."""
    WRITTEN_AGAIN = TransactionState.WRITTEN_AGAIN.value
    """Decided, and what it lost was written again by a later attempt."""
    ABORTED_WRITTEN_AGAIN = "aborted, then written again"
    """Never decided, and all of it was written by a later attempt."""
    COMPLETE = "complete"
    """Committed everywhere."""


class Settling(Enum):
    """What the order "settle" would do with a batch; the value is what the API says."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSide:
    """The part of a batch in one resource manager."""

    resource_manager: str
    transactions: tuple[Judged, ...]

    @property
    def committed(self) -> int:
        """Return how many of its transactions are committed."""
        return sum(is_committed(member) for member in self.transactions)

    @property
    def lost(self) -> int:
        """Return how many were aborted, decided or not."""
        return sum(member.view.state in ROLLED_BACK for member in self.transactions)

    @property
    def open(self) -> int:
        """Return how many are neither committed nor aborted."""
        return len(self.transactions) - self.committed - self.lost

    @property
    def is_committed(self) -> bool:
        """True when all of it is committed."""
        return self.committed == len(self.transactions)

    @property
    def rows(self) -> int | None:
        """Return the rows of those transactions whose handle is known, None when none is."""
        known = [member.view.handle.rows for member in self.transactions if member.view.handle is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One attempt at one batch of a pipeline of ours, judged."""

    pipeline: str
    batch_attempt: BatchAttempt
    sides: tuple[BatchSide, ...]
    decision: tuple[int, Decision] | None
    """Offset and decision, of the first decision for it that counts."""
    verdict: BatchVerdict
    settling: Settling | None
    """What may be ordered; None: nothing is left to do, or its driver is at work."""

    @property
    def key(self) -> str:
        """Return the text that names it in orders."""
        return batch_key(self.pipeline, self.batch_attempt)

    @property
    def transactions(self) -> tuple[Judged, ...]:
        """Return all its transactions, by resource manager and slot."""
        return tuple(member for side in self.sides for member in side.transactions)

    @property
    def committed_on(self) -> tuple[str, ...]:
        """Return the resource managers in which all of it is committed."""
        return tuple(side.resource_manager for side in self.sides if side.is_committed)

    @property
    def missing_on(self) -> tuple[str, ...]:
        """Return the resource managers in which some of it is not committed."""
        return tuple(side.resource_manager for side in self.sides if not side.is_committed)

    @property
    def opened_ms(self) -> int | None:
        """Return when its first transaction was opened (epoch ms)."""
        return min((at for member in self.transactions if (at := member.view.opened_ms) is not None), default=None)

    @property
    def written_again_ms(self) -> int | None:
        """Return when what it lost was written again (epoch ms); None: it was not, or no time is known."""
        return max(
            (at for member in self.transactions if (at := member.view.written_again_ms) is not None), default=None
        )

    @property
    def deadline_ms(self) -> int | None:
        """Return when the first of its transactions times out (epoch ms); None: none of them does."""
        return min((at for member in self.transactions if (at := member.view.deadline_ms) is not None), default=None)

    @property
    def updated_ms(self) -> int | None:
        """Return the newest time in what is known of its transactions (epoch ms)."""
        return max((at for member in self.transactions if (at := member.view.updated_ms) is not None), default=None)

    @property
    def rows(self) -> int | None:
        """Return its rows: every side holds the same ones, so those of the side that knows most."""
        return max((rows for side in self.sides if (rows := side.rows) is not None), default=None)

    @property
    def revision(self) -> str:
        """Return a text that changes when one of its transactions or its decision changes."""
        parts = (self.decision and self.decision[0], sorted((o.view.key, o.view.revision) for o in self.transactions))
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


VERDICTS = tuple(BatchVerdict)
"""The most urgent first."""


def is_committed(member: Judged) -> bool:
    """Say whether a transaction is committed, or must have been: a later batch of its checkpoint id was decided."""
    view = member.view
    passed = view.state is TransactionState.DECIDED and member.judgement.verdict is Verdict.SETTLED
    return view.state is TransactionState.COMMITTED or passed


def is_open(member: Judged) -> bool:
    """Say whether a transaction is neither committed nor aborted."""
    return not is_committed(member) and member.view.state not in ROLLED_BACK


def batches(
    judged: Iterable[Judged], at_ms: int, commit_overdue_ms: int, complete: Iterable[BatchKey] = ()
) -> list[Batch]:
    """Return every attempt at a batch, most urgent first, then newest.

    Left out are transactions whose batch is not known, and of a batch that was decided what its decision does not list.
    ``complete``: attempts that are, besides those of these transactions.
    """
    members: dict[tuple[str, BatchAttempt], list[Judged]] = {}
    for member in judged:
        if member.view.managed and member.view.batch_attempt is not None:
            members.setdefault((member.view.pipeline, member.view.batch_attempt), []).append(member)
    found: list[Batch] = []
    # One that is complete has written again what the earlier attempts at its batch lost, so later ones first.
    newest: dict[tuple[str, str, int], int] = {}
    for pipeline, batch_attempt in complete:
        key = (pipeline, batch_attempt.checkpoint_id, batch_attempt.batch)
        newest[key] = max(batch_attempt.attempt, newest.get(key, -1))
    for (pipeline, batch_attempt), own in sorted(members.items(), key=lambda item: -item[0][1].attempt):
        key = (pipeline, batch_attempt.checkpoint_id, batch_attempt.batch)
        replayed = newest.get(key, -1) > batch_attempt.attempt
        batch = _batch(pipeline, batch_attempt, own, replayed, at_ms - commit_overdue_ms)
        if batch.verdict is BatchVerdict.COMPLETE:
            newest[key] = max(batch_attempt.attempt, newest.get(key, -1))
        found.append(batch)
    return sorted(found, key=batch_sort_key)


def batch_sort_key(batch: Batch) -> tuple[int, int, str]:
    """Return where a batch stands in the list: most urgent first, then newest."""
    return (VERDICTS.index(batch.verdict), -(batch.opened_ms or 0), batch.key)


def complete_sort_key(pipeline: str, batch_attempt: BatchAttempt, opened_ms: int) -> tuple[int, int, str]:
    """Return where an attempt stands in the list that is known to be complete."""
    return (VERDICTS.index(BatchVerdict.COMPLETE), -opened_ms, batch_key(pipeline, batch_attempt))


def batch_key(pipeline: str, batch_attempt: BatchAttempt) -> str:
    """Return the text that names an attempt at a batch in orders."""
    return f"{pipeline}/{batch_attempt.checkpoint_id}/{batch_attempt.batch}/{batch_attempt.attempt}"


def current_batches(
    current: CurrentState, chosen: Callable[[BatchAttempt], bool], complete: Iterable[BatchKey] = ()
) -> list[Batch]:
    """Return every attempt at a batch that is in memory and ``chosen``, as ``batches`` does."""
    return batches(current.transactions.judged_of_batches(chosen), now_ms(), current.commit_overdue_ms, complete)


def find_batch(current: CurrentState, key: str) -> Batch | None:
    """Return the attempt at a batch of that key as it is now, or None."""
    of_number = current_batches(current, lambda batch_attempt: f"/{batch_attempt.batch}/" in key)
    return next((batch for batch in of_number if batch.key == key), None)


def _batch(
    pipeline: str, batch_attempt: BatchAttempt, members: Sequence[Judged], replayed: bool, overdue_at_ms: int
) -> Batch:
    first = next((member.view.first_decision for member in members if member.view.first_decision is not None), None)
    decision = first[:2] if first is not None and first[2] else None
    if _is_commit(decision):
        # What an earlier try of a task left is no part of what was decided.
        members = [member for member in members if member.view.listing is not None]
    sides = _sides(members)
    verdict = _verdict(sides, decision, replayed, overdue_at_ms)
    return Batch(
        pipeline=pipeline,
        batch_attempt=batch_attempt,
        sides=sides,
        decision=decision,
        verdict=verdict,
        settling=_settling(members, decision),
    )


def _sides(members: Sequence[Judged]) -> tuple[BatchSide, ...]:
    ordered = sorted(
        members, key=lambda member: (member.view.slot if member.view.slot is not None else -1, member.view.key)
    )
    names = sorted({member.view.resource_manager for member in members})
    return tuple(
        BatchSide(
            resource_manager=name,
            transactions=tuple(member for member in ordered if member.view.resource_manager == name),
        )
        for name in names
    )


def _verdict(
    sides: Sequence[BatchSide], decision: tuple[int, Decision] | None, replayed: bool, overdue_at_ms: int
) -> BatchVerdict:
    members = [member for side in sides for member in side.transactions]
    if all(side.is_committed for side in sides):
        return BatchVerdict.COMPLETE
    undone = [member for member in members if member.view.state in ROLLED_BACK]
    # The verdict of a lost transaction is "settled" once its batch was completed.
    brought_back = _is_commit(decision) and all(member.judgement.verdict is Verdict.SETTLED for member in undone)
    if not any(is_open(member) for member in members) and (replayed or brought_back):
        return BatchVerdict.WRITTEN_AGAIN if _is_commit(decision) else BatchVerdict.ABORTED_WRITTEN_AGAIN
    if any(side.is_committed for side in sides) and (undone or _is_overdue(members, decision, overdue_at_ms)):
        return BatchVerdict.ONE_SIDE_ONLY
    if _is_commit(decision):
        return BatchVerdict.LOST if undone else BatchVerdict.IN_DOUBT
    return BatchVerdict.ABORTED if len(undone) == len(members) else BatchVerdict.UNDECIDED


def _is_overdue(members: Sequence[Judged], decision: tuple[int, Decision] | None, overdue_at_ms: int) -> bool:
    """Say whether the driver has had the time to commit the other sides: it takes a moment."""
    if decision is not None:
        return decision[1].at_ms <= overdue_at_ms
    ends = [member.view.ended_ms for member in members if is_committed(member)]
    return all(at is None or at <= overdue_at_ms for at in ends)


def _settling(members: Sequence[Judged], decision: tuple[int, Decision] | None) -> Settling | None:
    open_ = [member for member in members if is_open(member)]
    if not open_:
        return None
    if _is_commit(decision):
        return Settling.COMMIT if any(member.judgement.may_commit for member in open_) else None
    if any(is_committed(member) for member in members):
        # Committed though no decision says so: a replay writes those rows again, whatever becomes of the others.
        return None
    return Settling.ABORT if all(member.judgement.may_abort for member in open_) else None


def _is_commit(decision: tuple[int, Decision] | None) -> bool:
    return decision is not None and decision[1].ruling is Ruling.COMMIT
