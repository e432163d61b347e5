"""Times and amounts as a page shows them: absolute with their zone, relative with a unit.

live.js updates relative times in the browser. Their first text is the absolute time, so the markup stays the same from
one refresh to the next.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from indoubt.app.components.markup import Html, el
from indoubt.lifecycle import durations
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER

NOTHING = "–"
UTC_NAME = "UTC"


def zone_named(name: str | None) -> tzinfo:
    """Return the zone of that name, or UTC if there is none."""
    return _zone(name) or UTC


def is_zone(name: str) -> bool:
    """Say whether there is a zone of that name."""
    return _zone(name) is not None


def _zone(name: str | None) -> tzinfo | None:
    if name == UTC_NAME:
        return UTC
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # An address names any: a folder of the system's zones is an OSError.
        return None


def moment_ms(text: str, zone: tzinfo) -> int | None:
    """Return epoch ms of a date and time like ``2026-11-21 14:00``, in this zone unless it names one, or None."""
    try:
        moment = datetime.fromisoformat(text.removesuffix(" UTC"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC if text.endswith(" UTC") else zone)
        at_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return at_ms if 0 <= at_ms <= MAX_WHOLE_NUMBER else None


def clock_time(at_ms: int | None, zone: tzinfo = UTC) -> str:
    """Return the time of day, ``10:41:03``."""
    return NOTHING if at_ms is None else f"{_moment(at_ms, zone):%H:%M:%S}"


def day_of(at_ms: int | None, zone: tzinfo = UTC) -> str:
    """Return the day and the zone, ``2026-11-21 UTC``."""
    if at_ms is None:
        return NOTHING
    moment = _moment(at_ms, zone)
    return f"{moment:%Y-%m-%d} {moment.tzname()}"


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


def at(at_ms: int | None) -> Html:
    """Return the time of day as an element that the browser writes in the reader's zone, with the date as its hint."""
    return el("span", NOTHING) if at_ms is None else el("time", exact_time(at_ms), data_at=at_ms)


def duration(length_ms: int | float | None) -> str:
    """Return a length of time in its two largest units, ``12 min 08 s``."""
    return NOTHING if length_ms is None else durations.duration(length_ms)


def amount(number: int | float | None) -> str:
    """Return a number with thousands separators, ``12,402``; a fraction below 10 keeps one digit."""
    if number is None:
        return NOTHING
    if isinstance(number, float) and not number.is_integer() and abs(number) < 10:
        return f"{number:.1f}"
    return f"{number:,.0f}"


def since(at_ms: int | None) -> Html:
    """Return the time since ``at_ms``, which the browser updates; the exact time is its hint."""
    if at_ms is None:
        return el("span", NOTHING)
    return el("time", f"since {clock_time(at_ms)}", data_since=at_ms, title=exact_time(at_ms))


def exact(at_ms: int | None) -> Html:
    """Return date and time to the millisecond, which the browser writes in the reader's zone."""
    return el("span", NOTHING) if at_ms is None else el("time", exact_time(at_ms), data_exact=at_ms)


def ago(at_ms: int | None) -> Html:
    """Return how long ago it was, ``12 s ago``, which the browser updates; the exact time is its hint."""
    if at_ms is None:
        return el("span", NOTHING)
    return el("time", f"at {clock_time(at_ms)}", data_ago=at_ms, title=exact_time(at_ms))


def time_left(deadline_ms: int | None) -> Html:
    """Return a countdown to the broker's timeout, ``00:41``, which the browser updates."""
    if deadline_ms is None:
        return el("span", NOTHING, title="no timeout runs, or none is known")
    hint = f"it times out at {exact_time(deadline_ms)}; the broker aborts it within seconds"
    return el("time", f"until {clock_time(deadline_ms)}", class_="countdown", data_until=deadline_ms, title=hint)


def time_left_bar(opened_at_ms: int | None, deadline_ms: int | None) -> Html:
    """Return a bar of the share of the timeout that is left; it shrinks in the browser."""
    if opened_at_ms is None or deadline_ms is None:
        return el("span", class_="bar none")
    return el("span", el("i", data_bar_from=opened_at_ms, data_bar_until=deadline_ms), class_="bar", aria_hidden="true")
