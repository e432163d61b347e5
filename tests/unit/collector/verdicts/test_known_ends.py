"""How a transaction ended that hangs on a partition: only where nothing else can have been written at its epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.known_ends import KnownEnd, WrittenAt, known_end, written_at
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0, broker_record, decided, folded, handle, run_started
from tests.unit.collector.partition_sightings import producer
from tests.unit.collector.verdicts.flink_given import EPOCH, ITSELF, JOB, NOT_LISTED, OPENED, PRODUCER, listing

COMMITTED = BrokerTransaction(
    identity=BrokerIdentity("billing", 7, T0),
    partitions=frozenset({"orders-3"}),
    ongoing_epoch=2,
    end_epoch=3,
    ongoing_version=2,
    end_version=2,
    complete_commit_ms=T0 + 5,
)
ABORTED = replace(COMMITTED, complete_commit_ms=None, complete_abort_ms=T0 + 5)
DECIDED = "a commit decision lists it"
LIBRDKAFKA = {"ongoing_version": 0, "end_version": 0, "end_epoch": 2}


def end(*transactions: BrokerTransaction, decided: bool = False, first_epoch: int | None = 2) -> bool | None:
    found = known_end(
        producer(), WrittenAt(transactions=transactions, listed_by=DECIDED if decided else ""), first_epoch
    )
    return None if found is None else found.commit


def test_a_writer_that_has_an_epoch_for_each_transaction_proves_its_end() -> None:
    assert end(COMMITTED) is True
    assert end(ABORTED) is False


def test_a_decided_transaction_of_ours_proves_its_end_at_any_version() -> None:
    assert end(replace(COMMITTED, **LIBRDKAFKA), decided=True) is True
    assert end(replace(ABORTED, **LIBRDKAFKA), decided=True) is False


@pytest.mark.parametrize(
    "changes",
    [
        # Its epoch stays from one transaction to the next: this may be an earlier one's rows.
        LIBRDKAFKA,
        # Begun by librdkafka, ended by EndTxn 5: the same.
        {"ongoing_version": 0},
        # Its version is not known.
        {"ongoing_version": None},
        # It was ended by a request of a version that is not known.
        {"end_version": None},
        # Its beginning was not seen: at which epoch it wrote is inferred.
        {"ongoing_epoch": None},
        # It was written at another epoch.
        {"ongoing_epoch": 1},
        # Its end was not seen.
        {"complete_commit_ms": None},
        # The coordinator committed other partitions: the rows here were never part of it.
        {"partitions": frozenset({"orders-4"})},
    ],
)
def test_what_does_not_prove_it(changes: dict[str, Any]) -> None:
    assert end(replace(COMMITTED, **changes)) is None


def test_two_transactions_of_one_epoch_prove_nothing() -> None:
    earlier = replace(ABORTED, identity=BrokerIdentity("billing", 7, T0 - 100))
    assert end(earlier, COMMITTED) is None


@pytest.mark.parametrize("first_epoch", [1, None], ids=["an older epoch", "unreadable"])
def test_rows_of_an_older_transaction_before_it_prove_nothing(first_epoch: int | None) -> None:
    """Two markers in a row are missing: one marker would end both transactions in the same way."""
    assert end(COMMITTED, first_epoch=first_epoch) is None


def test_an_abort_needs_no_partition() -> None:
    """Rows that came late, to a partition that the coordinator never had, were aborted all the same."""
    assert end(replace(ABORTED, partitions=frozenset())) is False


def test_an_end_names_its_transaction_and_its_time() -> None:
    def found(transaction: BrokerTransaction, decided: bool) -> KnownEnd | None:
        return known_end(producer(), WrittenAt(transactions=(transaction,), listed_by=DECIDED if decided else ""), 2)

    assert found(COMMITTED, False) == KnownEnd(
        transaction="billing",
        commit=True,
        at_ms=T0 + 5,
        why="billing was committed at epoch 2, the only one of that epoch: "
        "its writer has an epoch for each transaction (transaction.version 2)",
    )
    assert found(replace(ABORTED, **LIBRDKAFKA), True) == KnownEnd(
        transaction="billing",
        commit=False,
        at_ms=T0 + 5,
        why="billing was aborted at epoch 2, the only one of that epoch: a commit decision lists it",
    )


def test_all_that_was_written_at_an_epoch_is_found() -> None:
    """Below version 2 an epoch has several transactions; a decision may list any of them."""
    managed = "ip-count-0-1"
    first, second = (
        broker_record(BrokerStatus.COMPLETE_COMMIT, at, start=at, transaction=managed, producer_id=7, epoch=2)
        for at in (0, 100)
    )
    state = folded(
        run_started(0),
        broker_record(BrokerStatus.ONGOING, 0, transaction="billing", producer_id=7, epoch=2),
        first,
        second,
        decided(1, handle(managed, epoch=2, producer_id=7)),
        broker_record(BrokerStatus.ONGOING, 0, transaction="other", producer_id=7, epoch=3),
        broker_record(BrokerStatus.ONGOING, 0, transaction="another", producer_id=8, epoch=2),
    )
    found = written_at(state, [(7, 2), (8, 2), (9, 2)])
    assert {at: [one.identity.transaction for one in written.transactions] for at, written in found.items()} == {
        (7, 2): ["billing", managed, managed],
        (8, 2): ["another"],
    }
    assert {at: written.listed_by for at, written in found.items()} == {(7, 2): DECIDED, (8, 2): ""}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (listing(3), f"chk-3 of the Flink job {CLUSTER}/{JOB} lists it"),
        # The list still tells that it was Flink's once its checkpoint is deleted.
        (replace(listing(3), is_gone=True), f"chk-3 of the Flink job {CLUSTER}/{JOB} lists it"),
        (listing(3, NOT_LISTED), ""),
        (listing(3, Committable(ITSELF.transaction, PRODUCER, EPOCH + 1)), ""),
        # It began after that list was written: another transaction of that epoch.
        (listing(3, written=OPENED - 60_000), ""),
    ],
)
def test_a_checkpoint_of_flink_lists_what_was_written_at_an_epoch(seen: FlinkCommittables, expected: str) -> None:
    state = folded(
        broker_record(
            BrokerStatus.ONGOING,
            OPENED,
            transaction=ITSELF.transaction,
            producer_id=PRODUCER,
            epoch=EPOCH,
            start=OPENED,
        ),
    )
    state.flink.see_committables(seen)
    (written,) = written_at(state, [(PRODUCER, EPOCH)]).values()
    assert written.listed_by == expected
