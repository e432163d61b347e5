"""What ends an alert about a transaction or a pipeline, as far as an order can do it. Pure."""

from __future__ import annotations

from collector.verdicts.judging import Judged
from collector.verdicts.verdict_case import PipelineHistory
from lifecycle.rows.attention import Remedy
from lifecycle.verdicts import Verdict


def remedy_of(judged: Judged, now_ms: int) -> Remedy:
    """Return the order that a transaction's verdict allows, or of a lost one what makes its pipeline replay the batch."""
    judgement = judged.judgement
    if judgement.verdict is Verdict.COMMIT_IT and judgement.may_commit:
        return Remedy.COMMIT
    if judgement.verdict is Verdict.ABORT_IT and judgement.may_abort:
        return Remedy.ABORT
    return remedy_of_pipeline(judged.pipeline, now_ms) if judgement.verdict is Verdict.LOST else Remedy.OPEN


def remedy_of_pipeline(history: PipelineHistory | None, now_ms: int) -> Remedy:
    """Return what makes a pipeline go on; other applications have no supervisor that takes orders.

    While one restarts nothing is to be ordered.
    """
    if history is None or history.latest_run_offset is None or history.restart_under_way(now_ms) is not None:
        return Remedy.OPEN
    return Remedy.START if history.is_stopped else Remedy.RESTART
