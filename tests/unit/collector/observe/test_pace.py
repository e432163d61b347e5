"""Very many sources are asked so seldom that all of them together take a share of a core; a few as often as they are to."""

from __future__ import annotations

import pytest

from indoubt.collector.observe.pace import Pace


def test_few_are_asked_as_often_as_they_are_to_be() -> None:
    pace = Pace(share=0.25, cost_s=0.005, observers=50)
    assert pace.rest_s(2.0) == 2.0
    assert 0.0 <= pace.begin_s() <= 1.0


def test_many_rest_until_all_together_take_the_share() -> None:
    pace = Pace(share=0.25, cost_s=0.005, observers=1_000)
    assert pace.rest_s(2.0) == pytest.approx(20.0)
    for _ in range(500):
        pace.spent(0.010)
    assert pace.rest_s(2.0) == pytest.approx(40.0, rel=0.01), "polls became dearer"
    assert len({round(pace.begin_s()) for _ in range(100)}) > 10, "not all begin at once"
