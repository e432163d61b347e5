"""How a transaction ended that hangs on a partition: only where nothing else can have been written at its epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.facts import BrokerIdentity, BrokerTransaction
from collector.verdicts.known_ends import WrittenAt, known_end
from tests.unit.collector.observations import T0
from tests.unit.collector.partition_sightings import producer

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
LIBRDKAFKA = {"ongoing_version": 0, "end_version": 0, "end_epoch": 2}


def end(*transactions: BrokerTransaction, decided: bool = False, first_epoch: int | None = 2) -> bool | None:
    found = known_end(producer(), WrittenAt(transactions=transactions, is_decided=decided), first_epoch)
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
