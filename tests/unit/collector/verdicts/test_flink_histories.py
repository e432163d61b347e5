"""Random histories of Flink: what is said of open transactions and branches, held against a model that knows what is true."""

from __future__ import annotations

import pytest
from hypothesis import event, example, given, settings

from indoubt.collector.records.formats.flink_records import GONE
from indoubt.lifecycle.resource_manager_kinds import MYSQL, POSTGRES
from indoubt.lifecycle.verdicts import Certainty, Judgement, Verdict
from tests.unit.collector.verdicts.flink_model.applications import Application
from tests.unit.collector.verdicts.flink_model.histories import HISTORIES, SETTINGS, History, Setting, Step, history
from tests.unit.collector.verdicts.flink_model.world import Branch, Held, KafkaTransaction, job_id

COMMITTED, RECORDED, WRITTEN = (("write", outcome, "read") for outcome in ("committed", "recorded", "written"))
UNSURE, SAVED, STOPPED, STOPPING = (
    ("write", outcome, "read") for outcome in ("unsure", "savepoint", "stopped", "stopping")
)
OUT, UNSURE_UNREAD = ("write", "recorded", "out of reach"), ("write", "unsure", "out of reach")
WRITTEN_OUT = ("write", "written", "out of reach")
FAIL_OVER, POLL, NEWEST, BACK, ANEW = (
    ("fail over",),
    ("poll",),
    ("restore", 0, False),
    ("restore", 1, False),
    ("restore", 0, True),
)


def check(found: History, held: KafkaTransaction | Branch) -> Judgement | None:
    """Hold what is said of one that is open, or was when it was seen last, against what is true."""
    judgement, application = found.judged(held.as_open), found.of(held)
    if judgement is None:
        return None
    counts = application.counts(held)
    is_certain = judgement.certainty is Certainty.CERTAIN
    if judgement.may_commit and not judgement.commit_confirmation:
        assert is_certain, "a commit that assumes something is typed"
        assert counts or application.is_begun_anew_unseen(), (
            f"a commit by rule {judgement.rule} would write its rows twice"
        )
        # A restored job ignores a branch of its state that is gone, and fails at one that it has prepared itself.
        is_to_commit = application.is_up and any(held in sink.pending for sink in application.sinks)
        assert not (is_to_commit and isinstance(held, Branch)), "its job would fail at a branch that is gone"
    elif judgement.may_commit and held.ended is None:
        confirmed = [each for each in application.holds if application.name_of(each) == judgement.commit_confirmation]
        named = [each for each in confirmed if held in application.holds[each]]
        if "elsewhere" not in found.setting.beside and not found.copies:
            assert named, f"rule {judgement.rule} has a person confirm a checkpoint that does not hold it"
        if judgement.rule == 30 and not found.copies:
            assert counts, "a commit would write its rows twice"
    if judgement.may_abort and not judgement.loses_data:
        assert is_certain, "an abort that assumes something is typed"
        assert not counts, f"an abort by rule {judgement.rule} would lose its rows"
    return judgement


def is_clear(found: History, application: Application) -> bool:
    """Say whether a collector saw all that happened, and that nobody else has the name or the prefix."""
    others = [each for each in found.applications if each is not application]
    is_alone = found.setting.beside in ("", "apart") and not found.copies
    is_alone = is_alone and all(found.world.flink.lists.read_whole(found.world.flink.jobs[each.job]) for each in others)
    # Whose copy another one was restored from is not told: it may go on with this work.
    is_alone = is_alone and not any(each.is_moved for each in others)
    return found.setting.watched and found.setting.stated is not False and application.is_told() and is_alone


def must_be_committed(application: Application, held: Held) -> bool:
    """Say whether its job died once Flink had recorded the checkpoint that holds it, and nothing started since."""
    newest = application.line[-1] if application.line else None
    return not application.is_up and not application.is_over and newest is not None and (
        newest[0] == application.job and held in application.holds[newest]
    )  # fmt: skip


def must_be_aborted(application: Application, held: Held) -> bool:
    """Say whether a checkpoint lists it, and the work went on once since, from a checkpoint of the same job before it.

    A job that REST does not tell of any more may come back, and go on from the checkpoint that lists it.
    """
    listed_by = [taken[0] for taken, holds in application.holds.items() if held in holds]
    restored = application.restored_since(held)
    source = restored[0] if len(restored) == 1 else None
    jobs = application.world.flink.jobs
    may_come_back = any(each in jobs and jobs[each].job.state == GONE for each in listed_by)
    is_set_back = source is not None and source[0] in listed_by and application.is_set_back_by(held, source)
    return is_set_back and not may_come_back


def hold(steps: list[Step], setting: Setting) -> None:
    """Hold everything that is said after these steps against what is true."""
    found = history(steps, setting)
    for held in found.world.left:
        judgement, application = check(found, held), found.of(held)
        if held.ended is not None or not is_clear(found, application):
            continue
        if must_be_committed(application, held):
            event("a clear commit")
            assert judgement is not None
            assert judgement.verdict is Verdict.COMMIT_IT, "its rows are not offered"
            is_mysql = isinstance(held, Branch) and held.resource_manager == MYSQL.name
            # A later job of any application may use the prefix until a list of its own is read.
            is_first = all(len(each.jobs) == 1 for each in found.applications)
            if setting.rest == "not asked" and not setting.store:
                assert judgement.certainty is not Certainty.CERTAIN, "a restore may have gone unseen"
            elif setting.rest != "not asked":
                assert is_mysql or not is_first or judgement.certainty is Certainty.CERTAIN, "it is certain"
        elif must_be_aborted(application, held):
            event("a clear abort")
            assert judgement is not None
            assert judgement.verdict is Verdict.ABORT_IT, "it is left to hold readers up"


@settings(max_examples=250)
@given(HISTORIES, SETTINGS)
@example([UNSURE, FAIL_OVER], Setting(rest="away"))
@example([COMMITTED, RECORDED, ("restore as", 1, True, "orders-v2")], Setting(watched=True, stated=True))
@example(
    [COMMITTED, STOPPED, RECORDED, POLL, ("restore as", 0, False, "orders-v2"), ("restore", 2, False)],
    Setting(databases=(POSTGRES.name,)),
)
@example([COMMITTED, RECORDED, ("copy", 1, False, True)], Setting(watched=True, stated=True))
@example([COMMITTED, RECORDED, ("beside", COMMITTED)], Setting(watched=True, beside="elsewhere"))
@example([UNSURE_UNREAD, RECORDED, BACK], Setting())
@example([WRITTEN, SAVED, WRITTEN_OUT, OUT], Setting(rest="away"))
@example([RECORDED, NEWEST, POLL, ANEW], Setting())
@example([POLL, RECORDED, POLL, SAVED, FAIL_OVER, POLL, NEWEST], Setting())
@example([COMMITTED, STOPPING], Setting())
@example([COMMITTED, UNSURE, FAIL_OVER], Setting(store=True, rest="not asked"))
@example([COMMITTED, UNSURE, WRITTEN], Setting(store=True, rest="away"))
@example([COMMITTED, RECORDED], Setting(store=True, rest="away"))
@example([WRITTEN, COMMITTED, BACK, COMMITTED, BACK], Setting(watched=True))
@example([COMMITTED, ("beside", OUT), COMMITTED], Setting(beside="same prefix"))
@example([UNSURE_UNREAD, POLL, RECORDED, BACK], Setting(databases=(MYSQL.name,)))
@example(
    [COMMITTED, ("beside", RECORDED), ("restore as", 0, True, ""), COMMITTED], Setting(watched=True, beside="apart")
)
def test_no_history_gives_a_wrong_order_and_clear_ones_give_the_right_one(steps: list[Step], setting: Setting) -> None:
    hold(steps, setting)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=3_000, deadline=None)
@given(HISTORIES, SETTINGS)
def test_none_of_many_histories_gives_a_wrong_order(steps: list[Step], setting: Setting) -> None:
    hold(steps, setting)


CLEAR: list[tuple[str, list[Step], Verdict, str, str]] = [
    # name, what happened, verdict, what must be typed, of MySQL
    ("recorded, and its job died", [COMMITTED, RECORDED], Verdict.COMMIT_IT, "", "chk-2"),
    ("restored from it, and not committed yet", [COMMITTED, RECORDED, NEWEST], Verdict.COMMIT_IT, "chk-2", "chk-2"),
    ("only written, and its job died", [COMMITTED, WRITTEN], Verdict.COMMIT_IT, "chk-2", "chk-2"),
    ("set back to before it", [COMMITTED, RECORDED, BACK], Verdict.ABORT_IT, "", ""),
    ("only written, and failed over", [COMMITTED, WRITTEN, FAIL_OVER], Verdict.ABORT_IT, "", ""),
    ("saved, while its job goes on", [COMMITTED, SAVED], Verdict.IN_PROGRESS, "", ""),
    ("died as it stopped with a savepoint", [COMMITTED, STOPPING], Verdict.COMMIT_IT, *2 * ("savepoint-000001-2",)),
]


@pytest.mark.parametrize("is_mysql", [False, True], ids=["kafka and postgres", "mysql"])
@pytest.mark.parametrize(
    ("steps", "verdict", "typed", "of_mysql"), [each[1:] for each in CLEAR], ids=[each[0] for each in CLEAR]
)
def test_a_clear_case(steps: list[Step], verdict: Verdict, typed: str, of_mysql: str, is_mysql: bool) -> None:
    setting = Setting(databases=(MYSQL.name if is_mysql else POSTGRES.name,), watched=True)
    found = history(steps, setting)
    listed = found.applications[0].holds[(job_id(1), 2)]
    open_ = [held for held in found.world.left if held in listed]
    assert {type(held) for held in open_} == {KafkaTransaction, Branch}, "it is still open"
    for held in open_:
        judgement = found.judged(held.as_open)
        assert judgement is not None
        assert judgement.verdict is verdict
        wanted = of_mysql if is_mysql and isinstance(held, Branch) else typed
        assert judgement.commit_confirmation == wanted


def test_of_what_a_stopped_job_committed_nothing_is_left() -> None:
    found = history([COMMITTED, STOPPED], Setting(databases=(POSTGRES.name, MYSQL.name), watched=True))
    (application,) = found.applications
    assert all(held.is_committed for held in application.holds[(application.job, 2)])
