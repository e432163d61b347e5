"""The sections of a page, one at a time; the address says which (``?show=batches``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

SHOW = "show"


def page(title: str, path: str, sections: Mapping[str, tuple[str, Callable[[], None]]]) -> st.Page:
    """Return a page of several sections: what stands in the address -> (title, what writes it); the first is the default."""
    return st.Page(partial(write, path, sections), title=title, url_path=path)


def in_address(*names: str) -> dict[str, str]:
    """Return what the page's address says under these names, as the query of a live region."""
    return {name: st.query_params[name] for name in names if name in st.query_params}


def write(path: str, sections: Mapping[str, tuple[str, Callable[[], None]]]) -> None:
    """Write the choice of a section, and the section that the address names."""
    first = next(iter(sections))
    key = f"{SHOW}-{path}"
    asked = st.query_params.get(SHOW, first)
    # The address says what is shown, also where a link to another section of this page was followed.
    st.session_state[key] = asked if asked in sections else first
    st.segmented_control(
        "Section",
        list(sections),
        required=True,
        format_func=lambda name: sections[name][0],
        key=key,
        label_visibility="collapsed",
        on_change=_choose,
        args=(key, first),
    )
    sections[st.session_state[key]][1]()


def _choose(key: str, first: str) -> None:
    # Another section has other filters: what the address says of this one is left behind.
    st.query_params.clear()
    if st.session_state[key] != first:
        st.query_params[SHOW] = st.session_state[key]
