"""What ends an alert about a transaction or a pipeline, as far as an order can do it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from collector.verdicts.judging import Judged
from collector.verdicts.verdict_case import PipelineHistory
from lifecycle.rows.attention import Remedy
from lifecycle.verdicts import Judgement, Verdict


def remedy_of(judged: Judged, now_ms: int) -> Remedy:
    """Return the order that a transaction's verdict allows, or of a lost one what makes its pipeline replay the batch."""
    is_lost = judged.judgement.verdict is Verdict.LOST
    return remedy_of_pipeline(judged.pipeline, now_ms) if is_lost else order_for([judged.judgement])


def order_for(judgements: Sequence[Judgement]) -> Remedy:
    """Return the order that is offered for each of several transactions of one verdict."""
    verdict = judgements[0].verdict
    if verdict in (Verdict.COMMIT_IT, Verdict.HANGING) and all(one.may_commit for one in judgements):
        return Remedy.COMMIT
    if verdict in (Verdict.ABORT_IT, Verdict.HANGING) and all(one.may_abort for one in judgements):
        return Remedy.ABORT
    return Remedy.OPEN


def remedy_of_pipeline(history: PipelineHistory | None, now_ms: int) -> Remedy:
    """Return what makes a pipeline go on; other applications have no supervisor that takes orders.

    While one restarts nothing is to be ordered.
    """
    if history is None or history.latest_run_offset is None or history.restart_under_way(now_ms) is not None:
        return Remedy.OPEN
    return Remedy.START if history.is_stopped else Remedy.RESTART
