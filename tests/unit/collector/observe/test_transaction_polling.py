"""What coordinators' descriptions say of the transactions that were open before: what is still open, and what has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.observe.transaction_polling import records
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.resource_managers.protocol import OpenTransactionView

START, NOW, SOURCE = 1_000, 9_000, "transaction polling"
ID = "shop-1"
OPEN = BrokerTransaction(
    BrokerIdentity(ID, 7, START), frozenset({"orders-0"}), SOURCE, timeout_ms=30_000, ongoing_epoch=3
)
SEEN = OpenTransactionView(
    resource_manager="kafka",
    transaction=ID,
    producer_id=7,
    producer_epoch=3,
    state="Ongoing",
    started_at_ms=START,
    timeout_ms=30_000,
    partitions=(("orders", 0),),
)
S = BrokerStatus


def told(
    described: OpenTransactionView | None, transaction: BrokerTransaction = OPEN
) -> list[tuple[int, int | None, BrokerStatus]]:
    """Return (producer id, start, status) of what is noted."""
    found = records({transaction.identity: transaction}, {ID: described}, source=SOURCE, at_ms=NOW)
    return [(record.producer_id, record.start_ms, record.status) for record in found]


@pytest.mark.parametrize(
    ("described", "noted"),
    [
        (SEEN, [(7, START, S.ONGOING)]),
        (replace(SEEN, state="CompleteAbort", producer_epoch=4), [(7, START, S.COMPLETE_ABORT)]),
        (replace(SEEN, state="Empty", producer_epoch=5, started_at_ms=None), [(7, START, S.DEAD)]),
        (replace(SEEN, state="Empty", producer_id=2, producer_epoch=0, started_at_ms=None), [(7, START, S.DEAD)]),
        (None, [(7, START, S.DEAD)]),
        (replace(SEEN, producer_epoch=5, started_at_ms=2_000), [(7, 2_000, S.ONGOING), (7, START, S.DEAD)]),
        (
            replace(SEEN, producer_id=2, producer_epoch=0, started_at_ms=2_000),
            [(2, 2_000, S.ONGOING), (7, START, S.DEAD)],
        ),
        (replace(SEEN, state="CompleteCommit", producer_id=9, producer_epoch=0), [(7, START, S.COMPLETE_COMMIT)]),
    ],
    ids=["open", "aborted", "empty", "empty, other id", "forgotten", "next", "next, other id", "epochs used up"],
)
def test_what_was_open_has_ended_once_its_id_went_on(
    described: OpenTransactionView | None, noted: list[tuple[int, int, BrokerStatus]]
) -> None:
    assert told(described) == noted


@pytest.mark.parametrize(
    ("begun", "status"), [({"prepare_commit_ms": 5}, S.COMPLETE_COMMIT), ({"prepare_abort_ms": 5}, S.COMPLETE_ABORT)]
)
def test_an_end_that_was_seen_to_begin_is_the_end(begun: dict[str, int], status: BrokerStatus) -> None:
    empty = replace(SEEN, state="Empty", producer_epoch=5, started_at_ms=None)
    assert told(empty, replace(OPEN, end_epoch=4, **begun)) == [(7, START, status)]


def test_of_an_id_that_was_not_described_nothing_is_said() -> None:
    assert records({OPEN.identity: OPEN}, {}, source=SOURCE, at_ms=NOW) == []
