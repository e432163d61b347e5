"""Tables as markup."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import groupby
from typing import Any

from indoubt.app.components.markup import Html, el
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.time_text import NOTHING, clock_time, day_of, exact_time

SHORT = 16
"""Characters of a cell that is not broken into lines."""
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Moment:
    """A cell that is a time (epoch ms): of the day where a line above names the day, else with its date."""

    at_ms: int | None


def table(
    head: Sequence[str],
    rows: Sequence[Row],
    class_: str = "rows",
    sorting: Sorting[Any] | None = None,
    *,
    zone: tzinfo = UTC,
    narrow: Sequence[str] = (),
    may_drop: Collection[str] = (),
) -> Html:
    """Return a table; every cell that is not markup is escaped. Rows in the order of their first time are grouped by its day.

    ``sorting``: the heads of some columns sort it, where there is more than one row. ``narrow``: the columns that a phone shows,
    each row one line, of which the first takes the room that is left; without them each row is a card there. ``may_drop``: columns
    that are left out where all rows have the same in them.
    """
    kept = [at for at, name in enumerate(head) if not (name in may_drop and _is_same([row[at] for row in rows]))]
    head, rows = [head[at] for at in kept], [[row[at] for at in kept] for row in rows]
    is_sorted = sorting is not None and len(rows) > 1
    days = [day_of(_first_moment(row), zone) for row in rows]
    runs = [
        (day, [row for _, row in run]) for day, run in groupby(zip(days, rows, strict=True), key=lambda pair: pair[0])
    ]
    is_grouped = len(runs) == len(set(days)) and NOTHING not in days
    body = [
        [
            is_grouped and _day(day, len(head)),
            *[_row(head, row, zone, narrow, day if is_grouped else "") for row in run],
        ]
        for day, run in runs
    ]
    kinds = [class_, "sortable" if is_sorted else "", "one-line" if narrow else ""]
    return el(
        "div",
        el(
            "table",
            el("thead", el("tr", *[_head(name, narrow, sorting if is_sorted else None) for name in head])),
            el("tbody", *body),
            class_=" ".join(kind for kind in kinds if kind),
        ),
        class_="scroll",
    )


def _head(name: str, narrow: Sequence[str], sorting: Sorting[Any] | None) -> Html:
    width = _width(name, narrow)
    return sorting.head(name, width) if sorting is not None else el("th", name, scope="col", class_=width)


def _is_same(cells: Sequence[object]) -> bool:
    return len(cells) > 1 and all(cell == cells[0] for cell in cells)


def _first_moment(row: Row) -> int | None:
    return next((cell.at_ms for cell in row if isinstance(cell, Moment)), None)


def _day(day: str, columns: int) -> Html:
    return el("tr", el("th", day, colspan=columns, scope="rowgroup"), class_="day")


def _row(head: Sequence[str], row: Row, zone: tzinfo, narrow: Sequence[str], day: str) -> Html:
    cells = zip(head, row, strict=True)
    return el("tr", *[_cell(name, _written(cell, zone, day), _width(name, narrow)) for name, cell in cells])


def _written(cell: object, zone: tzinfo, day: str) -> object:
    if not isinstance(cell, Moment):
        return cell
    if cell.at_ms is None:
        return NOTHING
    of_day = clock_time(cell.at_ms, zone)
    is_of_day = day_of(cell.at_ms, zone) == day
    return el(
        "time", of_day if is_of_day else f"{day_of(cell.at_ms, zone)[:10]} {of_day}", title=exact_time(cell.at_ms, zone)
    )


def _width(name: str, narrow: Sequence[str]) -> str | None:
    """Return the class of a column that a phone does not show, or that takes the room which is left there."""
    if not narrow or name in narrow[1:]:
        return None
    return "grows" if name == narrow[0] else "wide"


def _cell(name: str, cell: object, width: str | None) -> Html:
    # A number and its unit stay in one line.
    is_absent = cell in ("", NOTHING, el("span", NOTHING))
    is_short = isinstance(cell, str) and not isinstance(cell, Html) and len(cell) <= SHORT
    kinds = [width, "absent" if is_absent else "short" if is_short else None]
    return el("td", cell, data_name=name, class_=" ".join(filter(None, kinds)) or None)
