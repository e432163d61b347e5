"""Rules about rows that are missing, or that were written twice."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from indoubt.collector.assess.findings import Finding, Severity, of_transaction
from indoubt.collector.assess.remedies import remedy_of
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.rules.transactions import recovery_ms
from indoubt.collector.assess.situation import Situation
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.data_loss import Loss, LossVerdict
from indoubt.collector.verdicts.verdict_case import BROKER
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.verdicts import Certainty, Evidence, Verdict

RECENT_MS = 3_600_000
"""How long after its end a loss raises an alert, and after the restore a duplicate; GET /losses keeps both."""
CHECK_EVERY_S = 10.0
Losses = Callable[[int], Sequence[Loss]]


class RecentLosses:
    """For one thread. Looked for at intervals: it takes a pass over all transactions that ended.

    ``losses_since``: what became of those that ended since a time (epoch ms); ``duplicates_since``: committed ones that are
    written again after a restore since then.
    """

    def __init__(
        self, losses_since: Losses, duplicates_since: Losses, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._losses_since, self._duplicates_since, self._clock = losses_since, duplicates_since, clock
        self._read_s = -math.inf
        self._found: tuple[Loss, ...] = ()

    def at(self, now_ms: int) -> tuple[Loss, ...]:
        """Return what is lost or written twice, not ours, within the last hour, as of at most 10 s ago."""
        if self._clock() - self._read_s >= CHECK_EVERY_S:
            since_ms = now_ms - RECENT_MS
            lost = (loss for loss in self._losses_since(since_ms) if loss.verdict is LossVerdict.LOST)
            self._found = (*(loss for loss in lost if not loss.view.managed), *self._duplicates_since(since_ms))
            self._read_s = self._clock()
        return self._found


def recent_losses(situation: Situation) -> Sequence[Loss]:
    """Return what others' transactions lost or wrote twice within the last hour."""
    return situation.losses(situation.now_ms)


def a7_lost(situation: Situation) -> Iterator[Finding]:
    """Decided, then aborted, and not replayed within the time that recovery of its pipeline needs; of others: lost for good."""
    for loss in situation.read(recent_losses):
        if loss.verdict is LossVerdict.LOST:
            yield _of_loss(
                loss,
                Severity.WARNING if loss.certainty is Certainty.GUESS else Severity.CRITICAL,
                f"lost the records of transaction {loss.view.transaction} ({loss.certainty.value}). It counts them as written, "
                "but they were aborted: write them again from its input",
            )
    for judged in situation.judged:
        t = judged.view
        if judged.judgement.verdict is not Verdict.LOST:
            continue
        needs_ms = recovery_ms(judged.pipeline, situation.limits)
        if t.ended_ms is not None and situation.now_ms - t.ended_ms < needs_ms:
            continue
        rows = f" with {counted(t.handle.rows, 'row')}" if t.handle is not None else ""
        yield of_transaction(
            t,
            severity=Severity.CRITICAL,
            summary=(
                f"transaction {t.transaction}{rows} was decided and then aborted, and its batch was not written again within "
                f"{seconds(needs_ms)}: start its pipeline from its checkpoint"
            ),
            evidence=judged.judgement.evidence,
            remedy=remedy_of(judged, situation),
        )


def a12_duplicated(situation: Situation) -> Iterator[Finding]:
    """A job was set back to before a committed transaction: its rows are written a second time."""
    for loss in situation.read(recent_losses):
        if loss.verdict is LossVerdict.DUPLICATED:
            yield _of_loss(
                loss,
                Severity.CRITICAL if loss.certainty is Certainty.CERTAIN else Severity.WARNING,
                f"writes the records of transaction {loss.view.transaction} a second time ({loss.certainty.value}): it was "
                "committed, then the job was restored from an older checkpoint",
            )


def _of_loss(loss: Loss, severity: Severity, what: str) -> Finding:
    """Return what a rule finds of an ended transaction; ``what`` it says of its application."""
    return of_transaction(
        loss.view,
        severity=severity,
        summary=f"{loss.view.pipeline} {what}",
        evidence=(Evidence(loss.why, BROKER, loss.view.ended_ms),),
    )


A7 = Rule(
    number="A7",
    name="lost",
    find=a7_lost,
    consequence="Readers never see these rows until they are written again.",
    sources=(Source.DECISIONS,),
)
A12 = Rule(
    number="A12",
    name="duplicated",
    find=a12_duplicated,
    consequence="Readers count these rows twice.",
)
