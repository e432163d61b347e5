"""The addresses of single objects, as lifecycle.page_paths has them: each leads to the page that shows the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from app import live
from app.client.collector_client import CollectorError

Lead = Callable[[], tuple[str, dict[str, str]]]
"""Returns where the address leads: a page's path, and its query."""


def pages(shown: Mapping[str, st.Page]) -> list[st.Page]:
    """Return a page an address, in no navigation; ``shown``: the app's pages by their path."""
    leads: dict[str, Lead] = {
        "transaction": _transaction,
        "batch": _batch,
        "pipeline": _pipeline,
        "alert": _alert,
        "partition": _partition,
    }
    return [
        st.Page(partial(_go, lead, shown), title=name.capitalize(), url_path=name, visibility="hidden")
        for name, lead in leads.items()
    ]


def _go(lead: Lead, shown: Mapping[str, st.Page]) -> None:
    path, query = lead()
    st.switch_page(shown[path], query_params=query)


def _transaction() -> tuple[str, dict[str, str]]:
    return "transactions", {"open": st.query_params.get("key", "")}


def _batch() -> tuple[str, dict[str, str]]:
    return "transactions", {"show": "batches", "batch-pipeline": st.query_params.get("pipeline", "")}


def _pipeline() -> tuple[str, dict[str, str]]:
    name = st.query_params.get("name", "")
    try:
        is_ours = any(row.pipeline == name for row in live.collector().pipelines())
    except CollectorError:
        is_ours = True
    # Other applications have no supervisor: what they have open is what can be shown of them.
    return ("pipelines", {}) if is_ours else ("transactions", {"filter-words": name})


def _alert() -> tuple[str, dict[str, str]]:
    return "alerts", {}


def _partition() -> tuple[str, dict[str, str]]:
    return "readers", {}
