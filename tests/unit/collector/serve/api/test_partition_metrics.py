"""Metrics of what is held back, by whose transaction holds it: no id that a stranger chose becomes a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from indoubt.collector.serve.api import partition_metrics
from indoubt.collector.serve.api.application_metrics import PipelineLabels
from indoubt.collector.serve.api.partition_metrics import SeenPartitions
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from tests.unit.collector.observations import PREFIX, T0
from tests.unit.collector.partition_sightings import hanging, partition_findings
from tests.unit.collector.serve.api.served_api import Api

STREAMS = "shop-6c7e1f0a-91b4-4a55-8f0e-0123456789ab-1"
NOW_MS = T0 + 10_000


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    served = Api(tmp_path)
    yield served
    served.store.close()


def found(*ids: str) -> PartitionFindings:
    """Return one partition for each id, held back by it with 5 records hidden, and a transaction of it that hangs."""
    (held,) = [one for one in partition_findings().blocked if one.snapshot.hidden]
    assert held.holder is not None
    blocked = tuple(
        replace(
            held,
            snapshot=replace(held.snapshot, partition=("orders", number), since_ms=T0 + 1_000 * number),
            holder=replace(held.holder, transaction=id_),
        )
        for number, id_ in enumerate(ids)
    )
    hang = [hanging(partition=("orders", number), producer_id=900 + number) for number in range(len(ids))]
    named = [replace(one, doubt=replace(one.doubt, transaction=id_)) for one, id_ in zip(hang, ids, strict=True)]
    return PartitionFindings(at_ms=T0, blocked=blocked, hanging=tuple(named))


def told(seen: SeenPartitions, most: int = 10) -> dict[str, dict[str, float]]:
    """Return the values of each metric by its label; '' for one without."""
    return {
        family.name.removeprefix("indoubt_"): {
            sample.labels.get("pipeline", ""): sample.value for sample in family.samples
        }
        for family in partition_metrics.families(seen, NOW_MS, PipelineLabels(most))
    }


def test_what_is_held_back_is_told_in_all_and_by_pipeline(api: Api) -> None:
    ids = ("ip-count-0-1", STREAMS, STREAMS, "somebody-7", "")
    shown = told(partition_metrics.see(api.current, found(*ids)))
    assert shown["hidden_records"] == {"": 25}
    assert shown["pipeline_hidden_records"] == {PREFIX: 5, "shop": 10, "foreign": 10}
    assert shown["pipeline_held_partitions"] == {PREFIX: 1, "shop": 2, "foreign": 2}
    assert shown["pipeline_longest_held_seconds"] == {PREFIX: 10, "shop": 9, "foreign": 7}
    assert shown["longest_held_seconds"] == {"": 10}
    assert shown["hanging_transactions"] == {"": 5}
    assert shown["pipeline_hanging_transactions"] == {PREFIX: 1, "shop": 2, "foreign": 2}


def test_what_has_no_holder_or_hides_nothing_is_of_no_pipeline(api: Api) -> None:
    one, other = found(STREAMS, STREAMS).blocked
    quiet = replace(other, snapshot=replace(other.snapshot, high_watermark=other.snapshot.last_stable_offset))
    seen = PartitionFindings(at_ms=T0, blocked=(replace(one, holder=None), quiet), hanging=())
    shown = told(partition_metrics.see(api.current, seen))
    assert (shown["hidden_records"], shown["pipeline_hidden_records"]) == ({"": 5}, {})
    assert shown["held_partitions"] == {"": 1}


def test_nothing_held_is_zero_in_all(api: Api) -> None:
    shown = told(partition_metrics.see(api.current, NOTHING_SEEN))
    assert {name: values for name, values in shown.items() if not name.startswith("pipeline")} == {
        name: {"": 0}
        for name in (
            "hidden_records", "held_partitions", "blocked_partitions", "longest_held_seconds", "hanging_transactions",
        )
    }  # fmt: skip
