"""Metrics of what groups have not read, and of what databases keep prepared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from indoubt.collector.records.branches import BranchDetail, DatabaseSnapshot, branch_key
from indoubt.collector.serve.api import partition_metrics
from indoubt.collector.serve.api.application_metrics import PipelineLabels
from indoubt.collector.verdicts.partition_state import PartitionFindings, PartitionTracker
from tests.unit.collector.observations import T0, branch_listed, database_handle
from tests.unit.collector.partition_sightings import PARTITION, partition_findings
from tests.unit.collector.serve.api.served_api import Api, observed


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    served = Api(tmp_path)
    yield served
    served.store.close()


def told(families: Iterable[Metric]) -> dict[str, dict[str, float]]:
    """Return the values of each metric by its only label."""
    return {
        family.name.removeprefix("indoubt_"): {next(iter(s.labels.values())): s.value for s in family.samples}
        for family in families
    }


def lags(findings: PartitionFindings, most: int = 10) -> dict[str, dict[str, float]]:
    return told(partition_metrics.of_groups(findings, PipelineLabels(most)))


def test_what_waits_behind_an_open_transaction_and_markers_are_no_readable_lag() -> None:
    assert lags(partition_findings()) == {"group_readable_lag": {"readers": 0}, "group_hidden_lag": {"readers": 5}}


def test_records_below_the_last_stable_offset_are_readable_and_a_group_that_read_all_is_zero() -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    for at in (T0 + 1_000, T0 + 2_000):
        tracker.saw_group("late", "Stable", {PARTITION: 60}, at, is_whole=True)
        tracker.saw_group("done", "Stable", {PARTITION: 105}, at, is_whole=True)
        tracker.saw_partition(PARTITION, 100, 105, at)
    found = PartitionFindings(at_ms=T0, blocked=tracker.blocked(), hanging=(), read_by=tracker.read_by())
    assert lags(found) == {
        "group_readable_lag": {"late": 40, "done": 0},
        "group_hidden_lag": {"late": 5, "done": 0},
    }
    assert lags(found, most=1)["group_readable_lag"] == {"done": 0, "other": 40}


def test_a_group_has_its_name_as_long_as_it_exists_and_then_makes_room() -> None:
    labels = PipelineLabels(2)
    assert labels.of_groups("bc") == {"b": "b", "c": "c"}
    assert labels.of_groups("abc") == {"a": "other", "b": "b", "c": "c"}
    assert labels.of_groups("ac") == {"a": "a", "c": "c"}


def test_a_database_tells_how_many_branches_are_prepared_how_old_and_what_vacuum_keeps(api: Api) -> None:
    names = ("foreign-1", "foreign-2")
    seen = [
        replace(branch_listed(replace(database_handle("postgres"), transaction=name)), prepared_ms=T0 + ms)
        for name, ms in zip(names, (1_000, 5_000), strict=True)
    ]
    api.current.observe([observed(70 + n, one) for n, one in enumerate(seen)])
    details = {
        branch_key("postgres", one.transaction, one.instance): BranchDetail(transaction_age=age)
        for one, age in zip(seen, (900, 20), strict=True)
    }
    api.current.see_branches(seen[0].instance, DatabaseSnapshot(at_ms=T0, details=details))
    api.current.see_branches("mysql", DatabaseSnapshot(at_ms=T0))
    api.current.see_branches("away", DatabaseSnapshot(at_ms=None, error="no answer"))
    shown = told(partition_metrics.of_databases(partition_metrics.see_databases(api.current), T0 + 11_000))
    database = seen[0].instance
    assert shown == {
        "prepared_branches": {database: 2, "mysql": 0},
        "oldest_prepared_branch_seconds": {database: 10},
        "prepared_branch_xmin_age": {database: 900},
    }
