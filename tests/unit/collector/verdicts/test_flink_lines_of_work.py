"""Which jobs of one name go on from a job's work, and which started from an unknown checkpoint. Pure; times in epoch ms."""

from __future__ import annotations

import pytest

from collector.records.facts import BrokerIdentity, BrokerTransaction
from collector.records.flink_facts import FlinkState
from collector.records.flink_job_facts import FlinkJobFacts, Restore
from collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind, FlinkStatus
from collector.verdicts.flink_cases import case_of, flink_case
from collector.verdicts.flink_successors import unattributed
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.verdicts.test_flink_commit_rules import open_view

WROTE, NEXT, LAST, OTHER, NOT_TOLD = ("a" * 32, "b" * 32, "c" * 32, "d" * 32, "e" * 32)
START, AFTER, LATE = 95_000, 100_000, 200_000


def ran(id_: str, started_ms: int, *restores: Restore) -> FlinkJobFacts:
    return FlinkJobFacts(job=job(id_, started_ms=started_ms), restores=restores)


def of(source: str, at_ms: int, number: int = 3) -> Restore:
    return Restore(at_ms=at_ms, number=number, of_job=source)


def flink(*jobs: FlinkJobFacts) -> FlinkState:
    return FlinkState(jobs={facts.job.job: facts for facts in jobs})


FIRST = ran(WROTE, 1)


@pytest.mark.parametrize(
    ("jobs", "is_known"),
    [
        ([ran(NEXT, LATE, of(WROTE, LATE))], True),
        ([ran(NEXT, LATE)], False),
        ([ran(NEXT, LATE, of("", LATE))], False),
        ([ran(NEXT, LATE, of(NOT_TOLD, LATE))], False),
        ([ran(NEXT, AFTER + 1_000)], True),
        ([ran(NEXT, AFTER + 1_001)], False),
        # By way of a job that was restored from it just then, and of no other.
        ([ran(NEXT, 99_500, of(WROTE, AFTER)), ran(LAST, LATE, of(NEXT, LATE))], True),
        ([ran(NEXT, 99_500, of(WROTE, AFTER + 1)), ran(LAST, LATE, of(NEXT, LATE))], False),
        ([ran(NEXT, 99_500, of(OTHER, AFTER)), ran(LAST, LATE, of(NEXT, LATE))], False),
        ([ran(NEXT, LATE, of(WROTE, LATE)), ran(LAST, LATE + 50, of(NEXT, LATE + 50))], True),
    ],
)
def test_a_later_job_of_its_name_is_known_by_what_it_was_restored_from(
    jobs: list[FlinkJobFacts], is_known: bool
) -> None:
    assert (unattributed(flink(FIRST, *jobs), FIRST, AFTER) == "") is is_known


def test_a_job_that_was_never_told_of_is_known_by_its_id() -> None:
    known, last = ran(NEXT, 99_500, of(NOT_TOLD, AFTER)), ran(LAST, LATE, of(NOT_TOLD, LATE))
    assert unattributed(flink(known, last), known, AFTER, of_job=NOT_TOLD) == ""
    assert unattributed(flink(known, last), known, AFTER) != ""


def listing(job_: str, number: int, written_ms: int, *listed: Committable) -> FlinkCommittables:
    return FlinkCommittables(
        cluster="eu", job=job_, number=number, path=f"/c/{job_}/chk-{number}", kind=FlinkKind.CHECKPOINT,
        written_ms=written_ms, read_ms=written_ms, committables=frozenset(listed), prefixes=frozenset({"sink"}),
    )  # fmt: skip


THIS = Committable("sink-0-3", 3, 4)


def transaction(start_ms: int = START) -> BrokerTransaction:
    return BrokerTransaction(BrokerIdentity("sink-0-3", 3, start_ms), ongoing_epoch=4)


def test_a_list_of_a_job_never_told_of_is_followed_by_those_restored_from_it() -> None:
    state = flink(ran(NEXT, 99_500, of(NOT_TOLD, AFTER)), ran(LAST, LATE, of(NOT_TOLD, LATE, number=9)))
    state.see_committables(listing(NOT_TOLD, 3, 96_000, THIS))
    case = case_of(state, transaction())
    assert case is not None
    assert case.unattributed == ""


@pytest.mark.parametrize(("start_ms", "is_doubtful"), [(96_000 + 1_000, False), (96_000 + 1_001, True)])
def test_what_began_after_the_restored_checkpoint_depends_on_jobs_since(start_ms: int, is_doubtful: bool) -> None:
    """The job was restored from checkpoint 3; another of its name started later, from an unknown checkpoint."""
    state = flink(ran(WROTE, 1, of("", AFTER)), ran(LAST, LATE))
    state.see_committables(listing(WROTE, 3, 96_000))
    case = case_of(state, transaction(start_ms))
    assert case is not None
    assert (case.unattributed != "") is is_doubtful


def test_limits_of_a_listed_one_are_handed_on() -> None:
    shown = open_view()
    assert shown.broker is not None
    producer_id, epoch = shown.broker.identity.producer_id, shown.broker.handle_epoch
    assert epoch is not None
    listed = Committable(shown.transaction, producer_id, epoch)
    at_ms = shown.broker.identity.start_ms
    completed = checkpoint(3, FlinkStatus.COMPLETED, triggered_ms=at_ms + 10, ended_ms=at_ms + 20)
    wrote = FlinkJobFacts(job=job(WROTE, started_ms=1), checkpoints={3: completed})
    state = flink(wrote)
    state.see_committables(listing(WROTE, 3, at_ms + 15, listed))
    case = flink_case(state, shown, commit_overdue_ms=1_234, now_ms=at_ms + 99)
    assert case is not None
    assert (case.commit_overdue_ms, case.now_ms, case.unread) == (1_234, at_ms + 99, None)
