"""Was data lost, or written twice? For each transaction that has ended: the answer with its reason. Pure functions.

Flink's KafkaCommitter prints one and the same error ("already fenced … most likely signals data loss") for a transaction that
had been committed before a crash and for one that the broker had timed out. The coordinator's own records tell the two apart.
Whether an aborted one held anything that is not written again is told by the decision log (ours), by the checkpoints of the job
(Flink's), or by what it held (input offsets are undone with it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.observations import OffsetsSeen
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.abort_causes import AbortClues, Inference, explain
from indoubt.collector.verdicts.flink_checkpoints import Evidence, Fate
from indoubt.collector.verdicts.read_process_write import InputTie
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.states import ROLLED_BACK, TransactionState
from indoubt.lifecycle.verdicts import AbortCause, Certainty

COMMITTED = (TransactionState.COMMITTED, TransactionState.COMMITTING)
UNDONE = (*ROLLED_BACK, TransactionState.ABORTING)


class LossVerdict(Enum):
    """Whether what a transaction held is missing; the value is what the API says."""

    NOT_LOST = "not lost"
    """Committed: its records were made visible. Whether retention, or who deleted their topic, took them since is not asked."""
    LOST = "lost"
    """Its owner counts it as written, and the broker has undone it."""
    WRITTEN_AGAIN = TransactionState.WRITTEN_AGAIN.value
    """Decided and undone, and its batch was completed since: its rows are there."""
    DUPLICATED = "duplicated"
    """Committed, and its owner was set back to before it: it is written a second time."""
    HARMLESS = "harmless"
    """Undone, and its owner knows: it never counted, or is written again."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCase:
    """Everything that a rule may read.

    ``flink``: what Flink's checkpoints say of one that was aborted, or that a committed one is written again; None: it is ours,
    or its id is not of Flink's form, or there is nothing to say.
    """

    clues: AbortClues
    log_status: DecisionLogStatus
    flink: Evidence | None = None
    tie: InputTie | None = None
    """What ties it to its input, of what is known of this very transaction (read_process_write.py)."""

    @property
    def view(self) -> TransactionView:
        """Return the transaction."""
        return self.clues.view


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The verdict, how sure it is and from what; ``cause`` says who undid it, None where it was committed."""

    view: TransactionView
    verdict: LossVerdict
    certainty: Certainty
    why: str
    cause: Inference | None = None
    checkpoint: int | None = None
    offsets: tuple[OffsetsSeen, ...] = ()
    """The offsets concerned, where they were found."""


Answer = tuple[LossVerdict, Certainty, str]
Rule = Callable[[LossCase, Inference], Answer | None]


def judge_loss(case: LossCase) -> Loss | None:
    """Return whether data was lost with a transaction, or None while it has not ended."""
    view, batch_attempt = case.view, case.view.batch_attempt
    checkpoint = (
        batch_attempt.batch if batch_attempt is not None else case.flink.checkpoint if case.flink is not None else None
    )
    if view.state in COMMITTED:
        verdict, certainty, why = _committed(case)
        return Loss(view=view, verdict=verdict, certainty=certainty, why=why, checkpoint=checkpoint)
    if view.state is TransactionState.ENDED:
        why = "it has ended; whether by commit or abort was not seen"
        return Loss(view=view, verdict=LossVerdict.UNKNOWN, certainty=Certainty.GUESS, why=why, checkpoint=checkpoint)
    if view.state not in UNDONE:
        return None
    cause = explain(case.clues)
    answers = (rule(case, cause) for rule in RULES)
    verdict, certainty, why = next((answer for answer in answers if answer is not None), None) or _unknown(case, cause)
    return Loss(view=view, verdict=verdict, certainty=certainty, why=why, cause=cause, checkpoint=checkpoint)


def _committed(case: LossCase) -> Answer:
    """Committed: its records were made visible, and once more where its job was set back to before it."""
    view, found = case.view, case.flink
    at = f" at {utc(view.ended_ms)}" if view.ended_ms is not None else ""
    if found is not None and found.fate is Fate.REPLAYED:
        certainty = Certainty.CERTAIN if found.sure else Certainty.LIKELY
        return LossVerdict.DUPLICATED, certainty, f"committed{at}, and {found.why}"
    why = f"committed{at}: readers see its records"
    if not view.managed and FlinkId.parse(view.transaction) is not None:
        why += ". If Flink logs 'already been fenced' about it, nothing is lost"
    return LossVerdict.NOT_LOST, Certainty.CERTAIN, why


def rule_empty(case: LossCase, cause: Inference) -> Answer | None:
    """No partition was ever added to it."""
    broker = case.view.broker
    if broker is None or broker.partitions:
        return None
    if broker.ongoing_epoch is not None or broker.ended_ms != broker.identity.start_ms:
        return None
    return LossVerdict.HARMLESS, Certainty.CERTAIN, "it was empty"


def rule_decided(case: LossCase, cause: Inference) -> Answer | None:
    """Ours, and listed in a commit decision that counts: lost, until its batch is replayed."""
    view = case.view
    if view.listing is None and view.state not in (TransactionState.LOST, TransactionState.WRITTEN_AGAIN):
        return None
    where = f" (log entry {view.listing[0]})" if view.listing is not None else ""
    undone = f"decided to be committed{where}, then aborted ({cause.cause.value}: {cause.why})"
    if view.written_again_ms is not None:
        again = f"a later run wrote its rows again at {utc(view.written_again_ms)}"
        return LossVerdict.WRITTEN_AGAIN, Certainty.CERTAIN, f"{undone}; {again}"
    return LossVerdict.LOST, Certainty.CERTAIN, f"{undone}; a restart of its pipeline writes its rows again"


def rule_undecided(case: LossCase, cause: Inference) -> Answer | None:
    """Ours, and never decided: its batch is written again. While the log cannot be read, what may be ours is not known."""
    unread = case.log_status is DecisionLogStatus.UNREADABLE
    if not case.view.managed and not (unread and case.view.named_prefix):
        return None
    if case.log_status is not DecisionLogStatus.READABLE:
        return (
            LossVerdict.UNKNOWN,
            Certainty.GUESS,
            "the decision log cannot be read, so nobody knows whether it was decided",
        )
    return LossVerdict.HARMLESS, Certainty.CERTAIN, "never decided: the next run writes its batch again"


def rule_flink(case: LossCase, cause: Inference) -> Answer | None:
    """Flink's checkpoints, or what became of its ids, show whether the job counts it as written."""
    found = case.flink
    if found is None:
        return None
    certainty = Certainty.CERTAIN if found.sure else Certainty.LIKELY
    match found.fate:
        case Fate.COMPLETED:
            return LossVerdict.LOST, certainty, f"{found.why}; it was aborted ({cause.cause.value}: {cause.why})"
        case Fate.REPLAYED:
            return LossVerdict.HARMLESS, certainty, found.why
        case Fate.NOT_COMPLETED:
            return LossVerdict.HARMLESS, Certainty.LIKELY, found.why
        case Fate.PENDING:
            return LossVerdict.UNKNOWN, Certainty.GUESS, f"{found.why}: if one completes, this is lost"
        case Fate.UNSEEN:
            return None


def rule_offsets(case: LossCase, cause: Inference) -> Answer | None:
    """What ties it to its input was undone with it: harmless, if its application goes back to those offsets."""
    # An id of our form may be a pipeline's with another decision log: its offsets are markers, not its input's.
    if case.view.broker is None or case.view.named_prefix is not None or case.tie is None:
        return None
    assumed = "".join(f"; assumed: {each.value}" for each in case.tie.assumes)
    why = f"{case.tie.why}, and the abort undid them too: its application reads that input again, as far as can be told{assumed}"
    return LossVerdict.HARMLESS, Certainty.LIKELY, why


def rule_client(case: LossCase, cause: Inference) -> Answer | None:
    """Its own client aborted it: it knows."""
    if cause.cause is not AbortCause.CLIENT or cause.certainty is Certainty.GUESS:
        return None
    return LossVerdict.HARMLESS, Certainty.LIKELY, f"its own client gave it up ({cause.why})"


RULES: tuple[Rule, ...] = (rule_empty, rule_decided, rule_undecided, rule_flink, rule_offsets, rule_client)


def _unknown(case: LossCase, cause: Inference) -> Answer:
    """Nothing says whether its owner counts it as written."""
    undone = f"aborted ({cause.cause.value}: {cause.why})"
    if case.flink is not None:
        return LossVerdict.UNKNOWN, Certainty.GUESS, f"{undone}; {case.flink.why}"
    return LossVerdict.UNKNOWN, Certainty.GUESS, f"{undone}; only its owner knows whether it writes these rows again"
