"""Which order ends an alert or a card: what a verdict allows, and what makes a pipeline go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.assess.remedies import remedy_of
from collector.records.formats.transaction_state import BrokerStatus
from collector.verdicts.driver_state import DriverCondition, DriverState
from collector.verdicts.judging import Judged
from lifecycle.rows.attention import Remedy
from lifecycle.rows.pipelines import RestartUnderWay
from lifecycle.verdicts import Judgement, Verdict
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import PREFIX, T0, broker_record, only_view, run_started
from tests.unit.collector.rows.situations import driver

COMMIT, ABORT, LOST = Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.LOST
COMMITS, ABORTS = {"may_commit": True}, {"may_abort": True}
RUNS, STOPPED, FAILED = map(driver, (DriverCondition.ALIVE, DriverCondition.STOPPED, DriverCondition.FAILED))
RESTARTS = replace(RUNS, restart=RestartUnderWay(since_ms=T0, run=None, usually_ms=None))


@pytest.mark.parametrize(
    ("verdict", "may", "of", "startable", "remedy"),
    [
        (COMMIT, COMMITS, RUNS, (), Remedy.COMMIT),
        (COMMIT, ABORTS, RUNS, (), Remedy.OPEN),
        (ABORT, ABORTS, RUNS, (), Remedy.ABORT),
        (ABORT, COMMITS, RUNS, (), Remedy.OPEN),
        (Verdict.FOREIGN, COMMITS | ABORTS, None, (), Remedy.OPEN),
        (Verdict.IN_PROGRESS, COMMITS | ABORTS, RUNS, (), Remedy.OPEN),
        (LOST, {}, RUNS, (), Remedy.RESTART),
        (LOST, {}, RESTARTS, (), Remedy.OPEN),
        (LOST, {}, STOPPED, (PREFIX,), Remedy.START),
        (LOST, {}, STOPPED, (), Remedy.OPEN),
        (LOST, {}, FAILED, (PREFIX,), Remedy.START),
        (LOST, {}, None, (PREFIX,), Remedy.OPEN),
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
        "lost, and a person stopped it",
        "lost, and nobody could start it",
        "lost, and its supervisor has ended",
        "lost, and no run of it is known",
    ],
)
def test_a_remedy_is_what_the_verdict_allows(
    verdict: Verdict, may: dict[str, Any], of: DriverState | None, startable: tuple[str, ...], remedy: Remedy
) -> None:
    view = only_view(run_started(0), broker_record(BrokerStatus.ONGOING, 0))
    judgement = Judgement(verdict=verdict, rule=1, rests_on=(), **may)
    seen = look(now_ms=T0, drivers=() if of is None else (of,), startable=startable)
    assert remedy_of(Judged(view=view, judgement=judgement, pipeline=None), seen) is remedy
