"""Long lists a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode

import streamlit as st

from app.components.markup import Html, el
from app.components.presses import link

Row = TypeVar("Row")


def page_of(rows: Sequence[Row], *, page_size: int, key: str) -> Sequence[Row]:
    """Return the chosen page of at most ``page_size`` rows; write the choice if there are several pages.

    The number of pages is part of the widget's key: when it changes, the choice starts again at the first page.
    """
    pages = -(-len(rows) // page_size)
    if pages <= 1:
        return rows
    number = st.pagination(pages, key=f"{key}-of-{pages}")
    return rows[(number - 1) * page_size : number * page_size]


PAGE = "page"
"""The part of an address that names the page of a long list in a live region."""


def page_in_address(rows: Sequence[Row], query: Mapping[str, str], *, page_size: int) -> tuple[Sequence[Row], int, int]:
    """Return the page that the address asks for, its number and how many there are; a number that is no page is the nearest one."""
    pages = max(1, -(-len(rows) // page_size))
    asked = query.get(PAGE, "")
    number = min(max(1, int(asked)), pages) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 1
    return rows[(number - 1) * page_size : number * page_size], number, pages


def page_links(path: str, query: Mapping[str, str], number: int, pages: int) -> Html | None:
    """Return links to the other pages of a list in a live region; None where there is one page only."""
    if pages <= 1:
        return None

    def to(word: str, page: int) -> Html:
        if not 1 <= page <= pages:
            return el("span", word, class_="page-none")
        return link(f"{path}?{urlencode({**query, PAGE: page})}", word)

    return el(
        "nav",
        to("‹ previous", number - 1),
        el("span", f"page {number:,} of {pages:,}"),
        to("next ›", number + 1),
        class_="pages",
        aria_label="Pages of this list",
    )
