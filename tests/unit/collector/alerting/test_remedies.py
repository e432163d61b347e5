"""Which order ends an alert: what a verdict allows, and what makes a pipeline go on."""

from __future__ import annotations

from typing import Any

import pytest

from collector.assess.remedies import remedy_of
from collector.records.facts import PipelineFacts
from collector.records.formats.transaction_state import BrokerStatus
from collector.verdicts.judging import Judged
from collector.verdicts.verdict_case import PipelineHistory
from lifecycle.rows.attention import Remedy
from lifecycle.verdicts import Judgement, Verdict
from tests.unit.collector.observations import PREFIX, T0, broker_record, only_view, pipeline

COMMIT, ABORT, LOST = Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.LOST
COMMITS, ABORTS = {"may_commit": True}, {"may_abort": True}
RUNS = pipeline()
RESTARTS = pipeline(facts=PipelineFacts(pipeline=PREFIX, restarting_ms=T0 - 500))
STOPPED = pipeline(facts=PipelineFacts(pipeline=PREFIX, stopped_ms=T0))
NEVER_RAN = pipeline(latest_run_offset=None)


@pytest.mark.parametrize(
    ("verdict", "may", "of", "remedy"),
    [
        (COMMIT, COMMITS, RUNS, Remedy.COMMIT),
        (COMMIT, ABORTS, RUNS, Remedy.OPEN),
        (ABORT, ABORTS, RUNS, Remedy.ABORT),
        (ABORT, COMMITS, RUNS, Remedy.OPEN),
        (Verdict.FOREIGN, COMMITS | ABORTS, None, Remedy.OPEN),
        (Verdict.IN_PROGRESS, COMMITS | ABORTS, RUNS, Remedy.OPEN),
        (LOST, {}, RUNS, Remedy.RESTART),
        (LOST, {}, RESTARTS, Remedy.OPEN),
        (LOST, {}, STOPPED, Remedy.START),
        (LOST, {}, NEVER_RAN, Remedy.OPEN),
        (LOST, {}, None, Remedy.OPEN),
    ],
    ids=[
        "commit it",
        "commit it, not from here",
        "abort it",
        "abort it, not from here",
        "foreign",
        "in progress",
        "lost",
        "lost, and it restarts already",
        "lost, and its supervisor has ended",
        "lost, and no run of it is known",
        "lost, of another application",
    ],
)
def test_a_remedy_is_what_the_verdict_allows(
    verdict: Verdict, may: dict[str, Any], of: PipelineHistory | None, remedy: Remedy
) -> None:
    view = only_view(broker_record(BrokerStatus.ONGOING, 0))
    judgement = Judgement(verdict=verdict, rule=1, rests_on=(), **may)
    assert remedy_of(Judged(view=view, judgement=judgement, pipeline=of), T0) is remedy
