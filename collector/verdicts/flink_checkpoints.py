"""Whether the checkpoint that holds a Flink transaction was completed: from Flink's REST API, else from the ids alone. Pure.

Numbered rules about the job's checkpoints, tried in order: the first that answers wins.

A transaction is committed by the first checkpoint that completes after its own, unless the job is restored in between; a
savepoint of a job that goes on commits nothing (FLIP-203).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from indoubt.collector.facts.flink_sinks import Naming, Sink
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts, Restore
from indoubt.collector.records.formats.flink_records import FlinkStatus
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts import flink_cases
from indoubt.collector.verdicts.flink_known import Answer, FlinkCase
from indoubt.collector.verdicts.flink_prefixes import job_of
from indoubt.collector.verdicts.flink_set_backs import set_back, taken_again, taken_again_ms


class Fate(Enum):
    """What became of the checkpoint that holds a transaction."""

    COMPLETED = "completed"
    """The job goes on from behind it: what it holds must be in Kafka."""
    REPLAYED = "replayed"
    """The job was set back to before it: what it holds is written again."""
    NOT_COMPLETED = "not completed"
    """Its job ended without completing it, and nothing was restored since."""
    PENDING = "pending"
    """It has not ended."""
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The fate, how it is known, and of which checkpoint; ``sure``: no other reading is left."""

    fate: Fate
    why: str
    sure: bool = False
    checkpoint: int | None = None
    rule: int = 0
    """The rule about jobs that says so; 0: another source."""
    restored_ms: int = 0
    """When the last restore was that says so, epoch ms; 0: none does."""
    held_ms: int = 0
    """When the checkpoint was triggered that holds it, where numbers alone say so: it may hold a later one of its id."""


def evidence(transaction: BrokerTransaction, sink: Sink, flink: FlinkState, *, taken_ms: int = 0) -> Evidence:
    """Return what became of the checkpoint that holds an aborted transaction: from Flink's REST API, else from the ids alone.

    ``taken_ms``: until then (epoch ms) a take of its id may be the one of the order that aborted it, and tells nothing.
    """
    found = _by_listing(flink_cases.case_of(flink, transaction)) or _by_job_and_ids(transaction, sink, flink, taken_ms)
    if found.fate is not Fate.COMPLETED:
        return found
    # That its checkpoint was completed does not keep anybody from a restore of an earlier one.
    restored_ms, held_ms = found.restored_ms, found.held_ms
    again = set_back(transaction, sink, flink, restored_ms=restored_ms, held_ms=held_ms, taken_ms=taken_ms)
    if again is None:
        again_ms = taken_again_ms(transaction, sink, restored_ms=restored_ms, held_ms=held_ms)
        is_doubtful = sink.naming is Naming.UNKNOWN and again_ms is not None
        return replace(found, sure=False) if is_doubtful else found
    return replace(found, fate=Fate.REPLAYED, why=again, sure=False, rule=0)


def evidence_of_branch(branch: BranchFacts, flink: FlinkState) -> Evidence:
    """Return what became of the checkpoint that holds a branch of Flink's JDBC sink that was rolled back: what lists it tells."""
    found = _by_listing(flink_cases.case_of_branch(flink, branch))
    if found is not None and branch.proof is BranchProof.MISSING:
        # It may have been made visible and taken away between two looks.
        return replace(found, sure=False)
    why = "no checkpoint that was read lists it, or it is not known which of them its job went on from"
    return found or Evidence(fate=Fate.UNSEEN, why=why)


def _by_job_and_ids(transaction: BrokerTransaction, sink: Sink, flink: FlinkState, taken_ms: int) -> Evidence:
    """Tell from numbers, times and what its id did since: no list names it, so that nothing is sure."""
    parsed = FlinkId.parse(transaction.identity.transaction)
    if parsed is None:
        return Evidence(fate=Fate.UNSEEN, why="its id is not of the form that Flink's KafkaSink builds")
    job, unknown = job_of(transaction, sink, flink)
    by_ids = _by_ids(transaction, parsed, sink, taken_ms)
    if job is None:
        return by_ids or Evidence(fate=Fate.UNSEEN, why=unknown)
    found = _by_job(transaction, parsed, sink, flink, job)
    return by_ids if by_ids is not None and found.fate not in (Fate.COMPLETED, Fate.REPLAYED) else found


def _by_job(
    transaction: BrokerTransaction, parsed: FlinkId, sink: Sink, flink: FlinkState, job: FlinkJobFacts
) -> Evidence:
    start_ms, proven = transaction.identity.start_ms, flink.restored_from(job.job.job)
    newest = max(flink.restores_from(job.job.job), key=lambda restore: restore.at_ms, default=None)
    is_pooled = sink.naming is Naming.POOLING
    number = None if is_pooled else parsed.number
    # No list names it, or that would have told: what was read does not hold it.
    read = flink.lists.read_whole(job) if None not in transaction.handle_identity else frozenset()
    proven = {n: restore for n, restore in proven.items() if n in job.checkpoints or n not in read}
    found = by_job(job_case(start_ms, number, job, proven, newest=newest))
    if sink.naming is Naming.UNKNOWN:
        if_pooled = by_job(job_case(start_ms, None, job, proven, newest=newest))
        if found.fate is not if_pooled.fate:
            why = f"too few commits were seen to tell whether the numbers in its ids are {job.pipeline}'s checkpoints"
            return Evidence(fate=Fate.UNSEEN, why=why)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCase:
    """Everything that a rule may consult: an aborted transaction and the job that wrote it. Times are epoch ms."""

    start_ms: int
    number: int | None
    """The number in its id where that is a checkpoint; None: ids are pooled."""
    facts: FlinkJobFacts
    proven: Mapping[int, Restore]
    """The checkpoints of this job that any job was restored from."""
    held: tuple[int, ...]
    """The checkpoints seen that hold it and may commit it."""
    unseen: tuple[int, ...]
    """Those that were not seen, and are proven."""
    restored: Restore | None
    """What set the work back after the transaction began: this job's first restore, else the newest checkpoint restored from."""
    newest: Restore | None = None
    """The last restore from a checkpoint of this job since the transaction began, by any job."""

    @property
    def set_back(self) -> Restore | None:
        """Return the last restore where it was from a checkpoint before the transaction."""
        return self.newest if self.newest is not None and _is_before(self, self.newest.number) else None

    @property
    def completed(self) -> list[int]:
        """Return the checkpoints that hold it and were completed."""
        return [n for n in self.held if self._counts(n) or n in self.proven] + [*self.unseen]

    @property
    def running(self) -> int | None:
        """Return the first checkpoint that holds it and of which it is not known whether it counts."""
        return min(
            (n for n in self.held if self.status(n) is not FlinkStatus.FAILED and not self._counts(n)), default=None
        )

    def _counts(self, number: int) -> bool:
        return self.status(number) is FlinkStatus.COMPLETED and self.facts.counts(self.facts.checkpoints[number])

    def status(self, number: int) -> FlinkStatus:
        """Return how a checkpoint that was seen stands."""
        return self.facts.checkpoints[number].status

    def answer(self, rule: int, fate: Fate, why: str, checkpoint: int | None) -> Evidence:
        """Return what a rule says."""
        return Evidence(fate=fate, why=why, rule=rule, checkpoint=checkpoint)


def job_case(
    start_ms: int,
    number: int | None,
    facts: FlinkJobFacts,
    proven: Mapping[int, Restore],
    *,
    newest: Restore | None = None,
) -> JobCase:
    """Return the case of a transaction that began at ``start_ms`` (epoch ms); ``newest``: the last restore, by any job."""
    first = number or 0
    own = min((r for r in facts.restores if r.at_ms > start_ms), key=lambda r: r.at_ms, default=None)
    held: list[int] = []
    for n, seen in facts.checkpoints.items():
        is_before_restore = own is None or seen.triggered_ms < own.at_ms
        is_named = n == number and (seen.ended_ms or start_ms) >= start_ms
        if n >= first and seen.kind.commits and is_before_restore and (is_named or seen.triggered_ms >= start_ms):
            held.append(n)
    unseen: list[int] = []
    if number is not None:
        unseen = [n for n, r in proven.items() if n not in facts.checkpoints and n >= first and r.at_ms > start_ms]
    if own is not None:
        unseen = [n for n in unseen if n == own.number]  # the others were taken after the job was set back
    restored = own or max(proven.values(), key=lambda r: r.number, default=None)
    return JobCase(
        start_ms=start_ms,
        number=number,
        facts=facts,
        proven=proven,
        held=tuple(held),
        unseen=tuple(unseen),
        restored=restored if restored is not None and restored.at_ms > start_ms else None,
        newest=newest if newest is not None and newest.at_ms > start_ms else None,
    )


def by_job(case: JobCase) -> Evidence:
    """Return the answer of the first rule that answers; the last always does."""
    answers = (rule(case) for rule in RULES)
    return next(answer for answer in answers if answer is not None)


def rule_1_completed(case: JobCase) -> Evidence | None:
    """A checkpoint that holds it was completed, and the work was not set back to before it since."""
    if not case.completed or case.set_back is not None:
        return None
    number = min(case.completed)
    why = _completed(case.facts, number, case.proven)
    found = case.answer(1, Fate.COMPLETED, why, number)
    restored_ms = case.newest.at_ms if case.newest is not None else 0
    held_ms = restored_ms if number in case.unseen else case.facts.checkpoints[number].triggered_ms
    return replace(found, restored_ms=restored_ms, held_ms=held_ms)


def rule_2_set_back(case: JobCase) -> Evidence | None:
    """The work was set back to a checkpoint from before the transaction."""
    restored = case.set_back or case.restored
    if restored is None or not _is_before(case, restored.number):
        return None
    why = f"{case.facts.pipeline} was set back to checkpoint {restored.number}, which is older: it is written again"
    found = case.answer(2, Fate.REPLAYED, why, min(case.held, default=case.number))
    return replace(found, restored_ms=restored.at_ms)


def rule_3_job_runs(case: JobCase) -> Evidence | None:
    """The job runs, so a checkpoint that holds it may still complete."""
    if case.facts.job.is_over:
        return None
    why = f"Flink has reported the end of no checkpoint of {case.facts.pipeline} that holds it"
    return case.answer(3, Fate.PENDING, why, case.running)


def rule_4_pooled_restore(case: JobCase) -> Evidence | None:
    """A job was restored since, and pooled ids do not say whether from a checkpoint before the transaction."""
    if case.restored is None or case.number is not None:
        return None
    why = (
        f"a job was restored from checkpoint {case.restored.number}; when that was taken was not seen, and pooled ids do not "
        "tell"
    )
    return case.answer(4, Fate.UNSEEN, why, case.running)


def rule_5_end_not_seen(case: JobCase) -> Evidence | None:
    """The job is over, and the end of the checkpoint that holds it was not seen."""
    if case.held and case.running is None:
        return None
    is_savepoint = case.running is not None and case.status(case.running) is FlinkStatus.COMPLETED
    unknown = "it is held by a savepoint" if is_savepoint else "the end of its checkpoint was not seen"
    why = f"{case.facts.pipeline} is {case.facts.job.state}; {unknown}: the next restore will tell"
    return case.answer(5, Fate.UNSEEN, why, case.running)


def rule_6_job_over(case: JobCase) -> Evidence:
    """The job is over, and every checkpoint that holds it failed."""
    state = case.facts.job.state
    why = f"{case.facts.pipeline} is {state}, and no checkpoint that holds it was completed: a restored job writes it again"
    return case.answer(6, Fate.NOT_COMPLETED, why, min(case.held))


RULES: tuple[Callable[[JobCase], Evidence | None], ...] = (
    rule_1_completed,
    rule_2_set_back,
    rule_3_job_runs,
    rule_4_pooled_restore,
    rule_5_end_not_seen,
    rule_6_job_over,
)


def _completed(facts: FlinkJobFacts, number: int, proven: Mapping[int, Restore]) -> str:
    seen = facts.checkpoints.get(number)
    what = f"checkpoint {number} of {facts.pipeline} holds it and was completed"
    if seen is not None and seen.status is FlinkStatus.COMPLETED and seen.ended_ms is not None:
        return f"{what} at {utc(seen.ended_ms)}"
    return f"{what}: a job was restored from it at {utc(proven[number].at_ms)}"


def _is_before(case: JobCase, number: int) -> bool:
    """Say whether checkpoint ``number`` was taken before the transaction began."""
    if case.number is not None:
        return number < case.number
    seen = case.facts.checkpoints.get(number)
    return seen is not None and (seen.ended_ms or seen.triggered_ms) < case.start_ms


def _by_listing(case: FlinkCase | None) -> Evidence | None:
    """Tell as the verdict about it does while it is open, or return None where none lists it or none is known to count."""
    if case is None or not case.listings:
        return None
    known = case.known()
    is_sure = not known.assumes
    if known.answer is Answer.SET_BACK:
        return Evidence(fate=Fate.REPLAYED, why=known.why, sure=is_sure, checkpoint=case.first.number)
    if known.answer is not Answer.COUNTS:
        return None
    return Evidence(
        fate=Fate.COMPLETED,
        why=known.why,
        sure=is_sure,
        checkpoint=known.number,
        restored_ms=known.restored_ms,
    )


def _by_ids(transaction: BrokerTransaction, parsed: FlinkId, sink: Sink, taken_ms: int) -> Evidence | None:
    """Tell from what happened to the ids of its subtask afterwards, or return None where that says nothing.

    A job set back to before a transaction takes its id again; one that goes on behind it takes later ones only.
    """
    ended_ms, ids = transaction.ended_ms, sink.subtasks.get(parsed.subtask)
    if sink.naming is not Naming.INCREMENTING or ids is None or ended_ms is None:
        return None
    if (again_ms := taken_again_ms(transaction, sink, after_ms=taken_ms)) is not None:
        return Evidence(fate=Fate.REPLAYED, why=taken_again(again_ms))
    later = [number for number, at_ms in ids.taken_ms.items() if number > parsed.number and at_ms > ended_ms]
    if not later:
        return None
    why = f"the job went on with {parsed.prefix}-{parsed.subtask}-{min(later)} and never used this id again: it counts as written"
    return Evidence(fate=Fate.COMPLETED, why=why, checkpoint=parsed.number)
