"""Which order ends an alert or a card: what a verdict allows, and what makes a pipeline go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.assess.remedies import order_for, remedy_of
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.rows.pipelines import RestartUnderWay
from indoubt.lifecycle.verdicts import Judgement, Verdict
from tests.unit.collector.assess.situations import driver
from tests.unit.collector.assessments import look
from tests.unit.collector.observations import PREFIX, T0, broker_record, only_view, run_started

COMMIT, ABORT, LOST = Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.LOST
COMMITS, ABORTS = {"may_commit": True}, {"may_abort": True}
RUNS, STOPPED, FAILED = map(driver, (DriverCondition.ALIVE, DriverCondition.STOPPED, DriverCondition.FAILED))
ANOTHER = replace(RUNS, run=replace(RUNS.run, facts=replace(RUNS.run.facts, pipeline="another")), restart=None)
RESTARTS = replace(RUNS, restart=RestartUnderWay(since_ms=T0, run=None, usually_ms=None, who=""))


@pytest.mark.parametrize(
    ("verdict", "may", "of", "startable", "remedy"),
    [
        (COMMIT, COMMITS, RUNS, (), Remedy.COMMIT),
        (COMMIT, ABORTS, RUNS, (), Remedy.OPEN),
        (ABORT, ABORTS, RUNS, (), Remedy.ABORT),
        (ABORT, COMMITS, RUNS, (), Remedy.OPEN),
        (Verdict.HANGING, COMMITS | ABORTS, None, (), Remedy.COMMIT),
        (Verdict.HANGING, ABORTS, None, (), Remedy.ABORT),
        (Verdict.UNKNOWN, COMMITS | ABORTS, None, (), Remedy.OPEN),
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
        "hangs, and either marker may be written",
        "hangs",
        "unknown",
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
    seen = look(now_ms=T0, drivers=(ANOTHER,) if of is None else (ANOTHER, of), startable=startable)
    assert remedy_of(Judged(view=view, judgement=judgement, pipeline=None), seen) is remedy


@pytest.mark.parametrize(("verdict", "may"), [(COMMIT, COMMITS), (ABORT, ABORTS)])
def test_several_transactions_have_an_order_that_is_offered_for_each(verdict: Verdict, may: dict[str, Any]) -> None:
    offered, held_back = (Judgement(verdict=verdict, rule=1, rests_on=(), **fields) for fields in (may, {}))
    assert order_for([offered, offered]) is not Remedy.OPEN
    assert order_for([offered, held_back]) is order_for([held_back, offered]) is Remedy.OPEN
