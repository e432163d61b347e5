"""What Flink's high-availability store proves of a listed transaction, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records.flink_stores import FlinkStore, FlinkStores, StoredCheckpoint
from indoubt.collector.records.formats.flink_records import FlinkKind
from indoubt.lifecycle.verdicts import Assumption
from tests.unit.collector.flink_observations import job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.flink_given import (
    COMMIT,
    COMPLETED_3,
    DOUBT,
    FAILED,
    FAILED_3,
    FROM_2,
    FROM_3,
    GOES_ON,
    GONE_3,
    JOB,
    LIKELY_COMMIT,
    LISTED_3,
    LISTED_4,
    NOT_OVER_3,
    OTHER,
    RUNS,
    WRITTEN,
    InStore,
    RestAway,
    Stated,
    check,
    flink_state,
    heir,
    itself,
    judged,
)

SILENT = RestAway(since=60_000)
"""REST told of the job, and has not answered since then."""
DIED = [RUNS, LISTED_3, SILENT]
"""Its JobManager died before REST had told how its checkpoint 3 ended."""
UNWATCHED = [LISTED_3, RestAway(is_new=True), Stated(writes_here=True)]
"""The collector began after the JobManager had died, and REST never told of the job."""
IN_STORE = [
    # name; what is known; the rule, and its verdict, certainty and offers
    ("without a store", DIED, 25, LIKELY_COMMIT),
    ("the store points to it", [*DIED, InStore()], 23, COMMIT),
    ("it began to a moment ago", [*DIED, InStore(since=89_000)], 23, GOES_ON),
    ("so it did, to the ms", [*DIED, InStore(since=88_001)], 23, GOES_ON),
    ("it did long enough ago", [*DIED, InStore(since=88_000)], 23, COMMIT),
    ("a JobManager has the job", [*DIED, InStore(held=True)], 25, LIKELY_COMMIT),
    ("it points to an earlier one", [*DIED, InStore(number=2)], 25, LIKELY_COMMIT),
    ("it points to a later one, which does not list it", [*DIED, InStore(number=4)], 25, LIKELY_COMMIT),
    ("it points to a later one that lists it", [*DIED, LISTED_4, InStore(number=4, added=40_200)], 23, COMMIT),
    ("it points to the first of two that list it", [*DIED, LISTED_4, InStore()], 23, COMMIT),
    # REST tells while it answers, and where it said that the job is over.
    ("REST answers", [RUNS, LISTED_3, InStore()], 24, GOES_ON),
    ("it answers, and says that it is over", [FAILED, LISTED_3, InStore()], 25, LIKELY_COMMIT),
    ("it said that it is over", [FAILED, LISTED_3, SILENT, InStore()], 25, LIKELY_COMMIT),
    ("it said that it does not know it any more", [job(state="GONE"), LISTED_3, SILENT, InStore()], 25, LIKELY_COMMIT),
    ("it reported it as in progress", [*DIED, NOT_OVER_3, InStore()], 23, COMMIT),
    ("it reported it as failed: it cannot tell", [*DIED, FAILED_3, InStore()], 23, COMMIT),
    ("it reported it as failed, and it is not in the store", [*DIED, FAILED_3, InStore(number=2)], 34, DOUBT),
    # Another checkpoint of that number, or one that no recovery goes back to.
    ("added 30 s before its list was written", [*DIED, InStore(added=WRITTEN - 30_000)], 23, COMMIT),
    ("added earlier than that", [*DIED, InStore(added=WRITTEN - 30_001)], 25, LIKELY_COMMIT),
    ("added 30 s after", [*DIED, InStore(added=WRITTEN + 30_000)], 23, COMMIT),
    ("added later than that", [*DIED, InStore(added=WRITTEN + 30_001)], 25, LIKELY_COMMIT),
    ("the store keeps no times", [*DIED, InStore(added=None)], 23, COMMIT),
    ("its list is gone", [RUNS, GONE_3, SILENT, InStore()], 36, DOUBT),
    ("it is a savepoint", [RUNS, replace(LISTED_3, kind=FlinkKind.SAVEPOINT), SILENT, InStore()], 25, LIKELY_COMMIT),
    ("before Flink 1.15", [RUNS, replace(LISTED_3, kind=None), SILENT, InStore()], 23, COMMIT),
    # The job's own restores, and its rivals.
    ("set back since, by REST", [replace(itself(2), state="RUNNING"), LISTED_3, SILENT, InStore()], 21, DOUBT),
    ("set back since, not in the store", [replace(itself(2), state="RUNNING"), LISTED_3, SILENT, InStore(number=2)],
        22, "abort it, certain: abort"),
    ("restored from it", [replace(itself(3), state="RUNNING"), LISTED_3, SILENT, InStore()], 23, COMMIT),
    ("another job was restored from it", [*DIED, FROM_3, InStore()], 23, LIKELY_COMMIT),
    ("another one was restored from before", [*DIED, FROM_2, InStore()], 21, DOUBT),
    ("a namesake that began", [*DIED, heir(0, path=""), InStore()], 21, DOUBT),
    # REST never told of it.
    ("REST never answered, no store", UNWATCHED, 25, LIKELY_COMMIT),
    ("the store has no other job", [*UNWATCHED, InStore()], 23, COMMIT),
    ("it has another one", [*UNWATCHED, InStore(others=(OTHER,))], 23, LIKELY_COMMIT),
    ("REST told, and has not answered since the start", [RUNS, LISTED_3, RestAway(is_new=True), InStore()], 23, COMMIT),
    ("so it did, of a completion", [RUNS, COMPLETED_3, LISTED_3, RestAway(is_new=True)], 23, LIKELY_COMMIT),
    ("so it did, and the store says the same", [RUNS, COMPLETED_3, LISTED_3, RestAway(is_new=True), InStore()],
        23, COMMIT),
    ("where it writes is not said", [LISTED_3, RestAway(is_new=True), InStore()], 23, LIKELY_COMMIT),
    ("it does not only write here", [*UNWATCHED[:2], Stated(writes_here=False), InStore()], 23, LIKELY_COMMIT),
]  # fmt: skip


@table("given, rule, then", IN_STORE)
def test_what_the_store_proves(given: list[Any], rule: int, then: str) -> None:
    check(judged(given), rule, then)


@table(
    "given, assumes",
    [
        ("certain", [*DIED, InStore()], ()),
        ("another job in the store", [*UNWATCHED, InStore(others=(OTHER,))], (Assumption.NO_RESTORE_UNSEEN,)),
        ("not said where it writes", [LISTED_3, RestAway(is_new=True), InStore()], (Assumption.WRITES_HERE,)),
        ("an heir", [*DIED, FROM_3, InStore()], (Assumption.WRITES_HERE, Assumption.NO_OTHER_GOES_ON)),
    ],
)
def test_what_is_assumed_all_the_same(given: list[Any], assumes: tuple[Assumption, ...]) -> None:
    found = judged(given)
    assert found is not None
    assert found.assumes == assumes


@table(
    "given, at, source, fact",
    [
        ("it counts", [*DIED, InStore()], 1, "flink store",
            "checkpoint 3 of eu/orders lists it, and counts: no JobManager has the job, and its high-availability store "
            "points to it (ZooKeeper, /x)"),
        ("REST reported it first", [RUNS, COMPLETED_3, LISTED_3, SILENT, InStore()], 1, "flink",
            "checkpoint 3 of eu/orders lists it, and counts: REST reported it as completed"),
        ("a JobManager has it", [*DIED, InStore(held=True)], 2, "flink store",
            "the high-availability store points to checkpoint 3 (ZooKeeper, /x), which lists it. That proves it once no "
            "JobManager has the job: the session of one that died ends by its timeout"),
        ("an earlier one", [*DIED, InStore(number=2)], 2, "flink store",
            "the high-availability store points to checkpoint 2 (ZooKeeper, /x), which does not list it: a JobManager that "
            "recovers the job goes on from there"),
    ],
)  # fmt: skip
def test_the_evidence_names_the_store(given: list[Any], at: int, source: str, fact: str) -> None:
    found = judged(given)
    assert found is not None
    assert (found.rests_on[at].source, found.rests_on[at].fact) == (source, fact)


def test_a_store_that_does_not_answer_any_more_proves_nothing() -> None:
    given = [*DIED, InStore()]
    state = flink_state(given)
    check(judged(given, state.copy()), 23, COMMIT)
    before = state.copy()
    assert state.stores.see(CLUSTER, None)
    assert not state.stores.see(CLUSTER, None), "it did not answer before either"
    check(judged(given, state), 25, LIKELY_COMMIT)
    check(judged(given, before), 23, COMMIT)


STORED = StoredCheckpoint(number=3, added_ms=T0, is_held=False, where="ZooKeeper, /x", since_ms=T0)


@pytest.mark.parametrize(
    ("change", "since_ms"),
    [({}, T0), ({"number": 4}, T0 + 5), ({"is_held": True}, T0 + 5), ({"added_ms": T0 + 1}, T0 + 5)],
    ids=["the same", "a later one", "a JobManager has it", "made again"],
)
def test_it_is_known_since_it_was_seen_like_this_first(change: dict[str, Any], since_ms: int) -> None:
    stores = FlinkStores()
    assert stores.see("shop", FlinkStore(jobs=frozenset({JOB}), newest={JOB: STORED}))
    again = replace(STORED, **{"since_ms": T0 + 5, **change})
    is_new = stores.see("shop", FlinkStore(jobs=frozenset({JOB}), newest={JOB: again}))
    assert is_new is bool(change)
    found = stores.newest("shop", JOB)
    assert found is not None
    assert found.since_ms == since_ms


def test_another_job_in_the_store_is_news() -> None:
    stores = FlinkStores()
    assert stores.see("shop", FlinkStore(jobs=frozenset({JOB}), newest={JOB: STORED}))
    assert stores.is_alone("shop", JOB)
    assert stores.see("shop", FlinkStore(jobs=frozenset({JOB, OTHER}), newest={JOB: STORED}))
    assert not stores.is_alone("shop", JOB)
    assert not stores.is_alone("us", JOB)
    assert stores.newest("shop", OTHER) is None
    assert stores.newest("us", JOB) is None
