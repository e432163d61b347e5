"""The arithmetic behind every published figure."""

from __future__ import annotations

import pytest

from benchmarks.figures import Mark, median_ratio, percentile, slope, steady_rate, whole_rate


def marks(*points: tuple[float, int]) -> list[Mark]:
    return [Mark(at_s=at_s, records=records) for at_s, records in points]


def test_steady_rate_leaves_out_a_slow_start_and_a_late_end():
    # 10 s of warming up, then 100 records/s, then a wait of 50 s for the last commit.
    seen = marks((10.0, 200), (12.0, 400), (14.0, 600), (16.0, 800), (68.0, 1000))
    assert steady_rate(seen) == pytest.approx(100.0)
    assert whole_rate(0.0, seen) == pytest.approx(1000 / 68)


def test_steady_rate_holds_whole_batches_only():
    # The window of 150 to 900 records begins and ends inside batches: it is cut to the batch ends in it.
    seen = marks((1.0, 140), (3.0, 280), (5.0, 560), (7.0, 880), (9.0, 1000))
    assert steady_rate(seen) == pytest.approx((880 - 280) / (7.0 - 3.0))


@pytest.mark.parametrize("seen", [marks((1.0, 1000)), marks((1.0, 500), (2.0, 1000)), marks((1.0, 100), (2.0, 1000))])
def test_too_few_moments_give_no_rate(seen):
    with pytest.raises(ValueError, match="take more --records"):
        steady_rate(seen)


def test_percentile_is_a_value_that_was_measured():
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_ratio_compares_round_by_round():
    # A slow machine in the second round slows both sides: the ratio does not see it.
    assert median_ratio([100.0, 50.0, 100.0], [200.0, 100.0, 200.0]) == 0.5
    with pytest.raises(ValueError, match="zip"):
        median_ratio([1.0], [1.0, 2.0])


def test_slope_is_the_cost_of_one_more():
    assert slope([(1, 10.5), (4, 12.0), (16, 18.0), (64, 42.0)]) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="two different x"):
        slope([(4, 1.0), (4, 2.0)])
