"""Long lists a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode

import streamlit as st

from indoubt.app.components import viewer_choices
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el

Row = TypeVar("Row")


SIZES = (20, 50, 100, 500)
ROWS = viewer_choices.ROWS.name
"""The part of an address, and of a live region's query, that says how many rows a page has."""
PAGE = "page"
"""The part of an address that names the page of a long list."""
AFTER = "after"
"""The same of a list that the collector cuts into pages: what it said as ``next``."""
_CHOICE = "rows-a-page"


def rows_a_page(default: int) -> int:
    """Return how many rows a page has: as the address says, or as was chosen on whichever list, else as is usual here."""
    return int(viewer_choices.ROWS.read(_is_size) or default)


def _is_size(text: str) -> bool:
    return text in map(str, SIZES)


def choose_rows(default: int) -> None:
    """Write the choice of rows a page."""
    # The address says how many there are, also where a link was followed.
    st.session_state[_CHOICE] = rows_a_page(default)
    st.selectbox(
        "Rows a page",
        SIZES,
        key=_CHOICE,
        format_func=lambda size: f"{size} rows a page",
        on_change=_keep_rows,
        label_visibility="collapsed",
        width=170,
    )


def _keep_rows() -> None:
    viewer_choices.ROWS.choose(str(st.session_state[_CHOICE]), **back_to_first_page())


def first_page() -> None:
    """Take the page of a long list out of the address: another filter or order begins at its first page."""
    for name in (PAGE, AFTER):
        st.query_params.pop(name, None)


def back_to_first_page() -> dict[str, str]:
    """Return what goes into the address with a change after which a list begins at its first page: in one step with it.

    Each change of the address is a step back for the browser.
    """
    return {PAGE: "1"} if PAGE in st.query_params else {}


def address_beside(*names: str) -> list[tuple[str, str]]:
    """Return what the page's address says under other names than these."""
    return [(name, text) for name in st.query_params if name not in names for text in st.query_params.get_all(name)]


def number_in(text: str) -> int | None:
    """Return the number that an address has there; None: it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def after_in_address() -> str:
    """Return behind which row the page begins that the address asks for, as the collector says it; empty: the first page."""
    return st.query_params.get(AFTER, "")


def _older_and_newest(following: str | None, *, key: str) -> None:
    """Write the buttons that lead on in a list that the collector cuts into pages, and back to its first page.

    ``following``: what the collector said as ``next``. The address keeps it: rows that came since do not move the page.
    """
    st.button("Newest", key=f"{key}-newest", disabled=not after_in_address(), on_click=first_page)
    st.button("Older", key=f"{key}-older", disabled=following is None, on_click=_go_on, args=(following,))


def go_further(following: str | None, *, key: str) -> None:
    """Write these buttons in a line below a list, where there is anything before or behind it."""
    if following is not None or after_in_address():
        with st.container(horizontal=True, vertical_alignment="center"):
            _older_and_newest(following, key=key)


def _go_on(after: str) -> None:
    first_page()
    st.query_params[AFTER] = after


def size_of(query: Mapping[str, str], default: int) -> int:
    """Return how many rows a page of a live region has."""
    return next((size for size in SIZES if str(size) == query.get(ROWS)), default)


def page_of(rows: Sequence[Row], *, page_size: int) -> Sequence[Row]:
    """Return the chosen page of as many rows as were chosen, ``page_size`` by default.

    The address has the number of the page; filters above the list call ``first_page`` when they change.
    """
    return page_in_address(rows, st.query_params, page_size=rows_a_page(page_size))[0]


def choose_page(rows: Sequence[Row], *, page_size: int, key: str) -> None:
    """Write the choice of a page below the list, where there is more than one."""
    size = rows_a_page(page_size)
    _, number, pages = page_in_address(rows, st.query_params, page_size=size)
    if pages > 1:
        # As many pages as there are now: a widget of another number of pages would keep its own choice.
        widget = f"{key}-of-{pages}"
        st.session_state[widget] = number
        st.pagination(pages, key=widget, on_change=_keep_page, args=(widget, size))


def _keep_page(widget: str, rows: int) -> None:
    number = st.session_state[widget]
    if number > 1:
        # A page's number says which rows it has only with how many each page has.
        st.query_params.update({PAGE: str(number), ROWS: str(rows)})
    else:
        first_page()


def page_in_address(rows: Sequence[Row], query: Mapping[str, str], *, page_size: int) -> tuple[Sequence[Row], int, int]:
    """Return the page that the address asks for, its number and how many there are; a number that is no page is the nearest one."""
    pages = max(1, -(-len(rows) // page_size))
    number = min(max(1, number_in(query.get(PAGE, "")) or 1), pages)
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
