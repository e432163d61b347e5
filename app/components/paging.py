"""Long lists a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import streamlit as st

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
