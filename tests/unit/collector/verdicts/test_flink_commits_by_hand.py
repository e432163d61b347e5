"""Random histories of Flink with commits by hand: what ended was lost or is written twice, as the model knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import event, example, given, settings

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.verdicts import judging, loss_cases
from indoubt.collector.verdicts.data_loss import Loss, LossVerdict
from indoubt.collector.verdicts.judging import EvaluationContext
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.lifecycle.resource_manager_kinds import MYSQL, POSTGRES
from indoubt.lifecycle.verdicts import Certainty, Verdict
from tests.unit.collector.observations import T0, folded
from tests.unit.collector.verdicts.flink_model.histories import HISTORIES, SETTINGS, History, Setting, Step, history
from tests.unit.collector.verdicts.flink_model.world import Branch, KafkaTransaction
from tests.unit.collector.verdicts.test_flink_histories import (
    ANEW,
    BACK,
    COMMITTED,
    FAIL_OVER,
    NEWEST,
    OUT,
    POLL,
    RECORDED,
    SAVED,
    UNSURE_UNREAD,
    WRITTEN,
    is_clear,
)

BY_HAND, TIME_OUT, WRITERS = ("commit by hand", 0), ("time out",), ("writers start",)


def state_of(found: History) -> State:
    """Return what a collector knows of it all."""
    state = folded(*found.world.records)
    state.flink = found.world.flink
    return state


def held_of(found: History, view: TransactionView) -> KafkaTransaction | Branch:
    """Return what a view is of."""
    if view.branch is not None:
        return next(each for each in found.world.branches if each.name == view.transaction)
    of_id = (each for each in found.world.transactions if each.id == view.transaction)
    return next(each for each in of_id if T0 + each.opened == view.opened_ms)


def losses(found: History) -> Iterator[tuple[KafkaTransaction | Branch, Loss]]:
    state = state_of(found)
    inputs = loss_cases.loss_inputs(state, DecisionLogStatus.ABSENT, views(state, settled=True))
    for loss in loss_cases.judged(inputs):
        if loss.view.broker is None or loss.view.broker.ongoing_epoch is not None:
            yield held_of(found, loss.view), loss


def is_written_twice(found: History, held: KafkaTransaction | Branch) -> bool:
    """Say whether a committed one is written again: a job went on since from before it, and does not rest on it."""
    application = found.of(held)
    return held.is_committed and bool(application.restored_since(held)) and not application.counts(held)


def check(found: History, held: KafkaTransaction | Branch, loss: Loss) -> None:
    """Hold what is said of one that has ended against what is true."""
    counts = found.of(held).counts(held)
    if loss.certainty is Certainty.CERTAIN and found.is_mistake_told:
        assert counts or loss.verdict is not LossVerdict.LOST or not found.is_every_job_told, loss.why
        assert not counts or loss.verdict is not LossVerdict.HARMLESS, loss.why
        assert is_written_twice(found, held) or loss.verdict is not LossVerdict.DUPLICATED, loss.why
    if not held.by_hand or not is_clear(found, found.of(held)):
        return
    set_back = [found.of(held).is_set_back_by(held, each) for each in found.of(held).restored_since(held)]
    if loss.verdict is LossVerdict.DUPLICATED:
        event("a commit by hand that is written twice")
        assert any(set_back), loss.why
    else:
        event("a commit by hand that is not written twice")
        assert not is_written_twice(found, held), f"it is written twice: {loss.why}"


@settings(max_examples=200)
@given(HISTORIES, SETTINGS)
@example([UNSURE_UNREAD, COMMITTED, BACK], Setting())
@example([COMMITTED, FAIL_OVER, ("write", "committed", "out of reach"), FAIL_OVER], Setting(subtasks=2))
@example([SAVED, COMMITTED, COMMITTED, BACK, POLL, NEWEST, OUT, NEWEST], Setting(pooled=True, subtasks=2))
@example(
    [COMMITTED, POLL, SAVED, POLL, BACK, POLL, ("write", "declined", "read"), ("time out",), NEWEST],
    Setting(subtasks=2),
)
@example([COMMITTED, ("beside", COMMITTED), COMMITTED, ("beside", RECORDED), COMMITTED], Setting(beside="same prefix"))
@example([COMMITTED, POLL, COMMITTED, ANEW, COMMITTED, BACK, TIME_OUT], Setting())
@example([COMMITTED, POLL, ("write", "committed", "out of reach"), ANEW, COMMITTED, BACK, TIME_OUT], Setting())
@example(
    [COMMITTED, POLL, ("write", "committed", "out of reach"), ANEW, WRITERS, NEWEST, TIME_OUT, COMMITTED], Setting()
)
@example([COMMITTED, POLL, ("write", "committed", "out of reach"), BACK, WRITERS, NEWEST, TIME_OUT], Setting())
def test_no_history_is_lost_or_written_twice_that_is_not(steps: list[Step], setting: Setting) -> None:
    found = history(steps, setting)
    for held, loss in losses(found):
        check(found, held, loss)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=3_000, deadline=None)
@given(HISTORIES, SETTINGS)
def test_none_of_many_is_lost_or_written_twice_that_is_not(steps: list[Step], setting: Setting) -> None:
    found = history(steps, setting)
    for held, loss in losses(found):
        check(found, held, loss)


@settings(max_examples=100)
@given(HISTORIES, SETTINGS)
@example([COMMITTED, RECORDED, BY_HAND, BACK], Setting(databases=(POSTGRES.name, MYSQL.name), watched=True))
def test_what_was_committed_is_offered_no_second_time(steps: list[Step], setting: Setting) -> None:
    found = history(steps, setting)
    state = state_of(found)
    limits = Limits(flink_commit_overdue_ms=2_000)
    context = EvaluationContext(limits=limits, log_status=(DecisionLogStatus.ABSENT, ""), now_ms=T0 + found.world.at)
    for judged in judging.judged(context.cases(state, views(state, settled=True))):
        committed = judged.view.broker is None or judged.view.broker.ongoing_epoch is not None
        if committed and held_of(found, judged.view).is_committed:
            judgement = judged.judgement
            assert judgement.verdict is Verdict.SETTLED, judgement
            assert not judgement.may_commit
            assert not judgement.may_abort


@pytest.mark.parametrize("n", [0, 1, 2], ids=["Kafka", "PostgreSQL", "MySQL"])
@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        ([COMMITTED, RECORDED, ("commit by hand",)], LossVerdict.NOT_LOST),
        ([COMMITTED, RECORDED, ("commit by hand",), NEWEST], LossVerdict.NOT_LOST),
        ([COMMITTED, RECORDED, ("commit by hand",), BACK], LossVerdict.DUPLICATED),
        ([COMMITTED, RECORDED, ("commit by hand",), NEWEST, COMMITTED, NEWEST], LossVerdict.NOT_LOST),
        ([COMMITTED, WRITTEN, ("commit by hand",), NEWEST], LossVerdict.NOT_LOST),
        ([COMMITTED, WRITTEN, ("commit by hand",), FAIL_OVER], LossVerdict.DUPLICATED),
        ([COMMITTED, RECORDED, ("commit by hand",), FAIL_OVER, COMMITTED], LossVerdict.NOT_LOST),
    ],
    ids=[
        "nothing since",
        "the same",
        "an older one",
        "a newer one",
        "the same, not recorded",
        "failed over",
        "it fails over to it",
    ],
)
def test_a_commit_by_hand_and_the_restore_after_it(steps: list[Step], verdict: LossVerdict, n: int) -> None:
    setting = Setting(databases=(POSTGRES.name, MYSQL.name), watched=True)
    found = history([(*step, n) if step == ("commit by hand",) else step for step in steps], setting)
    by_hand = [(held, loss) for held, loss in losses(found) if held.by_hand]
    ((held, loss),) = by_hand
    assert isinstance(held, KafkaTransaction) is (n == 0)
    # Whether a job that was restored by a person goes on in place of the one before is not told.
    is_told = verdict is LossVerdict.NOT_LOST or BACK not in steps
    assert (loss.verdict, loss.certainty) == (verdict, Certainty.CERTAIN if is_told else Certainty.LIKELY), loss.why
    assert is_written_twice(found, held) is (verdict is LossVerdict.DUPLICATED)
