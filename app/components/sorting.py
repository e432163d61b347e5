"""In which order a table of history stands: its reader chooses it, and the address has the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import streamlit as st

from app.components.paging import first_page

Row = TypeVar("Row")
Key = Callable[[Row], float | str | None]
NEWEST = "newest first"


def in_chosen_order(
    rows: Sequence[Row], orders: Mapping[str, Key[Row]], *, key: str, default: str = NEWEST
) -> Sequence[Row]:
    """Write the choice where there is one, and return the rows in that order; ``default``: the order in which they came.

    ``orders``: what a person reads -> what is compared. Numbers are compared the greatest first, texts by the alphabet, and
    what is not known comes last.
    """
    if len(rows) < 2:
        return rows
    chosen = st.selectbox("Order", [default, *orders], key=key, label_visibility="collapsed", width=230,
                          bind="query-params", on_change=first_page)  # fmt: skip
    compared = orders.get(chosen)
    return rows if compared is None else sorted(rows, key=lambda row: _place(compared(row)))


def _place(value: float | str | None) -> tuple[bool, float, str]:
    if value is None:
        return True, 0.0, ""
    return (False, 0.0, value.casefold()) if isinstance(value, str) else (False, -value, "")
