"""Kept verdicts are those that judging everything anew would give, after whatever was seen and however much time passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import DecisionSeen, IdExpired, Observation
from collector.state import eviction
from collector.state.eviction import drop_transaction, forget_decisions, forget_open_transactions
from collector.state.fold import apply
from collector.state.state import State
from collector.state.transaction_join import views
from collector.verdicts import judging
from collector.verdicts.judging import EvaluationContext, Judged
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from collector.views.kept_verdicts import KeptVerdicts
from lifecycle.decisions import Ruling, Settled
from lifecycle.events import EventType
from lifecycle.verdicts import Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import (
    T0,
    broker_record,
    decided,
    folded,
    handle,
    outcome,
    run_started,
    transaction_event,
)

Step = Observation | FlinkCommittables | Callable[[State], None]
OURS, STREAMS, FLINK = "ip-count-0-1", "words-0_1", "orders-0-1"
IDS = ("payments", OURS, STREAMS, FLINK)
"""Foreign, a pipeline's once it ran, an application's that reads its input again, and a Flink job's."""


def list_read(number: int = 1) -> FlinkCommittables:
    return FlinkCommittables(
        cluster=CLUSTER, job="a" * 32, number=number, path=f"chk-{number}", kind=FlinkKind.CHECKPOINT, read_ms=T0,
        written_ms=T0 + 50_000, prefixes=frozenset({"orders"}), committables=frozenset({Committable(FLINK, 0, 4)}),
    )  # fmt: skip


ids, epochs, times = st.sampled_from(IDS), st.integers(3, 5), st.integers(0, 90_000)
starts = st.sampled_from((0, 4_000, 40_000))
records = st.builds(
    lambda status, at, id_, epoch, start, partition: broker_record(
        status, at, transaction=id_, epoch=epoch, start=start, partitions=(partition,)
    ),
    st.sampled_from(BrokerStatus),
    times,
    ids,
    epochs,
    starts,
    st.sampled_from(("sink-0", "__consumer_offsets-3")),
)
handles = st.builds(handle, ids, epochs)
logged = st.one_of(
    st.builds(lambda at: run_started(at=at), times),
    st.builds(lambda of, at, ruling: decided(0, of, at=at, ruling=ruling), handles, times, st.sampled_from(Ruling)),
    st.builds(lambda of, how, at: outcome(0, of, how, at), handles, st.sampled_from(Settled), times),
)
others = st.one_of(
    st.builds(lambda of, at: transaction_event(EventType.TRANSACTION_PREPARED, at, of), handles, times),
    st.builds(lambda id_: IdExpired(transaction=id_), ids),
    st.builds(job, restored=st.sampled_from((None, 1)), restored_at=times),
    st.builds(checkpoint, st.integers(0, 3)),
    st.builds(list_read, st.integers(0, 3)),
    st.sampled_from((forget_decisions, forget_open_transactions)),
)
steps = st.lists(st.one_of(records, records, logged, others), max_size=25)


def moment(at: int, log_status: DecisionLogStatus = DecisionLogStatus.READABLE) -> EvaluationContext:
    return EvaluationContext(limits=Limits(), log_status=(log_status, ""), now_ms=T0 + at)


def anew(state: State, context: EvaluationContext) -> list[Judged]:
    return judging.judged(context.cases(state, views(state, settled=False)))


def sorted_by_key(judged: Iterable[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda item: (item.view.key, item.view.transaction, item.view.opened_ms or 0))


looked = st.integers(0, 20).map(lambda tens: 10_000 * tens)
ANOTHER_LOG_DECIDES_ITS_BATCH: list[Step] = [
    broker_record(BrokerStatus.EMPTY, 0, transaction="payments", epoch=3),
    decided(0, handle("payments", 3)),
    forget_decisions,
    broker_record(BrokerStatus.PREPARE_COMMIT, 0, transaction="payments", epoch=3),
    decided(1, handle(OURS, 3)),
]


@example(ANOTHER_LOG_DECIDES_ITS_BATCH, [0] * 26, DecisionLogStatus.READABLE)
@given(steps, st.lists(looked, min_size=26, max_size=26), st.sampled_from(DecisionLogStatus))
def test_they_are_those_that_judging_everything_anew_gives(
    seen: list[Step], looks: list[int], status: DecisionLogStatus
) -> None:
    check(seen, looks, status)


@given(steps, st.lists(looked, min_size=26, max_size=26))
def test_they_are_also_where_more_was_told_than_is_noted(seen: list[Step], looks: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction, "TOUCHED_AT_MOST", 0)
        check(seen, looks, DecisionLogStatus.READABLE)


def test_what_was_told_is_noted_one_by_one_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "TOUCHED_AT_MOST", 10)
    state = State()
    for number in range(100):
        apply(state, broker_record(BrokerStatus.ONGOING, 0, transaction=f"payments-{number}", producer_id=number))
        assert len(state.touched) + len(state.touched_ids) <= 10
    assert state.all_touched
    assert len(KeptVerdicts().judged(state, moment(9))) == 100
    assert not state.all_touched


def check(seen: list[Step], looks: list[int], status: DecisionLogStatus) -> None:
    state, kept = State(), KeptVerdicts()
    for offset, (step, at) in enumerate(zip(seen, looks, strict=False)):
        match step:
            case DecisionSeen():
                apply(state, DecisionSeen(offset=offset, record=step.record))
            case FlinkCommittables():
                state.flink.see_committables(step)
            case _ if callable(step):
                step(state)
            case _:
                apply(state, step)
        context = moment(at, status if offset > 12 else DecisionLogStatus.READABLE)
        assert sorted_by_key(kept.judged(state, context)) == sorted_by_key(anew(state, context))


EARLIER: dict[str, Any] = {
    "transaction": "payments",
    "producer_id": 0,
    "start": -9_000,
    "partitions": ("__consumer_offsets-3",),
}
TOLD = {
    "a decision lists it": ("payments", [decided(1, handle("payments"))]),
    "it has an outcome": ("payments", [outcome(1, handle("payments"), Settled.COMMITTED)]),
    "a pipeline runs under its prefix": (OURS, [run_started(1)]),
    "an earlier one of its id held offsets": (
        "payments",
        [broker_record(BrokerStatus.COMPLETE_COMMIT, -8_000, epoch=3, **EARLIER)],
    ),
    "a later one of its id began": (
        "payments",
        [broker_record(BrokerStatus.ONGOING, 9, transaction="payments", start=9)],
    ),
    "a checkpoint lists it": (FLINK, [list_read()]),
    "it ends": ("payments", [broker_record(BrokerStatus.PREPARE_ABORT, 9, transaction="payments")]),
}


@pytest.mark.parametrize(("id_", "told"), TOLD.values(), ids=TOLD)
def test_one_is_judged_again_when_something_is_told_of_it(
    id_: str, told: list[Observation | FlinkCommittables]
) -> None:
    state, kept = folded(broker_record(BrokerStatus.ONGOING, 0, transaction=id_)), KeptVerdicts()
    if id_ != OURS:
        apply(state, run_started(0))
    before = kept.judged(state, moment(5_000))
    for one in told:
        state.flink.see_committables(one) if isinstance(one, FlinkCommittables) else apply(state, one)
    after = kept.judged(state, moment(5_000))
    assert sorted_by_key(after) == sorted_by_key(anew(state, moment(5_000)))
    assert after != before


def test_one_that_may_be_ours_waits_for_a_readable_decision_log() -> None:
    state, kept = folded(broker_record(BrokerStatus.ONGOING, 0, transaction=OURS)), KeptVerdicts()
    (foreign,) = kept.judged(state, moment(0))
    (unknown,) = kept.judged(state, moment(0, DecisionLogStatus.UNREADABLE))
    assert (foreign.judgement.verdict, unknown.judgement.verdict) == (Verdict.FOREIGN, Verdict.UNKNOWN)


def test_while_nothing_changes_it_is_the_same_list() -> None:
    state, kept = folded(broker_record(BrokerStatus.ONGOING, 0, transaction="payments")), KeptVerdicts()
    first = kept.judged(state, moment(30_000))
    assert kept.judged(state, moment(500_000)) is first
    apply(state, broker_record(BrokerStatus.ONGOING, 7, transaction="refunds", start=7))
    (old, new) = sorted_by_key(kept.judged(state, moment(500_001)))
    assert old is first[0]
    assert new.view.transaction == "refunds"


def test_a_young_one_is_judged_at_each_look_until_it_is_old() -> None:
    state, kept = folded(broker_record(BrokerStatus.ONGOING, 0, transaction="shop-1")), KeptVerdicts()

    def rules(at: int) -> list[int]:
        return [item.judgement.rule for item in kept.judged(state, moment(at))]

    assert rules(1_000) == [7]
    of_other = {"transaction": "shop-2", "producer_id": 8, "start": 500}
    apply(state, broker_record(BrokerStatus.COMPLETE_COMMIT, 1_500, epoch=1, **of_other))
    assert rules(2_000) == [35], "another one of its application was committed"
    assert rules(29_999) == [35]
    assert rules(30_000) == [7]
    assert kept.judged(state, moment(31_000)) is kept.judged(state, moment(600_000)), "it is old"
    assert rules(595_000) == [7], "two that look at once"
    assert rules(5_000) == [35], "the clock was stepped back"


def test_one_that_leaves_memory_is_no_longer_kept() -> None:
    state, kept = folded(broker_record(BrokerStatus.ONGOING, 0, transaction="payments")), KeptVerdicts()
    (identity,) = state.open
    assert len(kept.judged(state, moment(0))) == 1
    drop_transaction(state, identity)
    assert kept.judged(state, moment(0)) == []
