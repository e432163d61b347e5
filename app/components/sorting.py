"""In which order a table of history stands: its reader clicks a column's head, and the address has the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

import streamlit as st

from indoubt.app.components import shown_cluster
from indoubt.app.components.links_and_buttons import SortBy, click_text
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import AFTER, PAGE, address_beside, back_to_first_page

Row = TypeVar("Row")
Key = Callable[[Row], float | str | None]
SUFFIX = "-sort"
"""How the name of each table's order ends in an address."""
REVERSED = "-"
"""What stands before the head of a column in an address whose order is reversed."""
MOST_LETTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting(Generic[Row]):
    """The orders of a table. ``keys``: the head of a column -> what is compared, ``name``: in the address, ends with SUFFIX.

    Numbers are compared the greatest first, texts by the alphabet, and what is not known comes last. ``default``: the column
    in whose order the rows come, from its greatest value on.
    """

    name: str
    default: str
    keys: Mapping[str, Key[Row]]
    texts: frozenset[str] = frozenset()
    """The columns of texts."""

    def ordered(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows in the order that the address asks for."""
        column, is_reversed = self._asked()
        if column == self.default:
            return list(reversed(rows)) if is_reversed else rows
        compared = self.keys[column]
        known = sorted((row for row in rows if compared(row) is not None), key=lambda row: _place(compared(row)))
        unknown = [row for row in rows if compared(row) is None]
        return [*(reversed(known) if is_reversed else known), *unknown]

    def head(self, column: str, class_: str | None = None) -> Html:
        """Return the head of a column: a link that sorts by it, or turns the order round where the table stands in it."""
        if column != self.default and column not in self.keys:
            return el("th", column, scope="col", class_=class_)
        chosen, is_reversed = self._asked()
        is_chosen = column == chosen
        rises = (column in self.texts) is not is_reversed
        wanted = f"{REVERSED}{column}" if is_chosen and not is_reversed else column
        sign = el("span", " ▲" if rises else " ▼", aria_hidden="true") if is_chosen else None
        to_it = el(
            "a",
            column,
            sign,
            href=shown_cluster.within(f"?{urlencode([*address_beside(self.name, PAGE, AFTER), (self.name, wanted)])}"),
            target="_self",
            class_="sort",
            data_click=click_text(SortBy(name=self.name, wanted=wanted)),
        )
        stands = ("ascending" if rises else "descending") if is_chosen else "none"
        return el("th", to_it, scope="col", aria_sort=stands, class_=class_)

    def _asked(self) -> tuple[str, bool]:
        """Return the column by which the table is sorted, and whether the other way round."""
        asked = st.query_params.get(self.name, "")
        column = asked.removeprefix(REVERSED)
        if column != self.default and column not in self.keys:
            return self.default, False
        return column, asked.startswith(REVERSED)


def keep(name: str, wanted: str) -> None:
    """Put the order of a table into the address, from its first page on; another part of the address is left as it is."""
    if name.endswith(SUFFIX) and max(len(name), len(wanted)) <= MOST_LETTERS:
        st.query_params.update({name: wanted} | back_to_first_page())


def _place(value: float | str | None) -> tuple[float, str]:
    return (0.0, value.casefold()) if isinstance(value, str) else (-(value or 0.0), "")
