"""The partitions that transactions of history wrote to: of what was written before, and of each commit since."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.history.writer import PartitionNames
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from tests.unit.collector.observations import broker_record
from tests.unit.collector.serve.api.served_api import observed


def write(store: Store, number: int, *partitions: str) -> None:
    store.append([observed(number, broker_record(BrokerStatus.ONGOING, 0, partitions=partitions))])
    store.flushed()


def test_names_of_earlier_runs_and_of_later_commits_are_known(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    write(store, 0, "orders-0", "orders-1")
    write(store, 1)
    store.close()
    again = Store(store.path)
    write(again, 2, "bills-0")
    assert again.partition_names.all() == {"orders-0", "orders-1", "bills-0"}
    write(again, 3, "bills-1", "orders-0")
    assert again.partition_names.all() == {"orders-0", "orders-1", "bills-0", "bills-1"}
    again.close()


def test_history_is_read_once_and_again_only_after_a_failure() -> None:
    answers: list[Iterable[str] | StoreFailed] = [StoreFailed("it cannot be read"), ["orders-0"]]

    def read() -> Iterable[str]:
        answer = answers.pop(0)
        if isinstance(answer, StoreFailed):
            raise answer
        return answer

    names = PartitionNames(read)
    with pytest.raises(StoreFailed):
        names.all()
    assert names.all() == names.all() == {"orders-0"}
