"""The line of a list's tools: its search field, and a menu with rows a page, CSV and JSON at its right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import streamlit as st

from indoubt.app.components import downloads
from indoubt.app.components.paging import choose_rows


def show(name: str, rows: Callable[[], Sequence[Any]], *, page_size: int | None = None) -> None:
    """Write the menu; ``rows`` is called once a download is clicked. ``page_size``: by default, where the list has pages."""
    with st.popover("⋯", type="tertiary", key=f"menu-{name}"):
        if page_size is not None:
            choose_rows(page_size)
        downloads.offer(name, rows)


@contextlib.contextmanager
def line(name: str) -> Iterator[None]:
    """Write what stands in the block in one line; on a desk beside the choice of a section, where there is one."""
    with st.container(horizontal=True, vertical_alignment="center", key=f"tools-{name}"):
        yield
