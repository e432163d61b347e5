"""Long lists a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import streamlit as st

Row = TypeVar("Row")


def page_of(rows: Sequence[Row], *, most: int, key: str) -> Sequence[Row]:
    """Return the chosen page of at most ``most`` rows; write the choice if there are several pages.

    The number of pages is part of the widget's key: when it changes, the choice starts again at the first page.
    """
    pages = -(-len(rows) // most)
    if pages <= 1:
        return rows
    number = st.pagination(pages, key=f"{key}-of-{pages}")
    return rows[(number - 1) * most : number * most]
