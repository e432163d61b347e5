"""What a page's address says: which of its sections is shown (``?show=batches``), and its filters.

The address is the only place where that is kept: a link to another section or filter of the same page changes it too.
Streamlit's own ``bind="query-params"`` refuses such links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from indoubt.app.components.paging import AFTER, PAGE

SHOW = "show"


def page(title: str, path: str, sections: Mapping[str, tuple[str, Callable[[], None]]]) -> st.Page:
    """Return a page of several sections: what stands in the address -> (title, what writes it); the first is the default."""
    return st.Page(partial(write, path, sections), title=title, url_path=path)


def in_address(*names: str) -> dict[str, str]:
    """Return what the page's address says under these names, as the query of a live region."""
    return {name: st.query_params[name] for name in names if name in st.query_params}


def search_field(name: str, placeholder: str) -> str:
    """Write a field whose text stands in the address under this name; return it without blanks around it."""
    key = f"{name}-field"
    st.session_state[key] = st.query_params.get(name, "")
    text = st.text_input(
        "Search",
        placeholder=placeholder,
        key=key,
        label_visibility="collapsed",
        on_change=_search,
        args=(name, key),
        width=360,
    )
    return text.strip()


def _search(name: str, key: str) -> None:
    text = st.session_state[key].strip()
    others = {other: value for other, value in st.query_params.to_dict().items() if other not in (name, PAGE, AFTER)}
    # In one step: each change of the address is a step back for the browser.
    st.query_params.from_dict(others | ({name: text} if text else {}))


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
    chosen = st.session_state[key]
    st.query_params.from_dict({SHOW: chosen} if chosen != first else {})
