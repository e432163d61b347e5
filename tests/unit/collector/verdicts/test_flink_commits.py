"""Open transactions of Flink jobs: each rule by cases (random histories: test_flink_histories.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.flink_facts import FlinkState
from collector.records.formats.flink_records import (
    Committable,
    FlinkCommittables,
    FlinkJob,
    FlinkKind,
    FlinkStatus,
)
from collector.records.formats.transaction_state import BrokerStatus
from collector.state.flink_sinks import Sink, SubtaskIds
from collector.verdicts import flink_commits, verdict_rules
from collector.verdicts.flink_cases import flink_case
from collector.verdicts.flink_checkpoints import Fate, evidence
from lifecycle.verdicts import Certainty, Judgement, Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, broker_record, only_view
from tests.unit.collector.verdicts.test_verdict_rules import case

JOB, OTHER_JOB = "a" * 32, "b" * 32
ID, PRODUCER, EPOCH = "orders-0-3", 7, 0
OPENED, WRITTEN = 22_000, 30_100
"""Checkpoint 3 is triggered 30 s after T0 and completed a second later (flink_observations)."""


def open_view(opened: int = OPENED, epoch: int = EPOCH) -> Any:
    return only_view(
        broker_record(BrokerStatus.ONGOING, opened, transaction=ID, producer_id=PRODUCER, epoch=epoch, start=opened)
    )


def listing(
    number: int = 3, *ids: Committable, written: int = WRITTEN, job: str = JOB, **fields: Any
) -> FlinkCommittables:
    """Return what checkpoint ``number`` lists: the transaction of these tests, or others."""
    return FlinkCommittables(
        cluster=CLUSTER,
        job=job,
        number=number,
        path=f"file:///checkpoints/{job}/chk-{number}",
        kind=FlinkKind.CHECKPOINT,
        written_ms=T0 + written,
        read_ms=T0 + written,
        committables=frozenset(ids or (Committable(ID, PRODUCER, EPOCH),)),
        prefixes=frozenset({"orders"}),
        **fields,
    )


NOT_LISTED = Committable("orders-0-2", 5, 0)
RUNS, FAILED_JOB = job(), job(state="FAILED")


def restored_job(id_: str, number: int, at: int) -> FlinkJob:
    """Return a job that was restored from a checkpoint of the first one."""
    return job(
        id_, restored=number, restored_at=at, restored_path=f"file:///c/{JOB}/chk-{number}", started_ms=T0 + at - 1_000
    )


RESTORED_FROM_3, RESTORED_FROM_2 = restored_job(OTHER_JOB, 3, 60_000), restored_job(OTHER_JOB, 2, 60_000)
LATER_FROM_4, AGAIN_FROM_3 = restored_job("c" * 32, 4, 80_000), restored_job("c" * 32, 3, 80_000)
STARTED_ANEW, LATER_ANEW = job(OTHER_JOB, started_ms=T0 + 59_000), job("c" * 32, started_ms=T0 + 79_000)
GOES_ON_FROM_5 = replace(LATER_FROM_4, restored_number=5, restored_path=f"file:///c/{OTHER_JOB}/chk-5")
FROM_SAVEPOINT = replace(LATER_FROM_4, restored_path="file:///c/savepoint-aaaaaa-0123")
SAVEPOINT = checkpoint(3, kind=FlinkKind.SAVEPOINT)
STOPS_WITH = checkpoint(3, kind=FlinkKind.SYNC_SAVEPOINT)
FINISHED_JOB = job(state="FINISHED")

IN_SAVEPOINT = replace(listing(), path="file:///c/savepoint-aaaaaa-0123", kind=None)
LATER_STOP = replace(STOPS_WITH, number=4, triggered_ms=T0 + 40_000, ended_ms=T0 + 41_000)
STRANGER = job("d" * 32, name="refunds")
LISTED_BY_STRANGER = listing(9, NOT_LISTED, job="d" * 32, written=29_000)
LISTED_EARLIER = replace(LISTED_BY_STRANGER, written_ms=T0 + 15_000)
OF_STRANGER = checkpoint(9, job="d" * 32, job_name="refunds", triggered_ms=T0 + 28_000, ended_ms=T0 + 29_000)

NOT_OVER, FAILED_3 = checkpoint(3, FlinkStatus.IN_PROGRESS), checkpoint(3, FlinkStatus.FAILED)
FAILED_4 = checkpoint(4, FlinkStatus.FAILED, reason="Could not finalize")
EARLIER_3 = checkpoint(3, triggered_ms=T0, ended_ms=T0 + 500)
EARLIER_FAILED = replace(EARLIER_3, status=FlinkStatus.FAILED)
LISTED_2, LISTED_4 = listing(2, NOT_LISTED, written=20_000), listing(4, written=40_100)
LISTED_BY_OTHER = listing(3, NOT_LISTED, job=OTHER_JOB, written=65_000)
OTHER_EPOCH = listing(3, Committable(ID, PRODUCER, EPOCH + 1))
PATH_3 = f"file:///checkpoints/{JOB}/chk-3"
COMPLETED_3 = checkpoint(3, path=PATH_3)
EARLIER_2 = checkpoint(2)
GONE_3 = replace(listing(), is_gone=True)
TAKEN_AGAIN_3 = checkpoint(3, triggered_ms=T0 + 500_000, ended_ms=T0 + 501_000)
RESTORED_SOON = restored_job(OTHER_JOB, 2, 40_000)
SET_BACK_ITSELF = job(state="FAILED", restored=2, restored_at=60_000)
SET_BACK_BEFORE = job(state="FAILED", restored=2, restored_at=28_000)
OUT_OF_REACH: dict[tuple[str, int | None], str] = {(JOB, 3): "permission denied"}
DAMAGED_3 = replace(listing(), committables=frozenset(), prefixes=frozenset(), error="byte 17: damaged")
COMMIT, ABORT, GOES_ON, DOUBT = Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.IN_PROGRESS, Verdict.UNKNOWN

CASES: list[tuple[str, list[Any], bool, int, Verdict | None, int, str]] = [
    # name, what was seen of Flink, whether REST answers now, ms after T0, verdict, rule, what must be typed
    ("completed, job gone", [FAILED_JOB, checkpoint(3), listing()], False, 40_000, COMMIT, 23, ""),
    ("completed, job alive and late", [RUNS, checkpoint(3), listing()], True, 40_000, COMMIT, 23, ""),
    ("completed a moment ago", [RUNS, checkpoint(3), listing()], True, 32_000, GOES_ON, 23, ""),
    ("a later one that lists it completed", [FAILED_JOB, checkpoint(4), listing(), LISTED_4], False, 50_000, COMMIT, 23, ""),
    ("a later one that does not list it completed", [FAILED_JOB, checkpoint(4), listing()], False, 50_000, COMMIT, 25, "chk-3"),
    ("set back and restored from a later one", [FAILED_JOB, RESTORED_FROM_2, LATER_FROM_4, listing()], True, 90_000, DOUBT, 21, ""),
    ("set back and restored from it again", [FAILED_JOB, RESTORED_FROM_2, AGAIN_FROM_3, listing()], True, 90_000, DOUBT, 21, ""),
    ("restored from it", [FAILED_JOB, RESTORED_FROM_3, listing()], True, 70_000, COMMIT, 23, "chk-3"),
    ("set back to before it", [FAILED_JOB, checkpoint(3), RESTORED_FROM_2, listing()], True, 70_000, ABORT, 22, ""),
    ("it was set back itself", [SET_BACK_ITSELF, checkpoint(3), listing()], True, 70_000, ABORT, 22, ""),
    ("so it was, and it runs", [replace(SET_BACK_ITSELF, state="RUNNING"), checkpoint(3), listing()], True, 70_000, ABORT, 22, ""),
    ("it lingers after its own restore", [SET_BACK_ITSELF, LISTED_2], True, 70_000, ABORT, 26, ""),
    ("a job of that name from nowhere", [FAILED_JOB, checkpoint(3), STARTED_ANEW, listing()], True, 70_000, DOUBT, 21, ""),
    ("restored from it, REST never told of it", [RESTORED_FROM_3, listing()], True, 70_000, COMMIT, 23, "chk-3"),
    ("so it was, then one from nowhere", [RESTORED_FROM_3, LATER_ANEW, listing()], True, 90_000, DOUBT, 21, ""),
    ("restored from it, and on from there", [FAILED_JOB, RESTORED_FROM_3, GOES_ON_FROM_5, listing()], True,
        90_000, COMMIT, 23, "chk-3"),
    ("its job runs, it is not over", [RUNS, NOT_OVER, listing()], True, 40_000, GOES_ON, 24, ""),
    ("its checkpoint failed", [RUNS, FAILED_3, listing()], True, 40_000, GOES_ON, 24, ""),
    ("its checkpoint failed, its job is gone", [FAILED_JOB, FAILED_3, listing()], True, 40_000, DOUBT, 34, ""),
    ("its checkpoint failed, REST is away", [RUNS, FAILED_3, listing()], False, 40_000, DOUBT, 34, ""),
    ("it failed, the next one completed", [FAILED_JOB, FAILED_3, checkpoint(4), listing(), LISTED_4], True, 50_000, COMMIT, 23, ""),
    ("it failed, the next one's end not seen", [FAILED_JOB, FAILED_3, listing(), LISTED_4], True, 50_000, COMMIT, 25, "chk-4"),
    ("its end not seen, the next one failed", [FAILED_JOB, FAILED_4, listing(), LISTED_4], True, 50_000, COMMIT, 25, "chk-3"),
    ("both failed", [FAILED_JOB, FAILED_3, FAILED_4, listing(), LISTED_4], True, 50_000, DOUBT, 34, ""),
    ("an earlier chk-3 failed", [FAILED_JOB, EARLIER_FAILED, listing()], True, 40_000, COMMIT, 25, "chk-3"),
    ("it failed, and a job was restored from it", [FAILED_JOB, FAILED_3, RESTORED_FROM_3, listing()],
        True, 70_000, COMMIT, 23, "chk-3"),
    ("it failed, and the work was set back", [FAILED_JOB, FAILED_3, RESTORED_FROM_2, listing()], True, 70_000, ABORT, 22, ""),
    ("completed, before Flink 1.15", [FAILED_JOB, checkpoint(3), replace(listing(), kind=None)], True, 40_000, COMMIT, 23, "chk-3"),
    ("a savepoint commits nothing", [RUNS, SAVEPOINT, listing()], True, 40_000, GOES_ON, 24, ""),
    ("a savepoint, its job is gone", [FAILED_JOB, SAVEPOINT, IN_SAVEPOINT], True, 40_000, COMMIT, 25, "savepoint-aaaaaa-0123"),
    ("it stops with a savepoint", [RUNS, STOPS_WITH, IN_SAVEPOINT], True, 40_000, GOES_ON, 24, ""),
    ("it failed as it stopped", [FAILED_JOB, STOPS_WITH, IN_SAVEPOINT], True, 40_000, COMMIT, 25, "savepoint-aaaaaa-0123"),
    ("it was stopped with a savepoint", [FINISHED_JOB, STOPS_WITH, IN_SAVEPOINT], True, 40_000, COMMIT, 23, ""),
    ("so it was, with a later one", [FINISHED_JOB, STOPS_WITH, LATER_STOP, IN_SAVEPOINT], True, 60_000, COMMIT, 25,
        "savepoint-aaaaaa-0123"),
    ("restored from it, then from a later one", [RESTORED_FROM_3, LATER_FROM_4, listing()], True, 90_000, DOUBT, 21, ""),
    ("so it was, and it was completed", [FAILED_JOB, checkpoint(3), RESTORED_FROM_3, LATER_FROM_4, listing()], True, 90_000,
        COMMIT, 23, "chk-3"),
    ("lingers, another job uses its prefix", [FAILED_JOB, LISTED_2, STRANGER, LISTED_BY_STRANGER, RESTORED_FROM_2,
        LISTED_BY_OTHER], True, 70_000, None, 0, ""),
    ("so it does, and REST never told of it", [FAILED_JOB, LISTED_2, LISTED_BY_STRANGER, RESTORED_FROM_2, LISTED_BY_OTHER],
        True, 70_000, None, 0, ""),
    ("lingers, another job's list is not read", [FAILED_JOB, LISTED_2, STRANGER, OF_STRANGER, RESTORED_FROM_2,
        LISTED_BY_OTHER], True, 70_000, None, 0, ""),
    ("its list is out of reach, another job uses its prefix",
        [FAILED_JOB, EARLIER_2, COMPLETED_3, STRANGER, LISTED_EARLIER, LISTED_2, OUT_OF_REACH], True, 40_000, DOUBT, 31, ""),
    ("REST is away, its end not seen", [RUNS, NOT_OVER, listing()], False, 40_000, COMMIT, 25, "chk-3"),
    ("no REST at all", [listing()], False, 40_000, COMMIT, 25, "chk-3"),
    ("no REST at all, just written", [listing()], False, 31_000, GOES_ON, 25, ""),
    ("REST knows the earlier chk-3 alone", [FAILED_JOB, EARLIER_3, listing()], False, 40_000, COMMIT, 25, "chk-3"),
    ("lingers after a restore", [FAILED_JOB, LISTED_2, RESTORED_FROM_2, LISTED_BY_OTHER], True, 70_000, ABORT, 26, ""),
    ("lingers, and one from a savepoint since", [FAILED_JOB, LISTED_2, RESTORED_FROM_2, FROM_SAVEPOINT, LISTED_BY_OTHER],
        True, 90_000, None, 0, ""),
    ("its job runs", [RUNS, LISTED_2], True, 40_000, GOES_ON, 27, ""),
    ("its job does not answer", [RUNS, LISTED_2], False, 40_000, None, 0, ""),
    ("another epoch is listed", [RUNS, checkpoint(3), OTHER_EPOCH], False, 40_000, None, 0, ""),
    ("its list is out of reach", [FAILED_JOB, EARLIER_2, COMPLETED_3, LISTED_2, OUT_OF_REACH], True, 40_000, COMMIT, 30, "chk-3"),
    ("its list is damaged", [FAILED_JOB, checkpoint(2), COMPLETED_3, LISTED_2, DAMAGED_3], True, 40_000, DOUBT, 31, ""),
    ("its list is gone", [FAILED_JOB, checkpoint(2), COMPLETED_3, LISTED_2], True, 40_000, DOUBT, 31, ""),
    ("its list is not read yet", [FAILED_JOB, checkpoint(2), COMPLETED_3, LISTED_2], True, 32_000, GOES_ON, 31, ""),
    ("its number was taken before, and completed now", [FAILED_JOB, EARLIER_3, checkpoint(3), listing()], False, 40_000,
        COMMIT, 23, ""),
    ("its number was taken again, and completed", [FAILED_JOB, FAILED_3, TAKEN_AGAIN_3, listing()], False, 600_000, DOUBT, 34, ""),
    ("the store's clock is ahead", [FAILED_JOB, COMPLETED_3, listing(written=51_000)], False, 60_000, COMMIT, 23, ""),
    ("so it is, and the work was set back", [FAILED_JOB, COMPLETED_3, RESTORED_SOON, listing(written=51_000)], True, 60_000,
        ABORT, 22, ""),
    ("the store's clock is behind, a restore before", [SET_BACK_BEFORE, COMPLETED_3, listing(written=27_000)], False, 60_000,
        COMMIT, 23, ""),
    ("its list is deleted", [FAILED_JOB, checkpoint(3), GONE_3], True, 40_000, DOUBT, 36, ""),
    ("its list is deleted, its end not seen", [FAILED_JOB, GONE_3], False, 40_000, DOUBT, 36, ""),
    ("its list is deleted, and a job was restored from it", [FAILED_JOB, RESTORED_FROM_3, GONE_3], True, 70_000, DOUBT, 36, ""),
    ("its list is deleted, and the work was set back", [FAILED_JOB, RESTORED_FROM_2, GONE_3], True, 70_000, ABORT, 22, ""),
    ("its list is deleted, its job runs", [RUNS, checkpoint(3), GONE_3], True, 40_000, GOES_ON, 24, ""),
    ("of two lists one is deleted", [FAILED_JOB, checkpoint(4), GONE_3, LISTED_4], True, 50_000, COMMIT, 23, ""),
    ("nothing of its prefix is known", [RUNS, checkpoint(3)], True, 40_000, None, 0, ""),
]  # fmt: skip


def flink_state(seen: list[Any], polled: bool) -> FlinkState:
    state = FlinkState(answered={CLUSTER})
    for observation in seen:
        if isinstance(observation, FlinkCommittables):
            state.see_committables(observation)
        elif isinstance(observation, dict):
            state.out_of_reach[CLUSTER] = observation
        elif hasattr(observation, "triggered_ms"):
            state.see_checkpoint(observation)
        else:
            state.see_job(observation)
    if polled:
        state.polled_ms[CLUSTER] = T0
    return state


def judged(state: FlinkState, view: Any, at: int) -> Judgement | None:
    found = flink_case(state, view, commit_overdue_ms=2_000, now_ms=T0 + at)
    return flink_commits.judge(found) if found is not None else None


@pytest.mark.parametrize(
    ("seen", "polled", "at", "verdict", "rule", "typed"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_case(seen: list[Any], polled: bool, at: int, verdict: Verdict | None, rule: int, typed: str) -> None:
    found = judged(flink_state(seen, polled), open_view(), at)
    if verdict is None:
        assert found is None
        return
    assert found is not None
    assert (found.verdict, found.rule, found.commit_confirmation) == (verdict, rule, typed)
    assert found.evidence, "a verdict shows what it rests on"
    assert found.may_commit is (verdict is Verdict.COMMIT_IT)
    is_certain = found.certainty is Certainty.CERTAIN
    assert found.loses_data is not (verdict is Verdict.ABORT_IT and is_certain)
    assert found.may_abort is (verdict in (Verdict.ABORT_IT, Verdict.UNKNOWN) or bool(typed))
    assert is_certain is (verdict in (COMMIT, ABORT) and not typed and not _is_by_another(seen))


def _is_by_another(seen: list[Any]) -> bool:
    """Say whether another job was restored: whether it goes on in place of the first one is not told."""
    return any(isinstance(each, FlinkJob) and each.job == OTHER_JOB for each in seen)


def test_a_checkpoint_that_failed_is_said_to_have_failed() -> None:
    found = judged(flink_state([FAILED_JOB, FAILED_3, FAILED_4, listing(), LISTED_4], True), open_view(), 50_000)
    assert found is not None
    assert found.evidence[1].fact == "REST reported checkpoint 4 of eu/orders as failed (Could not finalize)"
    assert found.evidence[1].at_ms == FAILED_4.ended_ms
    assert "until a job is restored from chk-4" in found.evidence[2].fact
    unseen = judged(flink_state([FAILED_JOB, FAILED_3, listing(), LISTED_4], True), open_view(), 50_000)
    assert unseen is not None
    assert "the end of chk-4 was not seen" in unseen.evidence[1].fact
    assert "restored from checkpoint 4, Flink logs" in unseen.evidence[2].fact


def test_a_list_that_is_deleted_is_said_to_be() -> None:
    for seen, ended in (([checkpoint(3)], "counted (REST reported"), ([], "its end was not seen")):
        found = judged(flink_state([FAILED_JOB, *seen, GONE_3], True), open_view(), 40_000)
        assert found is not None
        assert found.evidence[1].fact.startswith(f"{GONE_3.path} is not there any more")
        assert ended in found.evidence[1].fact
    running = judged(flink_state([RUNS, checkpoint(3), GONE_3], True), open_view(), 40_000)
    assert running is not None
    assert "the checkpoints that listed it are deleted" in running.evidence[1].fact


def test_what_a_savepoint_lists_is_said_to_be_in_a_savepoint() -> None:
    found = judged(flink_state([FAILED_JOB, STOPS_WITH, IN_SAVEPOINT], True), open_view(), 40_000)
    assert found is not None
    assert "savepoint-aaaaaa-0123 is a savepoint, and no restart of the job goes on from it" in found.evidence[1].fact
    runs = judged(flink_state([RUNS, STOPS_WITH, IN_SAVEPOINT], True), open_view(), 40_000)
    assert runs is not None
    assert "it commits what savepoint 3 lists, or its next checkpoint lists it again" in runs.evidence[1].fact
    over = judged(flink_state([FINISHED_JOB, STOPS_WITH, IN_SAVEPOINT], True), open_view(), 40_000)
    assert over is not None
    assert "the job was stopped with it, and is finished" in over.evidence[1].fact


def test_every_rule_has_a_case() -> None:
    assert {f"{rule}" for *_, rule, _ in CASES if rule} == {each.__name__.split("_")[1] for each in flink_commits.RULES}


def test_a_later_transaction_at_the_same_epoch_is_not_the_listed_one() -> None:
    state = flink_state([FAILED_JOB, checkpoint(3), listing()], False)
    found = judged(state, open_view(opened=35_000), 50_000)
    assert found is None


def test_a_doubt_about_a_restore_says_what_it_is() -> None:
    again = job(state="FAILED", restored=4, restored_at=80_000)
    found = judged(flink_state([SET_BACK_ITSELF, again, listing()], True), open_view(), 90_000)
    assert found is not None
    assert "was set back to before checkpoint 3 and restored again since" in found.evidence[1].fact
    of_others = judged(flink_state([FAILED_JOB, RESTORED_FROM_2, AGAIN_FROM_3, listing()], True), open_view(), 90_000)
    assert of_others is not None
    assert "was restored from checkpoint 3 at " in of_others.evidence[1].fact
    assert "another restore tells otherwise" in of_others.evidence[1].fact


def test_what_is_not_listed_any_more_is_not_committed() -> None:
    state = flink_state([FAILED_JOB, checkpoint(3), listing(), listing(3, NOT_LISTED)], False)
    assert judged(state, open_view(), 40_000) is None


def test_a_verdict_of_flink_takes_the_place_of_foreign_and_of_nothing_else() -> None:
    state = flink_state([FAILED_JOB, checkpoint(3), listing()], False)
    view = open_view()
    with_flink = replace(case(view, 40_000), flink=flink_case(state, view, commit_overdue_ms=2_000, now_ms=T0 + 40_000))
    assert verdict_rules.judge(with_flink).rule == 23
    assert verdict_rules.judge(replace(with_flink, flink=None)).verdict is Verdict.FOREIGN


@pytest.mark.parametrize(
    ("seen", "fate", "sure"),
    [
        ([FAILED_JOB, checkpoint(3), listing()], Fate.COMPLETED, True),
        ([FAILED_JOB, RESTORED_FROM_3, listing()], Fate.COMPLETED, False),
        ([FAILED_JOB, checkpoint(3), RESTORED_FROM_2, listing()], Fate.REPLAYED, False),
        ([SET_BACK_ITSELF, checkpoint(3), listing()], Fate.REPLAYED, True),
        ([FAILED_JOB, checkpoint(3), RESTORED_FROM_2], Fate.REPLAYED, False),
        ([FAILED_JOB, checkpoint(3)], Fate.COMPLETED, False),
    ],
    ids=[
        "completed",
        "restored from it",
        "set back",
        "set back itself",
        "set back, no list is known",
        "no list is known",
    ],
)
def test_whether_an_aborted_one_was_lost_follows_from_the_same_lists(seen: list[Any], fate: Fate, sure: bool) -> None:
    aborted = only_view(
        broker_record(BrokerStatus.ONGOING, OPENED, transaction=ID, producer_id=PRODUCER, epoch=EPOCH, start=OPENED),
        broker_record(
            BrokerStatus.COMPLETE_ABORT, 90_000, transaction=ID, producer_id=PRODUCER, epoch=EPOCH, start=OPENED
        ),
    )
    assert aborted.broker is not None
    numbers = {number: SubtaskIds(taken_ms={}, committed={1: 1, 2: 1, 4: 1}) for number in range(1)}
    found = evidence(aborted.broker, Sink(prefix="orders", subtasks=numbers), flink_state(seen, False).copy())
    assert (found.fate, found.sure) == (fate, sure)
