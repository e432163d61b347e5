"""Tables as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indoubt.app.components.markup import Html, el
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.time_text import NOTHING

SHORT = 16
"""Characters of a cell that is not broken into lines."""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    class_: str = "rows",
    sorting: Sorting[Any] | None = None,
) -> Html:
    """Return a table; every cell that is not markup is escaped. On a phone each row is a card.

    ``sorting``: the heads of some columns sort it, where there is more than one row.
    """
    is_sorted = sorting is not None and len(rows) > 1
    return el(
        "div",
        el(
            "table",
            el(
                "thead",
                el(
                    "tr",
                    *[sorting.head(name) if sorting and is_sorted else el("th", name, scope="col") for name in head],
                ),
            ),
            el(
                "tbody",
                *[el("tr", *[_cell(name, cell) for name, cell in zip(head, row, strict=True)]) for row in rows],
            ),
            class_=f"{class_} sortable" if is_sorted else class_,
        ),
        class_="scroll",
    )


def _cell(name: str, cell: object) -> Html:
    # A number and its unit stay in one line.
    is_absent = cell in ("", NOTHING, el("span", NOTHING))
    is_short = isinstance(cell, str) and not isinstance(cell, Html) and len(cell) <= SHORT
    return el("td", cell, data_name=name, class_="absent" if is_absent else "short" if is_short else None)
