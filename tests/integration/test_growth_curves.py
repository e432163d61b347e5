"""Each curve of benchmarks/growth runs at tiny sizes; what it measures is not judged."""

from __future__ import annotations

import json

import pytest

from benchmarks.growth.__main__ import CURVES, main

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.last]
SIZES = {
    "tasks": "1,2",
    "record_bytes": "100,1000",
    "handles": "1,3",
    "ids": "4,8",
    "partitions": "4,8",
    "groups": "2,4",
    "flink_jobs": "2,3",
    "history": "1000,2000",
}
COSTS_OF_A_SECOND = {"ids", "partitions", "groups", "flink_jobs"}
"""Curves of processor time: of so little for one second it may be none, and then there is no ratio."""


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_tells_each_size_and_ratio(curve: str, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--seconds", "1", "--facts", "2", "--megabytes", "4", "--json"]
    assert main(["--curve", curve, "--sizes", SIZES[curve], *quick]) == 0
    title, header, *rows, answer = capsys.readouterr().out.splitlines()
    assert (title, header.split()[0]) == (CURVES[curve].title, curve)
    points = json.loads(answer)["points"]
    assert [str(point[curve]) for point in points] == SIZES[curve].split(",")
    assert len(rows) >= len(points)
    if curve not in COSTS_OF_A_SECOND:
        assert any(" x " in row for row in rows)


def test_a_disk_too_small_is_refused_before_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--curve", "history", "--sizes", str(10**12)]) == 1
    assert "take smaller --sizes" in capsys.readouterr().err
