"""Lengths of time as text."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.durations import steady_duration


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [
        (0, "0 s"),
        (9_999, "9 s"),
        (10_000, "10 s"),
        (59_999, "50 s"),
        (60_000, "1 min"),
        (119_999, "1 min"),
        (3_599_999, "59 min"),
        (3_660_000, "1 h 01 min"),
    ],
)
def test_a_steady_duration_seldom_changes(length_ms: int, text: str) -> None:
    assert steady_duration(length_ms) == text
