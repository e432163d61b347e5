"""The API over time: what may be asked, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
    assert says in answer.json()["error"]["message"]


def test_checkpoint_gaps_are_a_table_by_pipeline(api: Api) -> None:
    (row,) = api.rows(f"checkpoints/gaps?pipeline={PREFIX}")
    assert (row["pipeline"], row["usual_ms"]) == (PREFIX, 10_000)
    (gap,) = row["gaps"]
    assert (gap["from_ms"], gap["ongoing"]) == (T0 + 900, True)
    assert gap["name"].startswith("no checkpoint for ")
    assert api.rows("checkpoints/gaps?pipeline=nobody") == []
