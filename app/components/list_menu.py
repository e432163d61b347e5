"""The line of a list's tools: its search field, and a menu at its right with rows a page, and with its rows as CSV and JSON."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import streamlit as st

from indoubt.app.components.paging import choose_rows
from indoubt.app.components.time_text import exact_time
from indoubt.lifecycle.page_paths import CLUSTER_COLUMN
from indoubt.lifecycle.rows.row_json import row_to_json

_TIMES = ("at_ms", "since_ms", "deadline_ms")
"""How the names of times end; what else is in ms is a length."""


def show(name: str, rows: Callable[[], Sequence[Any]], *, page_size: int | None = None) -> None:
    """Write the menu; ``rows`` is called once a download is clicked. ``page_size``: by default, where the list has pages."""
    with st.popover("⋯", type="tertiary", key=f"menu-{name}"):
        if page_size is not None:
            choose_rows(page_size)
        _offer_downloads(name, rows)


@contextlib.contextmanager
def line(name: str) -> Iterator[None]:
    """Write what stands in the block in one line; on a desk beside the choice of a section, where there is one."""
    with st.container(horizontal=True, vertical_alignment="center", key=f"tools-{name}"):
        yield


def _offer_downloads(name: str, rows: Callable[[], Sequence[Any]]) -> None:
    """Write the two buttons; ``rows`` is called once one is clicked. Files and keys begin with ``name``."""
    cluster: str = st.session_state.get("cluster_name", "")
    with st.container(horizontal=True, key=f"{name}-downloads", width="content"):
        st.download_button(
            "CSV", lambda: csv_text(rows(), cluster), f"{name}.csv", "text/csv", key=f"{name}-csv", on_click="ignore"
        )
        st.download_button(
            "JSON",
            lambda: json.dumps(_of_cluster(rows(), cluster), indent=1),
            f"{name}.json",
            "application/json",
            key=f"{name}-json",
            on_click="ignore",
        )


def csv_text(rows: Sequence[Any], cluster: str) -> str:
    """Return rows with every column, and each time in UTC behind its epoch ms: ``opened_at`` behind ``opened_at_ms``.

    ``cluster``, where it has a name, is the first column.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    text = io.StringIO()
    values = [_with_times(row) for row in _of_cluster(rows, cluster)]
    writer = csv.DictWriter(text, list(values[0]) if values else ["key"])
    writer.writeheader()
    for row in values:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def _of_cluster(rows: Sequence[Any], cluster: str) -> list[dict[str, Any]]:
    """Return rows as the API answers them."""
    named = {CLUSTER_COLUMN: cluster} if cluster else {}
    return [{**named, **row} for row in row_to_json(rows)]


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        found[name] = value
        if name.endswith(_TIMES):
            found[name.removesuffix("_ms")] = exact_time(value) if value is not None else None
    return found


def _cell(value: object) -> object:
    if isinstance(value, list | dict):
        is_text = isinstance(value, list) and all(isinstance(item, str) for item in value)
        value = " ".join(value) if is_text else json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
