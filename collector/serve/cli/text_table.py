"""Rows as text for a terminal: aligned columns, times as local times, nothing cut off that may be copied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.visible_text import visible

MAX_TEXT = 100
_DURATIONS = frozenset(
    f"{name}_ms"
    for name in (
        "duration",
        "open",
        "delay",
        "timeout",
        "interval",
        "took",
        "waited",
        "left",
        "recovery",
        "p99",
        "longest",
    )
)
_WHOLE = frozenset({"key", "keys", "holder_key", "advice"})
"""Never cut: what may be copied, and what says what to set."""


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows under a line of names; columns that no row has are left out, all are shown where none of them is there."""
    if not rows:
        return ""
    shown = [name for name in columns if any(name in row for row in rows)] or list(rows[0])
    titles = [_title(name) for name in shown]
    cells = [[cell(name, row.get(name)) for name in shown] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    return "\n".join(_line(line, widths) for line in [titles, *cells])


def cell(name: str, value: Any) -> str:
    """Return one value: times as local date and time, durations with their unit, long texts cut, but for keys."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith("_ms"):
            return duration(value) if name in _DURATIONS else _time(value)
        case {"kind": _, "name": str(of), **_rest} if name == "application":
            text = of
        case list() | dict():
            text = ", ".join(map(str, value)) if isinstance(value, list) else json.dumps(value)
        case _:
            text = str(value)
    # What came from outside stays on its line and moves no cursor, and can be copied.
    text = visible(text)
    return text if name in _WHOLE or len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def lines(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield ``name: value`` of everything in an object that is neither list nor object."""
    for name, field in value.items():
        if not isinstance(field, list | dict):
            yield f"{_title(name)}: {cell(name, field)}"


def _title(name: str) -> str:
    return name.removesuffix("_at_ms").removesuffix("_ms").replace("_", " ")


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)).rstrip()
