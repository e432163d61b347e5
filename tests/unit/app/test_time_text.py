"""Times and amounts as a page says them."""

from __future__ import annotations

from datetime import UTC

import pytest

from indoubt.app.components.time_text import (
    amount,
    clock_time,
    duration,
    exact,
    exact_time,
    moment_ms,
    since,
    time_left,
    time_left_bar,
    zone_named,
)

BERLIN = zone_named("Europe/Berlin")
AT_MS = 1795254063250  # 2026-11-21 09:41:03.250 UTC


@pytest.mark.parametrize(
    ("length_ms", "said"),
    [
        (None, "–"),
        (0, "0 ms"),
        (340, "340 ms"),
        (1180, "1.2 s"),
        (9949, "9.9 s"),
        (9950, "9 s"),
        (41_999, "41 s"),
        (728_000, "12 min 08 s"),
        (3_600_000, "1 h 00 min"),
        (11_040_000, "3 h 04 min"),
        (97_200_000, "1 d 3 h"),
        (-2500, "-2.5 s"),
    ],
)
def test_a_length_of_time_is_said_in_its_two_largest_units(length_ms, said):
    assert duration(length_ms) == said


def test_absolute_times_name_their_zone():
    assert exact_time(AT_MS, UTC) == "2026-11-21 09:41:03.250 UTC"
    assert exact_time(AT_MS, zone_named("Europe/Berlin")) == "2026-11-21 10:41:03.250 CET"
    assert clock_time(AT_MS, UTC) == "09:41:03"
    assert exact_time(None) == clock_time(None) == "–"


@pytest.mark.parametrize("name", [None, "", "Nowhere/Land", "../../etc/passwd", "UTC"])
def test_a_zone_that_is_not_known_becomes_utc(name):
    assert zone_named(name) is UTC


def test_a_time_far_out_of_range_does_not_break_a_page():
    assert exact_time(10**18) == "1970-01-01 00:00:00.000 UTC"


@pytest.mark.parametrize(
    ("number", "said"), [(None, "–"), (0, "0"), (12402, "12,402"), (0.2, "0.2"), (48.0, "48"), (312.4, "312")]
)
def test_amounts(number, said):
    assert amount(number) == said


def test_the_markup_of_a_countdown_stays_the_same_while_it_ticks():
    first = time_left(AT_MS)
    assert first == time_left(AT_MS)
    assert f'data-until="{AT_MS}"' in first
    assert "until 09:41:03" in first


def test_a_timeout_that_is_not_known_is_a_dash_without_a_countdown():
    assert "data-until" not in time_left(None)
    assert "data-since" not in since(None)
    assert "data-bar" not in time_left_bar(None, AT_MS)


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-11-21 14:00", 1795266000000),
        ("2026-11-21T14:00:30.500", 1795266030500),
        ("2026-11-21 14:00 UTC", 1795269600000),
        ("2026-11-21T14:00+00:00", 1795269600000),
        ("2026-11-21", 1795215600000),
        ("14 o'clock", None),
        ("", None),
        ("0001-01-01", None),
    ],
)
def test_a_typed_moment_is_in_the_readers_zone_unless_it_names_one(text, at_ms):
    assert moment_ms(text, BERLIN) == at_ms


def test_a_time_in_a_table_is_one_piece():
    assert exact(AT_MS) == f'<time data-exact="{AT_MS}">2026-11-21 09:41:03.250 UTC</time>'
