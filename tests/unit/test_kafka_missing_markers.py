"""Which end markers are missing: only those of the very transaction that its coordinator has ended."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from kafka import errors as kafka_errors

from resource_managers.kafka_missing_markers import missing_markers
from resource_managers.kafka_partitions import OpenProducer

ID = "ip-count-0-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a coordinator says of an id, as far as it is looked at."""

    transaction_state: str
    producer_id: int = 7
    producer_epoch: int = 3


def opened(producer_id: int = 7, epoch: int = 2) -> OpenProducer:
    return OpenProducer(
        partition=("orders", 3),
        producer_id=producer_id,
        producer_epoch=epoch,
        start_offset=100,
        last_timestamp_ms=None,
        coordinator_epoch=-1,
    )


@pytest.mark.parametrize(("state", "commit"), [("CompleteCommit", True), ("CompleteAbort", False)])
def test_what_is_open_one_epoch_before_its_end_gets_the_marker_of_that_end(state: str, commit: bool) -> None:
    (found,) = missing_markers({ID: Row(transaction_state=state)}, [opened()])
    assert (found.transaction, found.epoch, found.commit, found.producer) == (ID, 3, commit, opened())


@pytest.mark.parametrize(
    ("row", "producer"),
    [
        # Its end is under way, or none was ever asked for.
        (Row(transaction_state="PrepareCommit"), opened()),
        (Row(transaction_state="Ongoing"), opened()),
        (Row(transaction_state="Empty"), opened()),
        # Below transaction.version 2, or the next transaction: the same epoch may be another one.
        (Row(transaction_state="CompleteCommit"), opened(epoch=3)),
        # How an earlier one ended is not known any more.
        (Row(transaction_state="CompleteCommit"), opened(epoch=1)),
        (Row(transaction_state="CompleteCommit"), opened(producer_id=8)),
        # The coordinator did not answer.
        (kafka_errors.CoordinatorNotAvailableError, opened()),
    ],
)
def test_of_anything_else_nothing_is_said(row: object, producer: OpenProducer) -> None:
    assert missing_markers({ID: row}, [producer]) == []
