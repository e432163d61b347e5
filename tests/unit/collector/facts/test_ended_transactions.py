"""Which transactions count as ended while their coordinator has them open: what an event or the decision log says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indoubt.collector.facts.transaction_pages import end_sort_key, ended
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation
from indoubt.collector.verdicts.data_loss import COMMITTED, UNDONE
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.states import TransactionState
from tests.unit.collector.observations import (
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    folded,
    handle,
    outcome,
    run_started,
)

OPEN = [
    run_started(0),
    broker_record(BrokerStatus.ONGOING, 0),
    broker_record(BrokerStatus.ONGOING, 0, transaction="foreign:7:1", producer_id=9),
]
LOST = outcome(2, handle(), Settled.LOST)
OF_EARLIER_EPOCH = outcome(2, handle(epoch=3), Settled.LOST)
OF_A_DATABASE = outcome(2, database_handle(), Settled.LOST)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([], []),
        ([decided(1, handle()), LOST], [("ip-count-0-1", 4)]),
        ([LOST], [("ip-count-0-1", 4)]),
        ([decided(1, handle(epoch=3)), OF_EARLIER_EPOCH], [("ip-count-0-1", 3)]),
        ([decided(1, database_handle()), OF_A_DATABASE], []),
    ],
    ids=["nothing", "lost", "lost, its decision forgotten", "lost at an earlier epoch", "a branch is lost"],
)
def test_an_open_transaction_counts_as_ended_by_its_outcome(told, found):
    newest = ended(folded(*OPEN, *told), (TransactionState.ABORTED, TransactionState.LOST), most=10)
    at_kafka = [view for view in newest.views if view.resource_manager == "kafka"]
    assert [(view.transaction, view.producer_epoch) for view in at_kafka] == found


EVERY = 1_000
KAFKA_ENDS = (BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT, BrokerStatus.PREPARE_COMMIT)
WHERE = ("coordinator", "log", "both", "database", "database and log")


def story_of(parts: list[tuple[str, int, int, int]]) -> list[Observation]:
    """Return what is seen of transactions, one a part: where, how and when it ended, and in which resource manager's log."""
    told: list[Observation] = [run_started(0)]
    for number, (where, how, at, late) in enumerate(parts, 1):
        of = handle(f"ip-count-{number}-0", 4, number, number)
        branch = database_handle(nonce=f"{number:08x}")
        if where in ("coordinator", "both"):
            named = {"transaction": of.transaction, "producer_id": number, "epoch": 4}
            told.append(broker_record(BrokerStatus.ONGOING, 0, **named))
            told.append(broker_record(KAFKA_ENDS[how], at, **named))
        if where in ("database", "database and log"):
            told.append(branch_listed(branch, 0))
            told.append(branch_gone(branch, tuple(BranchProof)[how], at))
        if where in ("log", "both", "database and log"):
            settled = of if where != "database and log" else branch
            told.append(decided(2 * number, settled, batch=number))
            told.append(outcome(2 * number + 1, settled, tuple(Settled)[how % 2], at=at + late))
    return told


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(WHERE), st.integers(0, 2), st.integers(1, 6), st.integers(0, 2)), max_size=12
    ),
    wanted=st.sampled_from([UNDONE, (*COMMITTED, *UNDONE)]),
    since=st.integers(0, 4),
    most=st.integers(1, 4),
)
def test_small_pages_are_parts_of_the_large_one(parts, wanted, since, most):
    state = folded(*story_of(parts))
    since_ms = T0 + since if since else 0
    whole = ended(state, wanted, most=EVERY, since_ms=since_ms)
    assert whole.more == 0
    before, found = None, []
    for _ in range(len(whole.views) + 1):
        page = ended(state, wanted, most=most, before=before, since_ms=since_ms)
        found += page.views
        assert page.more == len(whole.views) - len(found)
        if not page.more:
            break
        before = end_sort_key(page.views[-1])
    assert found == list(whole.views)
    for name in {view.pipeline for view in whole.views}:
        of_it = ended(state, wanted, most=most, since_ms=since_ms, pipeline=name)
        fitting = [view for view in whole.views if view.pipeline == name]
        assert (list(of_it.views), of_it.more) == (fitting[:most], max(0, len(fitting) - most))
