"""Of what history has of a transaction that ended, the same is read once a minute; of one that has not, each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from collector.history.store import Store
from collector.records.facts import BrokerIdentity
from collector.records.formats.transaction_state import BrokerStatus
from collector.views import ended_transactions
from collector.views.ended_transactions import KEPT_S, EndedTransactions
from tests.unit.collector.api.served_api import observed
from tests.unit.collector.observations import T0, broker_record

DONE = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
ENDED, OTHER, OPEN, NEVER = (BrokerIdentity(id_, 7, T0) for id_ in ("a-0-1", "a-1-1", "a-2-1", "a-3-1"))


class Reads:
    """A store of two transactions that ended and an open one; counts how many are asked of it."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.asked = store, 0
        self.now_s = 100.0
        self.ended = EndedTransactions(lambda: self.now_s)
        for number, identity in enumerate((ENDED, OTHER, OPEN)):
            self.add(10 * number, identity, DONE[:1] if identity is OPEN else DONE)
        rows = store.rows

        def counted(query: str, *values: object) -> list[tuple[object, ...]]:
            assert isinstance(values[0], list)
            self.asked += len(values[0])
            return rows(query, *values)

        monkeypatch.setattr(store, "rows", counted)

    def add(self, offset: int, identity: BrokerIdentity, statuses: tuple[BrokerStatus, ...]) -> None:
        id_, producer_id, _ = identity
        records = [
            broker_record(status, late, transaction=id_, producer_id=producer_id)
            for late, status in enumerate(statuses)
        ]
        self.store.append([observed(offset + at, record) for at, record in enumerate(records)])
        self.store.flushed()

    def read(self, *identities: BrokerIdentity) -> tuple[dict[BrokerIdentity, bool], int]:
        """Return which were found, and whether each has ended; and how many were asked of history for it."""
        before = self.asked
        found = self.ended.read(self.store, identities)
        assert len(found) == len({each.identity for each in found})
        return {each.identity: each.is_final for each in found}, self.asked - before


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        yield Reads(store, monkeypatch)


def test_one_that_ended_is_read_once_and_any_other_each_time(reads: Reads) -> None:
    assert reads.read(ENDED, OPEN, NEVER) == ({ENDED: True, OPEN: False}, 3)
    assert reads.read(OTHER, ENDED) == ({ENDED: True, OTHER: True}, 1)
    assert reads.read(ENDED, OTHER) == ({ENDED: True, OTHER: True}, 0)
    assert reads.read(ENDED, OPEN, NEVER) == ({ENDED: True, OPEN: False}, 2)
    assert reads.read() == ({}, 0)
    reads.add(100, OPEN, DONE[1:])
    assert reads.read(OPEN) == ({OPEN: True}, 1)
    assert reads.read(OPEN) == ({OPEN: True}, 0)


def test_each_is_read_again_after_a_minute(reads: Reads) -> None:
    reads.read(ENDED)
    reads.now_s += KEPT_S / 2
    reads.read(OTHER)
    reads.now_s += KEPT_S / 2 - 0.1
    assert reads.read(ENDED, OTHER)[1] == 0
    reads.now_s += 0.1
    assert reads.read(ENDED, OTHER) == ({ENDED: True, OTHER: True}, 1)
    reads.now_s += KEPT_S / 2
    assert reads.read(ENDED, OTHER)[1] == 1, "one has stood for half a minute"


def test_those_that_were_read_first_leave_where_there_are_many(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_transactions, "KEPT", 1)
    reads.read(ENDED)
    reads.read(OTHER)
    assert reads.read(OTHER)[1] == 0
    assert reads.read(ENDED)[1] == 1
