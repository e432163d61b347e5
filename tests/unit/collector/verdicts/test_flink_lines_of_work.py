"""Other jobs and what is assumed of them: a verdict is certain by its job's own word about this Kafka cluster alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.facts.flink_sinks import Sink, SubtaskIds
from indoubt.collector.records.formats.flink_records import (
    FlinkJob,
)
from indoubt.collector.verdicts.flink_checkpoints import Fate, evidence
from indoubt.collector.verdicts.flink_line import source_of
from indoubt.lifecycle.verdicts import Assumption, Certainty
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.case_tables import NO_VERDICT, table, told
from tests.unit.collector.verdicts.flink_given import (
    ABORT,
    AWAY,
    BEGUN,
    COMMIT,
    COMMIT_OF_4,
    COMPLETED_3,
    DAMAGED_3,
    DOUBT,
    FAILED,
    FROM_2,
    FROM_3,
    GOES_ON,
    HELD,
    JOB,
    LIKELY_ABORT,
    LIKELY_COMMIT,
    LISTED_3,
    LISTED_4,
    NEVER_ANSWERED,
    NONE_IN_2,
    NOT_LISTED,
    OTHER,
    OTHERS_2,
    RUNS,
    SOLE,
    STRANGER_ID,
    THIRD,
    RestAway,
    Stated,
    check,
    chk,
    flink_state,
    heir,
    itself,
    judged,
    listing,
)  # fmt: skip

US = "us"


def in_us(one: Any, id_: str = JOB) -> Any:
    """Return the same of the other cluster, which keeps its checkpoints elsewhere."""
    if isinstance(one, FlinkJob):
        return replace(one, cluster=US, job=id_, restored_path=one.restored_path.replace("file:///c/", "s3://us/"))
    return replace(one, cluster=US, job=id_, path=f"s3://us/{id_}/chk-{one.number}")


COPY = listing(9, job=STRANGER_ID, written=35_000)
WITHOUT_ORDERS = replace(
    listing(2, NOT_LISTED, job=OTHER, written=20_000), prefixes=frozenset({"else"}), committables=frozenset()
)
STRANGER = job(STRANGER_ID, name="refunds", started_ms=T0 - 90_000, changed_ms=T0 - 50_000, state="FINISHED")
USES_IT = listing(2, NOT_LISTED, job=OTHER, written=20_000)
SAVED_2 = checkpoint(2, path="file:///saved/monday")


def renamed(path: str, number: int = 2, at: int = 60_000, **fields: Any) -> FlinkJob:
    """Return a job of another name that was restored from there."""
    return heir(number, at, path, **{"name": "orders-v2", **fields})


NAMELESS, BESIDE = job(OTHER, name="refunds", started_ms=T0 + 59_000), job(OTHER, name="orders-us")
HEIRS_4 = checkpoint(4, job=OTHER, path=chk(4, OTHER))
WENT_ON = [renamed(chk(3, THIRD), 3, 25_000, state="FAILED"), HEIRS_4, listing(4, job=OTHER, written=40_100)]
"""What its own checkpoint 4 lists, a job that is not known had opened."""
LINES_OF_WORK = [
    # Which other jobs may go on with the work, or be copies of it. The source of another job's restore is not told.
    ("a renamed job, from a moved savepoint", [*SOLE, renamed("file:///saved/before")], 21, DOUBT),
    ("a renamed job, from a copied directory", [*SOLE, renamed("file:///copies/chk-2")], 21, DOUBT),
    ("so it was, in another watched cluster", [*SOLE, renamed("file:///copies/chk-2", cluster="us")], 21, DOUBT),
    ("so it was, and is over since", [*SOLE, renamed("file:///copies/chk-2", state="FAILED")], 21, DOUBT),
    ("so it was, before it was listed", [*SOLE, renamed("file:///copies/x", 2, 10_000)], 23, LIKELY_COMMIT),
    ("from there before its job began", [*SOLE, WITHOUT_ORDERS, renamed("file:///copies/x", 2, -50_000)], 23, COMMIT),
    ("a job that begins, and REST has not told", [*SOLE, replace(NAMELESS, state="INITIALIZING")], 21, DOUBT),
    ("a job from nothing, of another name", [*SOLE, NAMELESS, listing(1, NOT_LISTED, job=OTHER, written=61_000)],
        23, LIKELY_COMMIT),
    ("a savepoint of a job that REST never reported", [*SOLE, WITHOUT_ORDERS, renamed("file:///s/savepoint-123456-0a")], 21, DOUBT),
    ("a checkpoint of a job that REST never reported", [*SOLE, WITHOUT_ORDERS, renamed(chk(2, "9" * 32))], 21, DOUBT),
    # It is told.
    ("a checkpoint of another line's job", [*SOLE, WITHOUT_ORDERS, STRANGER, renamed(chk(2, STRANGER_ID))], 23, COMMIT),
    ("one whose name tells of this job", [*SOLE, renamed("file:///s/savepoint-aaaaaa-0a")], 22, LIKELY_ABORT),
    ("a path that REST listed for it", [*SOLE, SAVED_2, renamed("file:/saved/monday")], 22, LIKELY_ABORT),
    ("a path that REST listed, of another number", [*SOLE, SAVED_2, renamed("file:/saved/monday", 1)], 21, DOUBT),
    ("kept in memory alone", [*SOLE, WITHOUT_ORDERS, renamed("<checkpoint-not-externally-addressable>")], 23, COMMIT),
    # A job of its line is a rival: it proves nothing.
    ("a copy, from before, and it runs", [RUNS, COMPLETED_3, LISTED_3, renamed(chk(2))], 23, LIKELY_COMMIT),
    ("a copy, from a copied directory, and it runs", [RUNS, COMPLETED_3, LISTED_3, renamed("file:///x/2")], 23, LIKELY_COMMIT),
    ("an heir, from before, and it is over", [*SOLE, renamed(chk(2))], 22, LIKELY_ABORT),
    ("so it is, and it is only not told of", [job(state="GONE"), COMPLETED_3, LISTED_3, renamed(chk(2))], 21, DOUBT),
    ("a copy, from it, of which REST told no end", [FAILED, LISTED_3, renamed(chk(3), 3)], 23, LIKELY_COMMIT),
    ("by way of another one", [*SOLE, renamed(chk(2)), renamed(chk(7, OTHER), 7, 70_000, id_=THIRD)], 22, LIKELY_ABORT),
    # Its own restore tells.
    ("set back, and a copy holds it", [itself(2), COMPLETED_3, LISTED_3, renamed(chk(3), 3)], 21, DOUBT),
    ("set back, and so is a copy", [itself(2), COMPLETED_3, LISTED_3, renamed(chk(1), 1)], 22, LIKELY_ABORT),
    ("to a savepoint that is not told", [itself(2, path="file:///saved/x"), COMPLETED_3, LISTED_3], 21, DOUBT),
    ("to where it had begun", [itself(1, 1_000, "file:///s/x"), itself(1, path="file:///s/x"), COMPLETED_3, LISTED_3], 22, ABORT),
    ("restored from it itself", [itself(3), LISTED_3], 23, COMMIT),
    # Whether it writes to this Kafka cluster.
    ("stated", [*SOLE, Stated(True)], 23, COMMIT),
    ("stated not to write here", [*SOLE, Stated(False)], 23, LIKELY_COMMIT),
    ("set back, stated not to write here", [itself(2), COMPLETED_3, LISTED_3, Stated(False)], 22, LIKELY_ABORT),
    ("another job beside it", [*SOLE, BESIDE], 23, LIKELY_COMMIT),
    ("so there is, and it is stated", [*SOLE, BESIDE, Stated(True)], 23, COMMIT),
    ("set back, another job beside it", [itself(2), COMPLETED_3, LISTED_3, BESIDE], 22, LIKELY_ABORT),
    ("so it is, and it is stated", [itself(2), COMPLETED_3, LISTED_3, BESIDE, Stated(True)], 22, ABORT),
    ("another job that uses the prefix", [*SOLE, BESIDE, USES_IT], 23, LIKELY_COMMIT),
    ("so it does, and it is stated", [*SOLE, BESIDE, USES_IT, Stated(True)], 23, COMMIT),
    ("another job whose list leaves the prefix out", [*SOLE, BESIDE, WITHOUT_ORDERS], 23, COMMIT),
    ("an earlier list of a job that is not known uses it", [*SOLE, USES_IT], 23, COMMIT),
    ("a list of it since uses it", [*SOLE, replace(USES_IT, written_ms=T0 + 25_000)], 23, LIKELY_COMMIT),
    ("another job that was over before", [*SOLE, replace(BESIDE, state="FAILED", ended_ms=T0 + 1_000)], 23, COMMIT),
    ("REST has not answered since the start", [*SOLE, NEVER_ANSWERED], 23, LIKELY_COMMIT),
    ("it has not, and is away", [*SOLE, RestAway(since=1_000, is_new=True)], 23, LIKELY_COMMIT),
    # Whose it is.
    ("a copy of its list", [*SOLE, COPY], 23, LIKELY_COMMIT),
    ("two jobs may have written it", [*SOLE, replace(listing(job=OTHER), written_ms=T0 + 30_200), BESIDE], 21, DOUBT),
    ("its job went on from another one's work", WENT_ON, 23, COMMIT_OF_4),
    ("listed by a job that REST does not know", [job(OTHER, started_ms=T0 + 59_000), LISTED_3, AWAY], 25, LIKELY_COMMIT),
    # Unlisted.
    ("it lingers, a copy beside it", [itself(2), NONE_IN_2, renamed(chk(2))], 26, LIKELY_ABORT),
    ("it lingers, perhaps a copy beside it", [itself(2), NONE_IN_2, renamed("file:///copies/2")], 0, NO_VERDICT),
    ("it lingers, another job beside it", [itself(2), NONE_IN_2, BESIDE], 26, LIKELY_ABORT),
    ("its job runs, a copy was restored since", [RUNS, NONE_IN_2, renamed(chk(2)), OTHERS_2], 27, GOES_ON),
]  # fmt: skip

IN_TWO_CLUSTERS = [
    # Two watched clusters with a job of one id, as equal deployments have in application mode: neither's word counts for the other.
    ("the other one completed its checkpoint 3", [FAILED, in_us(RUNS), in_us(COMPLETED_3), LISTED_3], 21, DOUBT),
    ("so it did, and told of nothing else", [FAILED, in_us(COMPLETED_3), LISTED_3], 21, DOUBT),
    ("both completed it", [FAILED, COMPLETED_3, in_us(RUNS), LISTED_3], 21, DOUBT),
    ("the other one was set back", [*SOLE, in_us(itself(2))], 21, DOUBT),
    ("the other one runs", [FAILED, LISTED_3, in_us(RUNS)], 21, DOUBT),
    ("it runs, and nothing lists the transaction", [FAILED, NONE_IN_2, in_us(RUNS)], 0, NO_VERDICT),
    ("the other one's checkpoints are read, no more", [*SOLE, in_us(LISTED_3)], 21, DOUBT),
    ("REST tells of neither", [LISTED_3, in_us(LISTED_3), AWAY], 21, DOUBT),
    ("the other one runs, its list is damaged", [*HELD, DAMAGED_3, in_us(RUNS)], 31, DOUBT),
    ("three lists, and the other one runs", [FAILED, in_us(RUNS), LISTED_4, LISTED_3, listing(5, written=50_100)], 21, DOUBT),
    ("the other one has another id", [*SOLE, in_us(RUNS, OTHER)], 23, LIKELY_COMMIT),
    ("both clusters' readers have one directory", [FAILED, COMPLETED_3, replace(LISTED_3, cluster=US), LISTED_3], 23, COMMIT),
    ("they spell it otherwise", [FAILED, COMPLETED_3, replace(LISTED_3, cluster=US, path=f"/checkpoints/{JOB}/chk-3"), LISTED_3],
        23, COMMIT),
]  # fmt: skip


@table("given, rule, then", [*LINES_OF_WORK, *IN_TWO_CLUSTERS])
def test_it_does_not_matter_what_was_seen_first(given: list[Any], rule: int, then: str) -> None:
    for order in (given, given[::-1]):
        state = flink_state(order)
        for known in (state, state.copy()):
            check(judged(given, known), rule, then)


SAYS = [
    # name, what is known, the number of the evidence, what it says
    ("a copy beside it", [RUNS, COMPLETED_3, LISTED_3, renamed(chk(2))], -2,
        f"job {OTHER} (eu/orders-v2) was restored from checkpoint 2"),
    ("what binds it to this Kafka cluster", SOLE, 2, "stated in the settings (by default"),
    ("a copy of its list", [COPY, *SOLE], 0, f"{LISTED_3.path}/_metadata"),
    ("two jobs may have written it", [*SOLE, replace(listing(job=OTHER), written_ms=T0 + 30_200), BESIDE], 1,
        f"checkpoints of job {OTHER} list it too"),
    ("in two clusters", [FAILED, COMPLETED_3, in_us(RUNS), LISTED_3], 1,
        f"clusters eu and us have a job of the same id {JOB}"),
    ("in two clusters, the first list", [FAILED, in_us(RUNS), LISTED_4, LISTED_3], 0,
        f"{LISTED_3.path}/_metadata lists exactly this"),
]  # fmt: skip


@table("given, number, says", SAYS)
def test_the_evidence_says_it(given: list[Any], number: int, says: str) -> None:
    found = judged(given)
    assert found is not None
    assert says in found.rests_on[number].fact


def test_what_binds_it_to_this_kafka_cluster_is_a_setting() -> None:
    sole = judged(SOLE)
    assert sole is not None
    assert sole.evidence[2].source == "settings"


ASSUMED = [
    ("stated not to write here", [*SOLE, Stated(False)], (Assumption.WRITES_HERE,)),
    (
        "set back, stated not to write here",
        [itself(2), COMPLETED_3, LISTED_3, Stated(False)],
        (Assumption.WRITES_HERE,),
    ),
    ("another job beside it", [*SOLE, BESIDE], (Assumption.WRITES_HERE,)),
    ("REST has not answered since the start", [*SOLE, NEVER_ANSWERED], (Assumption.NO_RESTORE_UNSEEN,)),
    ("it has not, and is away", [*SOLE, RestAway(since=1_000, is_new=True)], (Assumption.NO_RESTORE_UNSEEN,)),
    ("its job went on from another one's work", WENT_ON, (Assumption.ITS_OWN,)),
]


@table("given, assumes", ASSUMED)
def test_what_is_assumed(given: list[Any], assumes: tuple[Assumption, ...]) -> None:
    found = judged(given)
    assert found is not None
    assert set(found.assumes) == set(assumes)


def test_it_is_certain_again_once_rest_has_answered() -> None:
    state = flink_state([*SOLE, NEVER_ANSWERED])
    state.see_polled(CLUSTER, T0 + 2_000, answered=True)
    assert told(judged([], state)) == (23, COMMIT)


def test_a_prefix_goes_back_to_its_job_once_the_copy_is_gone() -> None:
    state = flink_state([*SOLE, COPY])
    assert state.lists.job_of_prefix("orders") == (CLUSTER, COPY.job)
    state.lists.see_gone(CLUSTER, COPY.path)
    assert state.lists.job_of_prefix("orders") == (CLUSTER, JOB)
    assert told(judged([], state)) == (23, COMMIT)
    state.lists.see_gone(CLUSTER, LISTED_3.path)
    assert state.lists.job_of_prefix("orders") == (CLUSTER, JOB), "where all are gone, the last stays"


def test_a_job_that_is_forgotten_shares_its_id_with_none() -> None:
    state = flink_state([FAILED, in_us(RUNS), LISTED_3])
    state.clusters.keep({OTHER})
    assert state.clusters.several(JOB) == []


FATES = [
    # name, what is known of an aborted one, what became of it, whether that is sure, as its verdict was before
    ("completed", SOLE, Fate.COMPLETED, True),
    ("restored from it", [FAILED, FROM_3, LISTED_3], Fate.COMPLETED, False),
    ("set back", [FAILED, COMPLETED_3, FROM_2, LISTED_3], Fate.REPLAYED, False),
    ("set back itself", [itself(2), COMPLETED_3, LISTED_3], Fate.REPLAYED, True),
    ("set back, no list is known", [FAILED, COMPLETED_3, FROM_2], Fate.REPLAYED, False),
    ("no list is known", [FAILED, COMPLETED_3], Fate.COMPLETED, False),
    ("a copy beside it", [RUNS, COMPLETED_3, LISTED_3, renamed(chk(2))], Fate.COMPLETED, False),
    ("bound to no Kafka cluster", [*SOLE, BESIDE], Fate.COMPLETED, False),
]  # fmt: skip


@table("given, fate, is_sure", FATES)
def test_a_loss_is_as_sure_as_the_verdict_was(given: list[Any], fate: Fate, is_sure: bool) -> None:
    assert BEGUN.broker is not None
    aborted = replace(BEGUN.broker, complete_abort_ms=T0 + 90_000)
    sink = Sink(prefix="orders", subtasks={0: SubtaskIds(taken_ms={}, committed={1: 1, 2: 1, 4: 1})})
    found = evidence(aborted, sink, flink_state(given).copy())
    assert (found.fate, found.sure) == (fate, is_sure)
    before = judged(given)
    assert (before is not None and before.certainty is Certainty.CERTAIN) is is_sure


SOURCES = [
    # name, the path that a job was restored from, what else was seen, the job that took that checkpoint
    ("a checkpoint's own path", chk(2), [], JOB),
    ("a savepoint of a job that is not known", "file:///s/savepoint-aaaaaa-0123", [], "aaaaaa"),
    ("a savepoint of one that is", "file:///s/savepoint-aaaaaa-0123", [RUNS], JOB),
    ("two jobs have these digits", "file:///s/savepoint-aaaaaa-0123", [RUNS, job("a" * 31 + "b")], ""),
    ("capitals", "file:///s/savepoint-AAAAAA-0123", [RUNS], ""),
    ("cut short", "file:///s/savepoint-aaaaaa", [RUNS], ""),
    ("a directory in one", "file:///s/savepoint-aaaaaa-0123/copy", [RUNS], ""),
    ("a path that REST listed", "file:///saved/monday", [SAVED_2], JOB),
    ("spelled otherwise", "file:/saved/monday/", [SAVED_2], JOB),
    ("listed for two jobs", "file:///saved/monday", [SAVED_2, replace(SAVED_2, job=THIRD)], ""),
    ("not listed", "file:///saved/tuesday", [SAVED_2], ""),
    ("kept in memory alone", "<checkpoint-not-externally-addressable>", [], OTHER),
]  # fmt: skip


@table("path, seen, source", SOURCES)
def test_a_restore_names_the_job_that_took_its_checkpoint(path: str, seen: list[Any], source: str) -> None:
    state = flink_state([*seen, heir(2, path=path, name="orders-v2")])
    facts = state.jobs[OTHER]
    assert source_of(state, facts, facts.restores[-1]) == source
