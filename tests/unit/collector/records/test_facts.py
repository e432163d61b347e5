"""What is known of one transaction: the coordinator's records together, and what was reported."""

from __future__ import annotations

from dataclasses import replace

from indoubt.collector.records.facts import HandleIdentity, ReportedTransaction, merged, of_record
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observer_kind import ObserverKind
from tests.unit.collector.observations import T0, broker_record

ONGOING = of_record(broker_record(BrokerStatus.ONGOING, 0, version=2), T0)
ENDING = of_record(broker_record(BrokerStatus.PREPARE_COMMIT, 1, version=2, epoch=5), T0)
POLLED = replace(ONGOING, ongoing_version=0, source=ObserverKind.TRANSACTION_POLLING.value)


def test_the_clients_version_is_that_of_the_first_record_read() -> None:
    assert ONGOING.client_transaction_version == ENDING.client_transaction_version == 2
    assert merged(ONGOING, ENDING).client_transaction_version == 2
    assert of_record(broker_record(BrokerStatus.ONGOING, 0), T0).client_transaction_version == 0


def test_what_only_polling_saw_has_no_known_version() -> None:
    assert POLLED.client_transaction_version is None


def test_what_is_learned_of_a_reported_branch_is_in_its_key() -> None:
    reported = ReportedTransaction(identity=HandleIdentity("xid-1", None, None), reported_manager="mysql")
    assert reported.key == "mysql:xid-1"
    assert replace(reported, reported_manager="postgres").key == "postgres:xid-1"
    asked, unasked = replace(reported), replace(reported)
    assert asked.key
    assert asked == unasked, "a key that was asked for makes no other transaction of it"
