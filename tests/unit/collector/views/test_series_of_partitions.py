"""Groups and partitions over time: what was not read, where a partition ended, and who held it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.history import sql
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.partition_state import PartitionFindings, SeenGroup
from indoubt.collector.views import time_buckets
from indoubt.collector.views.partition_rows import group_rows
from indoubt.collector.views.series_of_partitions import cached_groups, cached_partitions
from indoubt.collector.views.time_buckets import Window
from indoubt.lifecycle.durations import MINUTE_MS
from tests.unit.collector.observations import T0, broker_record
from tests.unit.collector.partition_sightings import partition_findings
from tests.unit.collector.views.test_series import NOW, History, always

MINUTES = [minute * MINUTE_MS - T0 % MINUTE_MS for minute in range(11)]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path)
    yield made
    made.store.close()


def end(history: History, at: int, high_watermark: int, hidden: int = 0) -> None:
    columns = [[T0 + at], 10_000, ["sink"], [0], [high_watermark], [hidden]]
    history.store.transact([(sql.ADD_PARTITION_ENDS, columns)])


def test_where_a_partition_stands_still_its_end_stays(history: History) -> None:
    always(history)
    end(history, MINUTES[2], 100)
    end(history, MINUTES[3], 140, 40)
    end(history, MINUTES[5], 150)
    found = cached_partitions(history.current, history.store).at(NOW, "sink", 0, Window.HOUR)
    first = -(found.from_ms - T0 - MINUTES[0]) // MINUTE_MS
    assert found.high_watermark[first : first + 8] == (None, None, 100, 140, 140, 150, 150, 150)
    assert found.hidden[first : first + 6] == (0, 0, 0, 40, 0, 0)


def test_where_nobody_looked_no_end_is_claimed(history: History) -> None:
    history.watch(time_buckets.COLLECTOR, (-MINUTE_MS, MINUTES[3]), (MINUTES[6], NOW - T0))
    history.watch("partitions", (-MINUTE_MS, MINUTES[3]), (MINUTES[6], NOW - T0))
    end(history, MINUTES[1], 100)
    found = cached_partitions(history.current, history.store).at(NOW, "sink", 0, Window.HOUR)
    first = -(found.from_ms - T0 - MINUTES[0]) // MINUTE_MS
    assert found.high_watermark[first + 1 : first + 8] == (100, 100, None, None, None, 100, 100)
    assert found.gaps


def test_the_transactions_that_were_open_longest_are_its_holders(history: History) -> None:
    always(history)
    history.observe(
        broker_record(BrokerStatus.COMPLETE_COMMIT, MINUTES[2] + 500, start=MINUTES[2]),
        broker_record(BrokerStatus.COMPLETE_ABORT, MINUTES[4], start=MINUTES[3], producer_id=1),
        broker_record(BrokerStatus.ONGOING, MINUTES[9], start=MINUTES[9], producer_id=2),
        broker_record(BrokerStatus.ONGOING, MINUTES[9], start=MINUTES[9], producer_id=3, partitions=("other-0",)),
    )
    found = cached_partitions(history.current, history.store).at(NOW, "sink", 0, Window.HOUR)
    assert [(span.from_ms - T0, span.outcome) for span in found.holders] == [
        (MINUTES[2], "committed"),
        (MINUTES[3], "aborted"),
        (MINUTES[9], "open"),
    ]


def test_groups_have_what_they_had_not_read(history: History) -> None:
    always(history)
    columns = [[T0 + MINUTES[2]] * 2, 10_000, ["billing", "audit"], [7, 0], [0, 40]]
    history.store.transact([(sql.ADD_GROUP_LAGS, columns)])
    found = cached_groups(history.store).at(NOW, Window.HOUR)
    first = -(found.from_ms - T0 - MINUTES[0]) // MINUTE_MS
    assert {one.group: (one.lag[first + 2], one.hidden[first + 2]) for one in found.groups} == {
        "billing": (7, 0),
        "audit": (0, 40),
    }
    assert all(found.observed)


def test_a_row_of_a_group_is_of_all_its_partitions_and_the_worst_of_them() -> None:
    found = partition_findings()
    seen = PartitionFindings(
        at_ms=found.at_ms, blocked=found.blocked, read_by=found.read_by | {"idle": frozenset({("orders", 3)})},
        groups={"readers": SeenGroup(state="Stable", members=2)},
    )  # fmt: skip
    waiting, idle = group_rows(seen)
    assert (waiting.group, waiting.kind, waiting.members, waiting.state) == ("readers", "waiting", 2, "Stable")
    assert (waiting.lag, waiting.hidden, waiting.partitions, waiting.topics) == (0, 5, 2, ("orders", "quiet"))
    assert [(one.topic, one.partition, one.hidden) for one in waiting.most] == [("orders", 3, 5)]
    assert (idle.group, idle.kind, idle.lag, idle.members) == ("idle", "", 0, None)
