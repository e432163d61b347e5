"""What ends what was found about a transaction or a pipeline, as far as an order can do it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from indoubt.collector.assess.situation import Situation
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.verdicts import Judgement, Verdict


def remedy_of(judged: Judged, situation: Situation) -> Remedy:
    """Return the order that a transaction's verdict allows, or of a lost one what makes its pipeline replay the batch."""
    is_lost = judged.judgement.verdict is Verdict.LOST
    return remedy_of_pipeline(situation, judged.view.pipeline) if is_lost else order_for([judged.judgement])


def order_for(judgements: Sequence[Judgement]) -> Remedy:
    """Return the order that is offered for each of several transactions of one verdict."""
    verdict = judgements[0].verdict
    if verdict in (Verdict.COMMIT_IT, Verdict.HANGING) and all(one.may_commit for one in judgements):
        return Remedy.COMMIT
    if verdict in (Verdict.ABORT_IT, Verdict.HANGING) and all(one.may_abort for one in judgements):
        return Remedy.ABORT
    return Remedy.OPEN


def remedy_of_pipeline(situation: Situation, pipeline: str) -> Remedy:
    """Return what makes a pipeline go on; other applications have no supervisor that takes orders."""
    driver = next((each for each in situation.drivers if each.run.facts.pipeline == pipeline), None)
    return Remedy.OPEN if driver is None else remedy_of_driver(driver, situation.startable)


def remedy_of_driver(driver: DriverState, startable: Collection[str]) -> Remedy:
    """Return what makes a pipeline go on: an order to restart is read by its supervisor alone, which may have ended too.

    One that restarts already goes on by itself: a second order would begin it anew.
    """
    if driver.restart is not None:
        return Remedy.OPEN
    if driver.condition in (DriverCondition.STOPPED, DriverCondition.FAILED):
        return Remedy.START if driver.run.facts.pipeline in startable else Remedy.OPEN
    is_gone = driver.condition is DriverCondition.SILENT and driver.run.facts.pipeline in startable
    return Remedy.START if is_gone else Remedy.RESTART
