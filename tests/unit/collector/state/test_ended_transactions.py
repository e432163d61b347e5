"""Which transactions count as ended while their coordinator has them open: what an event or the decision log says of them."""

from __future__ import annotations

import pytest

from collector.records.formats.transaction_state import BrokerStatus
from collector.state.transaction_pages import ended
from lifecycle.decisions import Settled
from lifecycle.states import TransactionState
from tests.unit.collector.observations import (
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
