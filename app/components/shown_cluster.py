"""Which cluster is shown: what the page's address says, or of which the region is that is rendered; empty where there is one alone.

All that leads from a page to its collector rests on it: links, buttons, dialogs, orders.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from indoubt.lifecycle import page_paths

_rendered: ContextVar[str | None] = ContextVar("rendered", default=None)
_WRITTEN = "cluster-written"


def name() -> str:
    """Return the name of the cluster that is shown here."""
    of_region = _rendered.get()
    if of_region is not None:
        return of_region
    if get_script_run_ctx(suppress_warning=True) is None:
        return ""
    return st.query_params.get(page_paths.CLUSTER, "") or written()


def written() -> str:
    """Return of which cluster this session's page is, as it was written last. Streamlit's own links name none: it stays."""
    return str(st.session_state.get(_WRITTEN, ""))


def begin_page(cluster: str) -> None:
    """Keep of which cluster the page is that is written from here on."""
    st.session_state[_WRITTEN] = cluster


@contextlib.contextmanager
def rendering(cluster: str) -> Iterator[None]:
    """Render what is of this cluster in the block."""
    before = _rendered.set(cluster)
    try:
        yield
    finally:
        _rendered.reset(before)


def within(path: str) -> str:
    """Return the address of a page of the cluster that is shown."""
    return page_paths.within(path, name())


def key(of: str) -> str:
    """Return the key under which a session keeps something of the cluster that is shown."""
    cluster = name()
    return f"{of}-{cluster}" if cluster else of
