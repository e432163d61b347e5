"""What makes a verdict about a Flink transaction certain: its job's own word, this Kafka cluster, no other job of its line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.flink_facts import FlinkState
from collector.records.formats.flink_records import FlinkCommittables, FlinkJob
from collector.state.flink_sinks import Sink
from collector.verdicts.flink_cases import case_of, flink_case
from collector.verdicts.flink_checkpoints import Fate, evidence
from collector.verdicts.flink_line import source_of
from lifecycle.verdicts import Assumption, Certainty, Judgement, Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.test_flink_commits import (
    ABORT,
    COMMIT,
    DOUBT,
    FAILED_JOB,
    GOES_ON,
    JOB,
    LISTED_2,
    NOT_LISTED,
    OTHER_JOB,
    RUNS,
    flink_state,
    judged,
    listing,
    open_view,
)

COMPLETED = checkpoint(3, path=f"file:///checkpoints/{JOB}/chk-3")
THIRD = "c" * 32
SOLE = [FAILED_JOB, COMPLETED, listing()]
"""A job that died once REST had reported its checkpoint 3 as completed."""
SURE, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS


def other(path: str = "", number: int = 2, at: int = 60_000, **fields: Any) -> FlinkJob:
    """Return another job, under another name, that was restored from there."""
    told = {"name": "orders-v2", "started_ms": T0 + at - 1_000, "restored_path": path, **fields}
    return job(told.pop("id_", OTHER_JOB), restored=number if path else None, restored_at=at, **told)


def chk(number: int, id_: str = JOB) -> str:
    return f"file:///checkpoints/{id_}/chk-{number}"


def itself(path: str, number: int, at: int = 60_000, **fields: Any) -> FlinkJob:
    """Return the job that listed it, restored again."""
    return job(restored=number, restored_at=at, restored_path=path, **{"state": "FAILED", **fields})


SAVED_2 = checkpoint(2, path="file:///saved/monday")
OLDER_START = itself("file:///saved/elsewhere", 1, at=1_000)
LONG_BESIDE = other("file:///copies/x", 2, 10_000)
NAMELESS = job(OTHER_JOB, name="refunds", started_ms=T0 + 59_000)
BESIDE = job(OTHER_JOB, name="orders-us")
USES_IT, LEAVES_IT_OUT = (
    listing(2, NOT_LISTED, job=OTHER_JOB, written=20_000),
    replace(
        listing(2, NOT_LISTED, job=OTHER_JOB, written=20_000), prefixes=frozenset({"else"}), committables=frozenset()
    ),
)
CASES: list[tuple[str, list[Any], Verdict, int, Certainty]] = [
    ("its job died", SOLE, COMMIT, 23, SURE),
    # The source of another job's restore is not told.
    ("a renamed job, from a moved savepoint", [*SOLE, other("file:///saved/before")], DOUBT, 21, GUESS),
    ("a renamed job, from a copied directory", [*SOLE, other("file:///copies/chk-2")], DOUBT, 21, GUESS),
    ("so it was, in another watched cluster", [*SOLE, other("file:///copies/chk-2", cluster="us")], DOUBT, 21, GUESS),
    ("so it was, and is over since", [*SOLE, other("file:///copies/chk-2", state="FAILED")], DOUBT, 21, GUESS),
    ("so it was, before it was listed", [*SOLE, LONG_BESIDE], COMMIT, 23, LIKELY),
    ("from there before its job began", [*SOLE, LEAVES_IT_OUT, other("file:///copies/x", 2, -50_000)], COMMIT, 23, SURE),
    ("a job that begins, and REST has not told", [*SOLE, replace(NAMELESS, state="INITIALIZING")], DOUBT, 21, GUESS),
    ("a job from nothing, of another name", [*SOLE, NAMELESS, listing(1, NOT_LISTED, job=OTHER_JOB, written=61_000)],
        COMMIT, 23, LIKELY),
    # It is told.
    ("a savepoint whose name tells of another job", [*SOLE, LEAVES_IT_OUT, other("file:///s/savepoint-123456-0a")],
        COMMIT, 23, SURE),
    ("one whose name tells of this job", [*SOLE, other("file:///s/savepoint-aaaaaa-0a")], ABORT, 22, LIKELY),
    ("a path that REST listed for it", [*SOLE, SAVED_2, other("file:/saved/monday")], ABORT, 22, LIKELY),
    ("a path that REST listed, of another number", [*SOLE, SAVED_2, other("file:/saved/monday", 1)], DOUBT, 21, GUESS),
    ("kept in memory alone", [*SOLE, LEAVES_IT_OUT, other("<checkpoint-not-externally-addressable>")], COMMIT, 23, SURE),
    # A job of its line is a rival: it proves nothing.
    ("a copy, from before, and it runs", [RUNS, COMPLETED, listing(), other(chk(2))], COMMIT, 23, LIKELY),
    ("a copy, from a copied directory, and it runs", [RUNS, COMPLETED, listing(), other("file:///x/2")], COMMIT, 23, LIKELY),
    ("an heir, from before, and it is over", [*SOLE, other(chk(2))], ABORT, 22, LIKELY),
    ("so it is, and it is only not told of", [job(state="GONE"), *SOLE[1:], other(chk(2))], DOUBT, 21, GUESS),
    ("a copy, from it, of which REST told no end", [FAILED_JOB, listing(), other(chk(3), 3)], COMMIT, 23, LIKELY),
    ("by way of another one", [*SOLE, other(chk(2)), other(chk(7, OTHER_JOB), 7, 70_000, id_=THIRD)], ABORT, 22, LIKELY),
    # Its own restore tells.
    ("set back", [itself(chk(2), 2), COMPLETED, listing()], ABORT, 22, SURE),
    ("set back, and a copy holds it", [itself(chk(2), 2), COMPLETED, listing(), other(chk(3), 3)], DOUBT, 21, GUESS),
    ("set back, and so is a copy", [itself(chk(2), 2), COMPLETED, listing(), other(chk(1), 1)], ABORT, 22, LIKELY),
    ("to a savepoint that is not told", [itself("file:///saved/x", 2), COMPLETED, listing()], DOUBT, 21, GUESS),
    ("to where it had begun", [OLDER_START, itself("file:///saved/elsewhere", 1), COMPLETED, listing()], ABORT, 22, SURE),
    ("restored from it", [itself(chk(3), 3), listing()], COMMIT, 23, SURE),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "verdict", "rule", "certainty"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_case(seen: list[Any], verdict: Verdict, rule: int, certainty: Certainty) -> None:
    for order in (seen, [*reversed(seen)]):
        found = judged(flink_state(order, True), open_view(), 90_000)
        assert found is not None
        assert (found.verdict, found.rule, found.certainty) == (verdict, rule, certainty)


@pytest.mark.parametrize("is_away", [False, True])
def test_nothing_is_certain_before_rest_has_answered_since_the_start(is_away: bool) -> None:
    state = flink_state(SOLE, False)
    state.answered.clear()
    if is_away:
        state.see_polled(CLUSTER, T0 + 1_000, answered=False)
    found = judged(state, open_view(), 90_000)
    assert found is not None
    assert (found.verdict, found.certainty, found.commit_confirmation) == (COMMIT, LIKELY, "chk-3")
    assert found.assumes == (Assumption.NO_RESTORE_UNSEEN,)
    state.see_polled(CLUSTER, T0 + 2_000, answered=True)
    found = judged(state, open_view(), 90_000)
    assert found is not None
    assert (found.certainty, found.assumes, found.commit_confirmation) == (SURE, (), "")


def test_the_other_jobs_and_the_statement_stand_in_the_evidence() -> None:
    found = judged(flink_state([RUNS, COMPLETED, listing(), other(chk(2))], True), open_view(), 90_000)
    assert found is not None
    facts = [each.fact for each in found.evidence]
    assert any(f"job {OTHER_JOB} (eu/orders-v2) was restored from checkpoint 2" in fact for fact in facts)
    sole = judged(flink_state(SOLE, True), open_view(), 90_000)
    assert sole is not None
    assert any(
        each.fact.startswith("stated in the settings (by default") and each.source == "settings"
        for each in sole.evidence
    )


@pytest.mark.parametrize(
    ("seen", "stated", "certainty"),
    [
        ([], None, SURE), ([], True, SURE), ([], False, LIKELY),
        ([BESIDE], None, LIKELY), ([BESIDE], True, SURE),
        ([BESIDE, USES_IT], None, LIKELY), ([BESIDE, USES_IT], True, SURE),
        ([BESIDE, LEAVES_IT_OUT], None, SURE),
        ([USES_IT], None, SURE), ([replace(USES_IT, written_ms=T0 + 25_000)], None, LIKELY),
        ([replace(BESIDE, state="FAILED", ended_ms=T0 + 1_000)], None, SURE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("job_of_it", [FAILED_JOB, itself(chk(2), 2)], ids=["commit", "abort"])
def test_a_list_is_bound_to_this_kafka_cluster_by_a_statement(
    seen: list[Any], stated: bool | None, certainty: Certainty, job_of_it: FlinkJob
) -> None:
    state = flink_state([job_of_it, COMPLETED, listing(), *seen], True)
    state.writes_here = {} if stated is None else {CLUSTER: stated}
    for known in (state, state.copy()):
        found = judged(known, open_view(), 90_000)
        assert found is not None
        assert found.certainty is certainty
        assert (Assumption.WRITES_HERE in found.assumes) is (certainty is LIKELY)
        assert found.verdict is (COMMIT if job_of_it is FAILED_JOB else ABORT)


def lingering(*seen: Any, opened: int = 22_000, polled: bool = True) -> Judgement | None:
    return judged(flink_state([LISTED_2, *seen], polled), open_view(opened), 90_000)


@pytest.mark.parametrize(
    ("seen", "verdict", "rule", "certainty"),
    [
        ([itself(chk(2), 2)], ABORT, 26, SURE),
        ([itself(chk(2), 2), other(chk(2))], ABORT, 26, LIKELY),
        ([itself(chk(2), 2), other("file:///copies/2")], None, 0, None),
        ([itself(chk(2), 2), BESIDE], ABORT, 26, LIKELY),
        # A copy that was restored since did not write it; the job that did runs, and lists it next.
        ([RUNS, other(chk(2)), listing(2, NOT_LISTED, job=OTHER_JOB, written=65_000)], GOES_ON, 27, LIKELY),
        ([FAILED_JOB, other(chk(2)), listing(2, NOT_LISTED, job=OTHER_JOB, written=65_000)], ABORT, 26, LIKELY),
        ([other(chk(2)), listing(2, NOT_LISTED, job=OTHER_JOB, written=65_000)], ABORT, 26, LIKELY),
    ],
)  # fmt: skip
def test_what_no_list_names_is_its_writers(
    seen: list[Any], verdict: Verdict | None, rule: int, certainty: Certainty | None
) -> None:
    found = lingering(*seen)
    assert (found and found.verdict, found.rule if found else 0, found and found.certainty) == (
        verdict,
        rule,
        certainty,
    )


COPY = replace(listing(9, job="d" * 32), path=f"file:///checkpoints/{'d' * 32}/chk-9", written_ms=T0 + 35_000)


def test_a_copy_of_a_list_takes_no_transaction_from_its_job() -> None:
    for order in ([*SOLE, COPY], [COPY, *SOLE]):
        found = judged(flink_state(order, True), open_view(), 90_000)
        assert found is not None
        assert (found.verdict, found.rule) == (COMMIT, 23)
        assert found.evidence[0].fact.startswith(f"{listing().path}/_metadata")


def test_a_prefix_goes_back_to_its_job_once_the_copy_is_gone() -> None:
    state = flink_state([*SOLE, COPY], True)
    assert state.job_of_prefix("orders") == (CLUSTER, COPY.job)
    state.see_gone(CLUSTER, COPY.path)
    assert state.job_of_prefix("orders") == (CLUSTER, JOB)
    found = judged(state, open_view(), 90_000)
    assert found is not None
    assert found.certainty is SURE
    state.see_gone(CLUSTER, listing().path)
    assert state.job_of_prefix("orders") == (CLUSTER, JOB), "where all are gone, the last stays"


def test_two_jobs_that_may_both_have_written_it_are_a_doubt() -> None:
    twice = [replace(listing(job=OTHER_JOB), written_ms=T0 + 30_200), BESIDE]
    found = judged(flink_state([*SOLE, *twice], True), open_view(), 90_000)
    assert found is not None
    assert (found.verdict, found.rule) == (DOUBT, 21)
    assert f"checkpoints of job {OTHER_JOB}, too, list it" in found.evidence[1].fact


def test_a_job_that_went_on_from_another_ones_work_did_not_write_it() -> None:
    """What its own checkpoint 4 lists, the job that is not known had opened."""
    heir = other(chk(3, THIRD), 3, 25_000, state="FAILED")
    lists = listing(4, job=OTHER_JOB, written=40_100)
    completed = checkpoint(4, job=OTHER_JOB, path=chk(4, OTHER_JOB))
    found = judged(flink_state([heir, completed, lists], True), open_view(), 90_000)
    assert found is not None
    assert (found.verdict, found.certainty) == (COMMIT, LIKELY)
    assert Assumption.ITS_OWN in found.assumes


def sources(*seen: Any) -> str:
    state: FlinkState = flink_state([*seen], True)
    facts = state.jobs[OTHER_JOB]
    return source_of(state, facts, facts.restores[-1])


@pytest.mark.parametrize(
    ("path", "seen", "source"),
    [
        (chk(2), [], JOB),
        ("file:///s/savepoint-aaaaaa-0123", [], "aaaaaa"),
        ("file:///s/savepoint-aaaaaa-0123", [RUNS], JOB),
        ("file:///s/savepoint-aaaaaa-0123", [RUNS, job("a" * 31 + "b")], ""),
        ("file:///s/savepoint-AAAAAA-0123", [RUNS], ""),
        ("file:///s/savepoint-aaaaaa", [RUNS], ""),
        ("file:///s/savepoint-aaaaaa-0123/copy", [RUNS], ""),
        ("file:///saved/monday", [SAVED_2], JOB),
        ("file:/saved/monday/", [SAVED_2], JOB),
        ("file:///saved/monday", [SAVED_2, replace(SAVED_2, job=THIRD)], ""),
        ("file:///saved/tuesday", [SAVED_2], ""),
        ("<checkpoint-not-externally-addressable>", [], OTHER_JOB),
    ],
)
def test_a_restore_names_the_job_that_took_its_checkpoint(path: str, seen: list[Any], source: str) -> None:
    assert sources(*seen, other(path)) == source


def aborted(seen: list[Any]) -> tuple[Fate, bool]:
    broker = open_view().broker
    assert broker is not None
    found = evidence(replace(broker, complete_abort_ms=T0 + 85_000), Sink(prefix="orders"), flink_state(seen, True))
    return found.fate, found.sure


@pytest.mark.parametrize(
    ("seen", "fate", "is_sure"),
    [
        (SOLE, Fate.COMPLETED, True),
        ([RUNS, COMPLETED, listing(), other(chk(2))], Fate.COMPLETED, False),
        ([*SOLE, other(chk(2))], Fate.REPLAYED, False),
        ([itself(chk(2), 2), COMPLETED, listing()], Fate.REPLAYED, True),
        ([*SOLE, BESIDE], Fate.COMPLETED, False),
    ],
    ids=["completed", "a copy beside it", "an heir", "set back", "bound to no Kafka cluster"],
)
def test_a_loss_is_as_sure_as_the_verdict_was(seen: list[Any], fate: Fate, is_sure: bool) -> None:
    assert aborted(seen) == (fate, is_sure)
    assert (judged(flink_state(seen, True), open_view(), 90_000).certainty is SURE) is is_sure  # type: ignore[union-attr]


def test_limits_of_a_listed_one_are_handed_on() -> None:
    view = open_view()
    case = flink_case(flink_state(SOLE, True), view, commit_overdue_ms=1_234, now_ms=T0 + 99_000)
    assert case is not None
    assert (case.commit_overdue_ms, case.now_ms, case.unread) == (1_234, T0 + 99_000, None)
    assert view.broker is not None
    ended = case_of(flink_state(SOLE, True), view.broker)
    assert ended is not None
    assert ended.listings == case.listings


def test_every_list_of_its_job_counts() -> None:
    lists: list[FlinkCommittables] = [listing(5, written=50_000), listing(3)]
    broker = open_view().broker
    assert broker is not None
    case = case_of(flink_state(lists, False), broker)
    assert case is not None
    assert [each.number for each in case.listings] == [3, 5]
