"""A completed checkpoint, and its transaction written again all the same: its id is taken again, or a restore is below it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from indoubt.collector.history.store import Store
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from indoubt.collector.records.observations import Observation, OperatorOrder
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import (
    BEFORE,
    CERTAIN,
    COMMITS,
    GUESS,
    HARMLESS,
    LIKELY,
    LOST,
    NOT_LOST,
    OVER,
    THIS,
    TWICE,
    UNKNOWN,
    check,
    folded_with_lists,
    judged,
    restored,
    taken,
    transaction,
)
from tests.unit.collector.verdicts.watched_losses import Watched

JOB, LATER, LAST = "a" * 32, "c" * 32, "d" * 32
KEY = f"kafka:sink-0-3:3:4@{T0 + 21_500}"


def ordered(action: str, at: int) -> Observation:
    return OperatorOrder(key=KEY, action=action, who="anna", at_ms=T0 + at, audit=1)


def listed(job_id: str, number: int, written: int, *ids: Committable, prefix: str = "sink") -> FlinkCommittables:
    return FlinkCommittables(
        cluster="eu", job=job_id, number=number, path=f"/c/{job_id}/chk-{number}", kind=FlinkKind.CHECKPOINT,
        written_ms=T0 + written, read_ms=T0 + written, committables=frozenset(ids), prefixes=frozenset({prefix}),
    )  # fmt: skip


LATER_IDS = [record for n in (4, 5, 6) for record in transaction(n, n * 20_000, n * 20_000 + 9_000, committed=True)]
SAVEPOINT = "s3://b/savepoint-aaaaaa-0123"
GONE = [OVER, *BEFORE, checkpoint(3)]
RUN, RUN_UNSEEN = [*COMMITS, *GONE], [*COMMITS, OVER, *BEFORE]
CHECKPOINT_3_AGAIN = checkpoint(3, triggered_ms=T0 + 90_000, ended_ms=T0 + 90_500)
POOLED = [record for at in (50, 10_050, 20_050) for record in transaction(3, at, at + 1_000, committed=True)]
LISTS_IT = listed(JOB, 3, 30_500, Committable("sink-0-3", 3, 4))
LISTS_IT_ONLY = replace(LISTS_IT, prefixes=frozenset())
POOLED_LISTS_IT = replace(LISTS_IT, pooled=frozenset({"sink"}))
LATER_USES_IT = listed(LATER, 4, 95_000)
POOLED_LATER = replace(LATER_USES_IT, pooled=frozenset({"sink"}))
ITS_OWN_LIST, LIST_WITHOUT_IT = listed(JOB, 2, 20_500), listed(JOB, 2, 20_500, prefix="other")
OTHER_PREFIX = listed(LATER, 4, 95_000, prefix="other")

ABORTED = [
    # name, what else was seen of a transaction whose checkpoint 3 was completed and that timed out at 82.5 s
    ("nothing else", [*RUN], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("its id is taken again", [*RUN, taken(95_000)], HARMLESS, LIKELY, "taken again at"),
    ("so it is, and a list names it", [*RUN, LISTS_IT, taken(95_000)], HARMLESS, LIKELY, "taken again at"),
    ("the id after it is taken", [*RUN, taken(95_000, 4)], LOST, LIKELY, "checkpoint 3"),
    ("its order took it again", [*RUN, ordered("abort", 82_400), taken(82_600)], LOST, LIKELY, "checkpoint 3"),
    ("a job takes it after an order", [*RUN, ordered("abort", 82_400), taken(95_000)], HARMLESS, LIKELY, "taken again"),
    ("restored from it since", [*RUN, taken(90_000), restored(3, 95_000)], LOST, LIKELY, "checkpoint 3"),
    ("the same by a list", [*RUN, LISTS_IT, taken(90_000), restored(3, 95_000)],
        LOST, LIKELY, "lists it, and counts"),
    ("taken since that restore", [*RUN, restored(3, 90_000), taken(95_000)], HARMLESS, LIKELY, "taken again"),
    ("taken before its checkpoint began, restored from it", [*RUN_UNSEEN, taken(84_000), CHECKPOINT_3_AGAIN,
        restored(3, 95_000)], HARMLESS, LIKELY, "taken again"),
    ("restored from before it", [*RUN, restored(2, 90_000)], HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("from a savepoint below it, same prefix", [*RUN, restored(2, 90_000, SAVEPOINT), LATER_USES_IT],
        HARMLESS, LIKELY, "which uses the prefix sink, was restored from checkpoint 2"),
    ("so it is, and a list names it", [*RUN, LISTS_IT, restored(2, 90_000, SAVEPOINT), LATER_USES_IT],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("from one that holds it", [*RUN, restored(3, 90_000, SAVEPOINT), LATER_USES_IT],
        LOST, LIKELY, "checkpoint 3"),
    ("from a savepoint, another prefix", [*RUN, restored(2, 90_000, SAVEPOINT, name="b"), OTHER_PREFIX],
        LOST, LIKELY, "checkpoint 3"),
    ("from a savepoint, same name, no list yet", [*RUN, restored(2, 90_000, SAVEPOINT)],
        LOST, LIKELY, "checkpoint 3"),
    ("set back, then one from a savepoint", [*RUN, restored(2, 90_000), restored(3, 95_000, SAVEPOINT, LAST)],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("of its name, restored from nothing", [*RUN, job(LATER, started_ms=T0 + 90_000)], LOST, LIKELY, "checkpoint 3"),
    ("restored below it before it began",
        [*RUN, ITS_OWN_LIST, restored(2, 22_000, SAVEPOINT, name="b"), LATER_USES_IT],
        LOST, LIKELY, "checkpoint 3"),
    ("so it is, and its job has no list", [*RUN, restored(2, 22_000, SAVEPOINT, name="b"), LATER_USES_IT],
        UNKNOWN, GUESS, "do not say whose it is"),
    ("nothing says that it is the job's", [*GONE], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("the job's lists never name it", [*GONE, LIST_WITHOUT_IT], UNKNOWN, GUESS, "only its owner knows"),
    ("nor does its commits' time help then", [*RUN, LIST_WITHOUT_IT], UNKNOWN, GUESS, "only its owner knows"),
    ("its job's list names it", [*GONE, ITS_OWN_LIST], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("a job that began later names it", [*RUN, restored(3, 90_000, SAVEPOINT, name="b"), LATER_USES_IT],
        UNKNOWN, GUESS, "its prefix is that of eu/b"),
    ("a stranger goes on with its ids", [*LATER_IDS, *GONE], LOST, LIKELY, "checkpoint 3 of eu/orders"),
    ("the job's own ids go on", [*LATER_IDS, *GONE, ITS_OWN_LIST], LOST, LIKELY, "checkpoint 3 of eu/orders"),
    ("few commits, its id is taken again", [*GONE, LISTS_IT_ONLY, taken(95_000)], LOST, LIKELY, "lists it"),
    ("so it is, and a list says what its number is", [*GONE, LISTS_IT, taken(95_000)], HARMLESS, LIKELY, "taken again"),
    ("few commits", [*GONE, LISTS_IT_ONLY], LOST, CERTAIN, "lists it"),
    ("a pool as a list says, its id is taken again", [*RUN, POOLED_LISTS_IT, taken(95_000)], LOST, CERTAIN, "lists it"),
    ("pooled, its id is taken again", [*POOLED, *GONE, POOLED_LISTS_IT, taken(95_000)], LOST, CERTAIN, "lists it"),
    ("pooled, restored from a savepoint before it",
        [*POOLED, *GONE, POOLED_LISTS_IT, restored(1, 90_000, SAVEPOINT), POOLED_LATER], HARMLESS, LIKELY, "checkpoint 1"),
    ("pooled, restored from a savepoint not seen",
        [*POOLED, *GONE, POOLED_LISTS_IT, restored(9, 90_000, SAVEPOINT), POOLED_LATER], LOST, LIKELY, "checkpoint 3"),
]  # fmt: skip


@table("given, verdict, certainty, says", ABORTED)
def test_an_aborted_one_whose_checkpoint_was_completed(
    given: list[Observation | FlinkCommittables], verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    loss = judged(folded_with_lists([*THIS, *given]))[("sink-0-3", T0 + 21_500)]
    check(loss, verdict, certainty, says)


BY_HAND = ordered("commit", 40_000)
THIS_COMMITTED = transaction(3, 21_500, 40_000, committed=True)
ENDED = [
    # name, what else was seen of a transaction that was committed at 40 s
    ("nothing else", [*RUN], NOT_LOST, CERTAIN, ""),
    ("by its job, taken again", [*RUN, taken(95_000)], NOT_LOST, CERTAIN, ""),
    ("by an order, taken again", [*RUN_UNSEEN, BY_HAND, taken(95_000)], TWICE, LIKELY, "taken again at"),
    ("by an order, taken again, no REST", [*COMMITS, BY_HAND, taken(95_000)], TWICE, LIKELY, "taken again at"),
    ("by an order, the next id is taken", [*RUN_UNSEEN, BY_HAND, taken(95_000, 4)], NOT_LOST, CERTAIN, ""),
    ("by an order, pooled, taken again", [*POOLED, OVER, *BEFORE, BY_HAND, taken(95_000)], NOT_LOST, CERTAIN, ""),
    ("by an order to abort, taken again", [*RUN_UNSEEN, ordered("abort", 39_000), taken(95_000)], NOT_LOST, CERTAIN, ""),
    ("by an order, restored below it", [*RUN_UNSEEN, BY_HAND, restored(2, 90_000)], TWICE, LIKELY, "checkpoint 2"),
    ("by an order, after a restore from before it",
        [*RUN_UNSEEN, BY_HAND, restored(2, 30_000, SAVEPOINT), LATER_USES_IT], TWICE, LIKELY, "from checkpoint 2"),
    ("from a savepoint below it, same prefix",
        [*RUN, restored(2, 90_000, SAVEPOINT), LATER_USES_IT], TWICE, LIKELY, "which uses the prefix sink"),
    ("so it is, and a list names it",
        [*RUN, LISTS_IT, restored(2, 90_000, SAVEPOINT), LATER_USES_IT],
        TWICE, LIKELY, "set back to checkpoint 2"),
    ("from a savepoint, another prefix",
        [*RUN, restored(2, 90_000, SAVEPOINT), OTHER_PREFIX], NOT_LOST, CERTAIN, ""),
    ("set back, then restored from it",
        [*RUN, LISTS_IT, restored(2, 90_000), restored(3, 95_000, id_=LAST)], TWICE, LIKELY, "from checkpoint 2"),
    ("set back, then from nothing",
        [*RUN, LISTS_IT, restored(2, 90_000), job(LAST, started_ms=T0 + 95_000)], TWICE, LIKELY, "checkpoint 2"),
]  # fmt: skip


@table("given, verdict, certainty, says", ENDED)
def test_a_committed_one_is_twice_if_its_job_is_set_back(
    given: list[Observation | FlinkCommittables], verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    loss = judged(folded_with_lists([*THIS_COMMITTED, *given]))[("sink-0-3", T0 + 21_500)]
    check(loss, verdict, certainty, says)


def test_a7_resolves_once_the_id_is_taken_again(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        watched = Watched(store)
        watched.see(*COMMITS, *THIS, *GONE)
        watched.alerts(90_000)
        assert watched.alerts(150_000) == {("A7", KEY): AlertState.FIRING}
        watched.see(taken(160_000))
        watched.alerts(170_000)
        assert watched.alerts(400_000) == {("A7", KEY): AlertState.RESOLVED}


def test_a12_fires_once_what_an_order_committed_is_written_again(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        watched = Watched(store)
        watched.see(*COMMITS, *THIS_COMMITTED, OVER, *BEFORE, BY_HAND)
        assert watched.alerts(90_000) == {}
        watched.see(taken(160_000))
        watched.alerts(170_000)
        assert watched.alerts(230_000) == {("A12", KEY): AlertState.FIRING}
        watched.alerts(170_000 + 3_600_000)
        assert watched.alerts(200_000 + 2 * 3_600_000) == {("A12", KEY): AlertState.RESOLVED}
