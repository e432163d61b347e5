"""The rule about batches that one resource manager has and another has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from indoubt.collector.assess.findings import Finding, Severity, application_group
from indoubt.collector.assess.remedies import remedy_of_pipeline
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.views.batches import BatchVerdict, batches
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Evidence, Verdict

DATABASES = "databases"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSidedBatch:
    """A batch that is finished in some of its resource managers and not in others."""

    pipeline: str
    batch: int
    done_in: tuple[str, ...]
    missing_in: tuple[str, ...]
    since_ms: int


def one_sided(situation: Situation) -> Sequence[OneSidedBatch]:
    """Return the batches that are committed in one resource manager and not in another."""
    current, now_ms = situation.current, situation.now_ms
    # What was lost is settled only once its batch was replayed.
    batch_attempts = [
        judged.view.batch_attempt
        for judged in situation.judged
        if judged.judgement.verdict is not Verdict.SETTLED or judged.view.state is TransactionState.ABORTED
    ]
    members = current.transactions.judged_of_shared(
        {
            (batch_attempt.checkpoint_id, batch_attempt.batch)
            for batch_attempt in batch_attempts
            if batch_attempt is not None
        },
        now_ms,
    )
    return tuple(
        OneSidedBatch(
            pipeline=batch.pipeline,
            batch=batch.batch_attempt.batch,
            done_in=batch.committed_on,
            missing_in=batch.missing_on,
            since_ms=batch.decision[1].at_ms if batch.decision is not None else batch.updated_ms or now_ms,
        )
        for batch in batches(members, now_ms, current.commit_overdue_ms)
        if batch.verdict is BatchVerdict.ONE_SIDE_ONLY
    )


def a10_one_side_only(situation: Situation) -> Iterator[Finding]:
    """A batch is finished in one resource manager and missing in another."""
    for batch in situation.read(one_sided):
        done, missing = ", ".join(batch.done_in), ", ".join(batch.missing_in)
        yield Finding(
            subject=f"{batch.pipeline}|{batch.batch}",
            group=application_group(batch.pipeline),
            severity=Severity.CRITICAL,
            summary=f"batch {batch.batch} of {batch.pipeline} is in {done} and not in {missing}: the two contradict each other",
            evidence=(Evidence(f"done in {done}, missing in {missing}", DATABASES, batch.since_ms),),
            subject_labels={"pipeline": batch.pipeline, "batch": str(batch.batch)},
            remedy=remedy_of_pipeline(situation, batch.pipeline),
            object_path=page_paths.batch(batch.pipeline, batch.batch),
        )


A10 = Rule(
    number="A10",
    name="one side only",
    find=a10_one_side_only,
    consequence="The two contradict each other until the batch is finished.",
    sources=(Source.TRANSACTIONS, Source.DECISIONS, Source.DATABASES),
    for_ms=10_000,
)
