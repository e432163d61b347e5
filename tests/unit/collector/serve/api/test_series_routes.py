"""The API over time: what may be asked, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.lifecycle.rows.groups import PartitionSeries
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.series import Series
from tests.unit.collector.observations import PREFIX, T0
from tests.unit.collector.serve.api.served_api import VIEWER, Api

pytestmark = pytest.mark.slow


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    made.store.flushed()
    yield made
    made.store.close()


def series(api: Api, query: str) -> Series:
    answer = api.client.get(f"/api/v1/series?{query}", headers=VIEWER)
    assert answer.status_code == 200, answer.text
    return read_row(Series, answer.json())


def test_series_are_of_all_applications_or_of_one(api: Api) -> None:
    then = f"until_ms={T0 + 120_000}"
    everything = series(api, then)
    assert [one.pipeline for one in everything.applications] == [PREFIX, "gone"]
    assert sum(value or 0 for value in everything.applications[1].aborts) == 1
    assert [one.pipeline for one in series(api, f"{then}&pipeline=gone").applications] == ["gone"]
    first = series(api, f"{then}&limit=1")
    assert ([one.pipeline for one in first.applications], first.more) == ([PREFIX], 1)
    assert series(api, f"{then}&pipeline=nobody").applications == ()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("window_ms=5", "window_ms"),
        ("until_ms=1", "30 days"),
        ("until_ms=-1", "until_ms"),
        ("limit=0", "limit"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_reason(api: Api, query: str, says: str) -> None:
    answer = api.client.get(f"/api/v1/series?{query}", headers=VIEWER)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


def test_checkpoint_gaps_are_a_table_by_pipeline(api: Api) -> None:
    (row,) = api.rows(f"checkpoints/gaps?pipeline={PREFIX}")
    assert (row["pipeline"], row["usual_ms"]) == (PREFIX, 10_000)
    (gap,) = row["gaps"]
    assert (gap["from_ms"], gap["ongoing"]) == (T0 + 900, True)
    assert gap["name"].startswith("no checkpoint for ")
    assert api.rows("checkpoints/gaps?pipeline=nobody") == []


def test_durations_of_checkpoints_are_a_table_by_pipeline(api: Api) -> None:
    (row,) = api.rows(f"checkpoints/durations?pipeline={PREFIX}&since_ms={T0}&until_ms={T0 + 59_999}")
    assert (row["pipeline"], row["from_ms"], row["bucket_ms"]) == (PREFIX, T0, 1_000)
    assert sum(row["bucket_completed"]) == row["completed"] > 0
    assert api.rows("checkpoints/durations?pipeline=nobody") == []
    answer = api.client.get("/api/v1/checkpoints/durations?since_ms=2&until_ms=1", headers=VIEWER)
    assert (answer.status_code, "since_ms" in answer.json()["detail"]) == (422, True)


def test_groups_are_listed_with_what_they_have_not_read(api: Api) -> None:
    (row,) = api.rows("groups")
    assert (row["group"], row["kind"], row["hidden"], row["partitions"]) == ("readers", "waiting", 5, 2)
    found = api.client.get("/api/v1/series/groups?window_ms=900000", headers=VIEWER).json()
    assert (found["bucket_ms"], found["groups"], len(found["observed"])) == (10_000, [], 90)
    assert api.client.get("/api/v1/series/groups?window_ms=5", headers=VIEWER).status_code == 422


def test_a_partition_has_a_series_also_where_nothing_is_known_of_it(api: Api) -> None:
    found = read_row(PartitionSeries, api.client.get("/api/v1/series/partitions/orders/3", headers=VIEWER).json())
    assert (found.topic, found.partition, set(found.high_watermark)) == ("orders", 3, {None})
    assert api.client.get("/api/v1/series/partitions/orders/-1", headers=VIEWER).status_code == 422
