"""Times and amounts as a page says them: absolute with their zone, relative with a unit.

``ticking`` elements are counted on in the browser by clock.js; their first text is the absolute time, so that the markup
stays the same from one look to the next.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.markup import Html, el

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
NOTHING = "–"


def zone_named(name: str | None) -> tzinfo:
    """Return the zone of that name, or UTC when there is none of that name."""
    if not name or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def clock_time(at_ms: int | None, zone: tzinfo = UTC) -> str:
    """Return the time of day, ``10:41:03``."""
    return NOTHING if at_ms is None else f"{_moment(at_ms, zone):%H:%M:%S}"


def exact_time(at_ms: int | None, zone: tzinfo = UTC) -> str:
    """Return date, time to the millisecond and zone, ``2026-11-21 10:41:03.250 UTC``."""
    if at_ms is None:
        return NOTHING
    moment = _moment(at_ms, zone)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} {moment.tzname()}"


def _moment(at_ms: int, zone: tzinfo) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


def duration(length_ms: int | float | None) -> str:
    """Return a length of time in its two largest units: ``340 ms``, ``1.2 s``, ``41 s``, ``12 min 08 s``, ``3 h 04 min``."""
    if length_ms is None:
        return NOTHING
    if length_ms < 0:
        return "-" + duration(-length_ms)
    whole = int(length_ms)
    if whole < SECOND_MS:
        return f"{whole} ms"
    if whole < 9_950:
        return f"{length_ms / SECOND_MS:.1f} s"
    if whole < MINUTE_MS:
        return f"{whole // SECOND_MS} s"
    if whole < HOUR_MS:
        return f"{whole // MINUTE_MS} min {whole % MINUTE_MS // SECOND_MS:02d} s"
    if whole < DAY_MS:
        return f"{whole // HOUR_MS} h {whole % HOUR_MS // MINUTE_MS:02d} min"
    return f"{whole // DAY_MS} d {whole % DAY_MS // HOUR_MS} h"


def amount(number: int | float | None) -> str:
    """Return a number with its thousands apart, ``12,402``; a fraction below 10 keeps one digit."""
    if number is None:
        return NOTHING
    if isinstance(number, float) and not number.is_integer() and abs(number) < 10:
        return f"{number:.1f}"
    return f"{number:,.0f}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return ``1 transaction`` or ``4 transactions``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def since(at_ms: int | None, zone: tzinfo) -> Html:
    """Return a ticking length of time since ``at_ms``; the exact time is its hint."""
    if at_ms is None:
        return el("span", NOTHING)
    return el("time", f"since {clock_time(at_ms, zone)}", data_since=at_ms, title=exact_time(at_ms, zone))


def time_left(deadline_ms: int | None, zone: tzinfo) -> Html:
    """Return a ticking countdown to the broker's timeout, ``00:41``."""
    if deadline_ms is None:
        return el("span", NOTHING, title="the timeout is not known, or no longer runs")
    hint = f"the broker aborts it at {exact_time(deadline_ms, zone)}, by its next scan after that"
    return el("time", f"until {clock_time(deadline_ms, zone)}", class_="countdown", data_until=deadline_ms, title=hint)


def time_left_bar(opened_at_ms: int | None, deadline_ms: int | None) -> Html:
    """Return the share of the timeout that is left, drawn; it shrinks in the browser."""
    if opened_at_ms is None or deadline_ms is None:
        return el("span", class_="bar none")
    return el("span", el("i", data_bar_from=opened_at_ms, data_bar_until=deadline_ms), class_="bar", aria_hidden="true")
