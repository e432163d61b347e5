"""Two watched clusters with a job of one id, as equal deployments have in application mode: neither's word counts for the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.formats.flink_records import FlinkCheckpoint, FlinkCommittables, FlinkJob
from lifecycle.verdicts import Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.verdicts.test_flink_commits import (
    COMPLETED_3,
    DAMAGED_3,
    EARLIER_2,
    FAILED_JOB,
    JOB,
    LISTED_2,
    OTHER_JOB,
    RUNS,
    flink_state,
    judged,
    listing,
    open_view,
)

US = "us"


def in_us(one: Any, job: str = JOB) -> Any:
    """Return the same of the other cluster, which keeps its checkpoints elsewhere."""
    match one:
        case FlinkJob():
            path = one.restored_path.replace("file:///c/", "s3://us/")
            return replace(one, cluster=US, job=job, restored_path=path)
        case FlinkCheckpoint() | FlinkCommittables():
            return replace(one, cluster=US, job=job, path=f"s3://us/{job}/chk-{one.number}")
    raise AssertionError(one)


SET_BACK_IN_US = in_us(job(restored=2, restored_at=60_000, restored_path=f"file:///c/{JOB}/chk-2"))
CASES: list[tuple[str, list[Any], bool, Verdict | None, int]] = [
    ("the other one completed its checkpoint 3", [FAILED_JOB, in_us(RUNS), in_us(checkpoint(3)), listing()], True,
        Verdict.UNKNOWN, 21),
    ("so it did, and told of nothing else", [FAILED_JOB, in_us(checkpoint(3)), listing()], True, Verdict.UNKNOWN, 21),
    ("both completed it", [FAILED_JOB, checkpoint(3), in_us(RUNS), listing()], True, Verdict.UNKNOWN, 21),
    ("the other one was set back", [FAILED_JOB, checkpoint(3), listing(), SET_BACK_IN_US], True, Verdict.UNKNOWN, 21),
    ("the other one runs", [FAILED_JOB, listing(), in_us(RUNS)], True, Verdict.UNKNOWN, 21),
    ("it runs, and nothing lists the transaction", [FAILED_JOB, LISTED_2, in_us(RUNS)], True, None, 0),
    ("the other one's checkpoints are read, no more", [FAILED_JOB, checkpoint(3), listing(), in_us(listing())], True,
        Verdict.UNKNOWN, 21),
    ("REST tells of neither", [listing(), in_us(listing())], False, Verdict.UNKNOWN, 21),
    ("its list is damaged", [FAILED_JOB, EARLIER_2, COMPLETED_3, LISTED_2, DAMAGED_3, in_us(RUNS)], True,
        Verdict.UNKNOWN, 31),
    ("the other one has another id", [FAILED_JOB, checkpoint(3), listing(), in_us(RUNS, OTHER_JOB)], True,
        Verdict.COMMIT_IT, 23),
    ("both clusters' readers have one directory", [FAILED_JOB, checkpoint(3), replace(listing(), cluster=US), listing()],
        True, Verdict.COMMIT_IT, 23),
    ("they spell it otherwise", [FAILED_JOB, checkpoint(3), replace(listing(), cluster=US, path=f"/checkpoints/{JOB}/chk-3"),
        listing()], True, Verdict.COMMIT_IT, 23),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "polled", "verdict", "rule"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_one_cluster_says_counts_for_its_own_job_alone(
    seen: list[Any], polled: bool, verdict: Verdict | None, rule: int
) -> None:
    for order in (seen, [*reversed(seen)]):
        state = flink_state(order, polled)
        for known in (state, state.copy()):
            found = judged(known, open_view(), 70_000)
            assert (found and found.verdict, found.rule if found else 0) == (verdict, rule)
            assert found is None or found.may_commit is (verdict is Verdict.COMMIT_IT)


def test_the_evidence_names_the_clusters() -> None:
    found = judged(flink_state([FAILED_JOB, checkpoint(3), in_us(RUNS), listing()], True), open_view(), 70_000)
    assert found is not None
    assert f"clusters eu and us have a job of the same id {JOB}" in found.evidence[1].fact


def test_the_first_list_is_named_whichever_was_read_first() -> None:
    lists = [listing(4, written=40_100), listing(), listing(5, written=50_100)]
    for order in (lists, lists[::-1]):
        found = judged(flink_state([FAILED_JOB, in_us(RUNS), *order], True), open_view(), 70_000)
        assert found is not None
        assert (found.verdict, found.may_commit) == (Verdict.UNKNOWN, False)
        assert found.evidence[0].fact.startswith(f"{listing().path}/_metadata lists exactly this")


def test_a_job_that_is_forgotten_shares_its_id_with_none() -> None:
    state = flink_state([FAILED_JOB, in_us(RUNS), listing()], True)
    state.clusters.keep({OTHER_JOB})
    assert state.clusters.several(JOB) == []
