"""A completed checkpoint, and its transaction written again all the same: its id is taken again, or a restore is below it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from collector.alerting.state_machine import AlertState, AlertStates, step
from collector.assess import rules
from collector.assess.recent_losses import RecentLosses
from collector.config.alerts import AlertSettings
from collector.history.store import Store
from collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import Observation, Observed, OperatorOrder, Position
from collector.verdicts.data_loss import Loss, LossVerdict
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from collector.views import aborts_and_losses
from collector.views.current_state import CurrentState
from lifecycle.verdicts import Certainty
from tests.unit.collector.assessments import snapshot_at
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.observations import T0, broker_record, folded
from tests.unit.collector.verdicts.loss_observations import BEFORE, COMMITS, THIS, judged, transaction

LOST, HARMLESS, TWICE, NOT_LOST = LossVerdict.LOST, LossVerdict.HARMLESS, LossVerdict.DUPLICATED, LossVerdict.NOT_LOST
UNKNOWN, CERTAIN, LIKELY, GUESS = LossVerdict.UNKNOWN, Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS
JOB, LATER, LAST = "a" * 32, "c" * 32, "d" * 32
KEY = f"kafka:sink-0-3:3:4@{T0 + 21_500}"


def taken(at: int, number: int = 3) -> Observation:
    """Return that a producer takes an id."""
    named = {"transaction": f"sink-0-{number}", "producer_id": number, "epoch": 6}
    return broker_record(BrokerStatus.EMPTY, at, start=None, partitions=(), **named)  # type: ignore[arg-type]


def restored(id_: str, number: int, at: int, path: str = "", name: str = "orders") -> Observation:
    """Return a job that was restored from a checkpoint, of the first job unless its path says otherwise."""
    path = path or f"s3://b/{JOB}/chk-{number}"
    return job(id_, name=name, restored=number, restored_at=at, started_ms=T0 + at - 1_000, restored_path=path)


def ordered(action: str, at: int) -> Observation:
    return OperatorOrder(key=KEY, action=action, who="anna", at_ms=T0 + at, audit=1)


def listed(job_id: str, number: int, written: int, *ids: Committable, prefix: str = "sink") -> FlinkCommittables:
    return FlinkCommittables(
        cluster="eu", job=job_id, number=number, path=f"/c/{job_id}/chk-{number}", kind=FlinkKind.CHECKPOINT,
        written_ms=T0 + written, read_ms=T0 + written, committables=frozenset(ids), prefixes=frozenset({prefix}),
    )  # fmt: skip


LATER_IDS = [record for n in (4, 5, 6) for record in transaction(n, n * 20_000, n * 20_000 + 9_000, committed=True)]
SAVEPOINT = "s3://b/savepoint-aaaaaa-0123"
GONE = [job(state="CANCELED"), *BEFORE, checkpoint(3)]
CHECKPOINT_3_AGAIN = checkpoint(3, triggered_ms=T0 + 90_000, ended_ms=T0 + 90_500)
POOLED = [record for at in (50, 10_050, 20_050) for record in transaction(3, at, at + 1_000, committed=True)]
LISTS_IT = listed(JOB, 3, 30_500, Committable("sink-0-3", 3, 4))
LISTS_IT_ONLY = replace(LISTS_IT, prefixes=frozenset())
POOLED_LISTS_IT = replace(LISTS_IT, pooled=frozenset({"sink"}))
LATER_USES_IT = listed(LATER, 4, 95_000)
POOLED_LATER = replace(LATER_USES_IT, pooled=frozenset({"sink"}))
ITS_OWN_LIST, LIST_WITHOUT_IT = listed(JOB, 2, 20_500), listed(JOB, 2, 20_500, prefix="other")
OTHER_PREFIX = listed(LATER, 4, 95_000, prefix="other")

ABORTED: list[tuple[str, list[Observation | FlinkCommittables], LossVerdict, Certainty, str]] = [
    # name, what else was seen of a transaction whose checkpoint 3 was completed and that timed out at 82.5 s
    ("nothing else", [*COMMITS, *GONE], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("its id is taken again", [*COMMITS, *GONE, taken(95_000)], HARMLESS, LIKELY, "taken again at"),
    ("so it is, and a list names it", [*COMMITS, *GONE, LISTS_IT, taken(95_000)], HARMLESS, LIKELY, "taken again at"),
    ("the id after it is taken", [*COMMITS, *GONE, taken(95_000, 4)], LOST, LIKELY, "checkpoint 3"),
    ("its order took it again", [*COMMITS, *GONE, ordered("abort", 82_400), taken(82_600)], LOST, LIKELY, "checkpoint 3"),
    ("a job takes it after an order", [*COMMITS, *GONE, ordered("abort", 82_400), taken(95_000)], HARMLESS, LIKELY, "taken again"),
    ("restored from it since", [*COMMITS, *GONE, taken(90_000), restored(LATER, 3, 95_000)], LOST, LIKELY, "checkpoint 3"),
    ("the same by a list", [*COMMITS, *GONE, LISTS_IT, taken(90_000), restored(LATER, 3, 95_000)],
        LOST, LIKELY, "lists it, and counts"),
    ("taken since that restore", [*COMMITS, *GONE, restored(LATER, 3, 90_000), taken(95_000)], HARMLESS, LIKELY, "taken again"),
    ("taken before its checkpoint began, restored from it", [*COMMITS, *GONE[:-1], taken(84_000), CHECKPOINT_3_AGAIN,
        restored(LATER, 3, 95_000)], HARMLESS, LIKELY, "taken again"),
    ("restored from before it", [*COMMITS, *GONE, restored(LATER, 2, 90_000)], HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("from a savepoint below it, same prefix", [*COMMITS, *GONE, restored(LATER, 2, 90_000, SAVEPOINT), LATER_USES_IT],
        HARMLESS, LIKELY, "which uses the prefix sink, was restored from checkpoint 2"),
    ("so it is, and a list names it", [*COMMITS, *GONE, LISTS_IT, restored(LATER, 2, 90_000, SAVEPOINT), LATER_USES_IT],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("from one that holds it", [*COMMITS, *GONE, restored(LATER, 3, 90_000, SAVEPOINT), LATER_USES_IT],
        LOST, LIKELY, "checkpoint 3"),
    ("from a savepoint, another prefix", [*COMMITS, *GONE, restored(LATER, 2, 90_000, SAVEPOINT, "b"), OTHER_PREFIX],
        LOST, LIKELY, "checkpoint 3"),
    ("from a savepoint, same name, no list yet", [*COMMITS, *GONE, restored(LATER, 2, 90_000, SAVEPOINT)],
        LOST, LIKELY, "checkpoint 3"),
    ("set back, then one from a savepoint", [*COMMITS, *GONE, restored(LATER, 2, 90_000), restored(LAST, 3, 95_000, SAVEPOINT)],
        HARMLESS, LIKELY, "set back to checkpoint 2"),
    ("of its name, restored from nothing", [*COMMITS, *GONE, job(LATER, started_ms=T0 + 90_000)], LOST, LIKELY, "checkpoint 3"),
    ("restored below it before it began",
        [*COMMITS, *GONE, ITS_OWN_LIST, restored(LATER, 2, 22_000, SAVEPOINT, "b"), LATER_USES_IT],
        LOST, LIKELY, "checkpoint 3"),
    ("so it is, and its job has no list", [*COMMITS, *GONE, restored(LATER, 2, 22_000, SAVEPOINT, "b"), LATER_USES_IT],
        UNKNOWN, GUESS, "do not say whose it is"),
    ("nothing says that it is the job's", [*GONE], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("the job's lists never name it", [*GONE, LIST_WITHOUT_IT], UNKNOWN, GUESS, "only its owner knows"),
    ("nor does its commits' time help then", [*COMMITS, *GONE, LIST_WITHOUT_IT], UNKNOWN, GUESS, "only its owner knows"),
    ("its job's list names it", [*GONE, ITS_OWN_LIST], LOST, LIKELY, "checkpoint 3 of eu/orders holds it"),
    ("a job that began later names it", [*COMMITS, *GONE, restored(LATER, 3, 90_000, SAVEPOINT, "b"), LATER_USES_IT],
        UNKNOWN, GUESS, "its prefix is that of eu/b"),
    ("a stranger goes on with its ids", [*LATER_IDS, *GONE], LOST, LIKELY, "checkpoint 3 of eu/orders"),
    ("the job's own ids go on", [*LATER_IDS, *GONE, ITS_OWN_LIST], LOST, LIKELY, "checkpoint 3 of eu/orders"),
    ("few commits, its id is taken again", [*GONE, LISTS_IT_ONLY, taken(95_000)], LOST, LIKELY, "lists it"),
    ("so it is, and a list says what its number is", [*GONE, LISTS_IT, taken(95_000)], HARMLESS, LIKELY, "taken again"),
    ("few commits", [*GONE, LISTS_IT_ONLY], LOST, CERTAIN, "lists it"),
    ("a pool as a list says, its id is taken again", [*COMMITS, *GONE, POOLED_LISTS_IT, taken(95_000)], LOST, CERTAIN, "lists it"),
    ("pooled, its id is taken again", [*POOLED, *GONE, POOLED_LISTS_IT, taken(95_000)], LOST, CERTAIN, "lists it"),
    ("pooled, restored from a savepoint before it",
        [*POOLED, *GONE, POOLED_LISTS_IT, restored(LATER, 1, 90_000, SAVEPOINT), POOLED_LATER], HARMLESS, LIKELY, "checkpoint 1"),
    ("pooled, restored from a savepoint not seen",
        [*POOLED, *GONE, POOLED_LISTS_IT, restored(LATER, 9, 90_000, SAVEPOINT), POOLED_LATER], LOST, LIKELY, "checkpoint 3"),
]  # fmt: skip


def loss_of(records: list[Observation], seen: list[Observation | FlinkCommittables]) -> Loss:
    """Return what became of the transaction that began at 21.5 s."""
    state = folded(*records, *(each for each in seen if not isinstance(each, FlinkCommittables)))
    state.flink.see_polled("eu", 0, answered=True)
    for each in seen:
        if isinstance(each, FlinkCommittables):
            state.flink.see_committables(each)
    return judged(state)[("sink-0-3", T0 + 21_500)]


@pytest.mark.parametrize(
    ("seen", "verdict", "certainty", "says"), [c[1:] for c in ABORTED], ids=[c[0] for c in ABORTED]
)
def test_an_aborted_one_whose_checkpoint_was_completed(
    seen: list[Observation | FlinkCommittables], verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    loss = loss_of([*THIS], seen)
    assert (loss.verdict, loss.certainty) == (verdict, certainty), loss.why
    assert says in loss.why


BY_HAND = ordered("commit", 40_000)
THIS_COMMITTED = transaction(3, 21_500, 40_000, committed=True)
UNSEEN = [job(state="CANCELED"), *BEFORE]
ENDED: list[tuple[str, list[Observation | FlinkCommittables], LossVerdict, Certainty, str]] = [
    # name, what else was seen of a transaction that was committed at 40 s
    ("nothing else", [*COMMITS, *GONE], NOT_LOST, CERTAIN, ""),
    ("by its job, taken again", [*COMMITS, *GONE, taken(95_000)], NOT_LOST, CERTAIN, ""),
    ("by an order, taken again", [*COMMITS, *UNSEEN, BY_HAND, taken(95_000)], TWICE, LIKELY, "taken again at"),
    ("by an order, taken again, no REST", [*COMMITS, BY_HAND, taken(95_000)], TWICE, LIKELY, "taken again at"),
    ("by an order, the next id is taken", [*COMMITS, *UNSEEN, BY_HAND, taken(95_000, 4)], NOT_LOST, CERTAIN, ""),
    ("by an order, pooled, taken again", [*POOLED, *UNSEEN, BY_HAND, taken(95_000)], NOT_LOST, CERTAIN, ""),
    ("by an order to abort, taken again", [*COMMITS, *UNSEEN, ordered("abort", 39_000), taken(95_000)], NOT_LOST, CERTAIN, ""),
    ("by an order, restored below it", [*COMMITS, *UNSEEN, BY_HAND, restored(LATER, 2, 90_000)], TWICE, LIKELY, "checkpoint 2"),
    ("by an order, after a restore from before it",
        [*COMMITS, *UNSEEN, BY_HAND, restored(LATER, 2, 30_000, SAVEPOINT), LATER_USES_IT], TWICE, LIKELY, "from checkpoint 2"),
    ("from a savepoint below it, same prefix",
        [*COMMITS, *GONE, restored(LATER, 2, 90_000, SAVEPOINT), LATER_USES_IT], TWICE, LIKELY, "which uses the prefix sink"),
    ("so it is, and a list names it",
        [*COMMITS, *GONE, LISTS_IT, restored(LATER, 2, 90_000, SAVEPOINT), LATER_USES_IT],
        TWICE, LIKELY, "set back to checkpoint 2"),
    ("from a savepoint, another prefix",
        [*COMMITS, *GONE, restored(LATER, 2, 90_000, SAVEPOINT), OTHER_PREFIX], NOT_LOST, CERTAIN, ""),
    ("set back, then restored from it",
        [*COMMITS, *GONE, LISTS_IT, restored(LATER, 2, 90_000), restored(LAST, 3, 95_000)], TWICE, LIKELY, "from checkpoint 2"),
    ("set back, then from nothing",
        [*COMMITS, *GONE, LISTS_IT, restored(LATER, 2, 90_000), job(LAST, started_ms=T0 + 95_000)], TWICE, LIKELY, "checkpoint 2"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "verdict", "certainty", "says"), [c[1:] for c in ENDED], ids=[c[0] for c in ENDED])
def test_a_committed_one_is_twice_if_its_job_is_set_back(
    seen: list[Observation | FlinkCommittables], verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    loss = loss_of([*THIS_COMMITTED], seen)
    assert (loss.verdict, loss.certainty) == (verdict, certainty), loss.why
    assert says in loss.why


class Watched:
    """A collector's alerts, judged at moments of its own clock."""

    def __init__(self, store: Store) -> None:
        self.current = CurrentState(store, settled_kept=1_000, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(DecisionLogStatus.ABSENT)
        self.current.flink.see_polled("eu", 0, answered=True)
        self.seen, self.states, self.clock_s = 0, AlertStates(), 0.0
        self.recent = RecentLosses(
            lambda since_ms: aborts_and_losses.losses_in_memory(self.current, since_ms=since_ms)[0],
            lambda since_ms: aborts_and_losses.duplicates(self.current, since_ms),
            lambda: self.clock_s,
        )

    def see(self, *observations: Observation) -> None:
        for observation in observations:
            self.seen += 1
            if isinstance(observation, OperatorOrder):
                self.current.carried_out(observation)
            else:
                at = Position(source="test", partition=0, offset=self.seen)
                self.current.observe([Observed(position=at, observation=observation)])

    def alerts(self, at: int) -> dict[tuple[str, str], AlertState]:
        """Return the state of each A7 and A12 by rule and subject, once everything was judged again at that time."""
        self.clock_s += 60.0
        losses, limits = self.recent.at(T0 + at), AlertSettings()
        snapshot = snapshot_at(self.current, [], limits, T0 + at, losses=losses)
        found = [each for each in rules.findings(snapshot, limits) if each.rule in ("A7", "A12")]
        self.states = step(self.states, found, [], T0 + at, limits).states
        return {(each.finding.rule, each.finding.subject): each.state for each in self.states.alerts.values()}


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
        watched.see(*COMMITS, *THIS_COMMITTED, *UNSEEN, BY_HAND)
        assert watched.alerts(90_000) == {}
        watched.see(taken(160_000))
        watched.alerts(170_000)
        assert watched.alerts(230_000) == {("A12", KEY): AlertState.FIRING}
        watched.alerts(170_000 + 3_600_000)
        assert watched.alerts(200_000 + 2 * 3_600_000) == {("A12", KEY): AlertState.RESOLVED}
