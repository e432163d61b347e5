"""A live region in a Streamlit page: it opens the WebSocket in the browser, and reports what is clicked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st
import streamlit.components.v2 as components

STATIC = Path(__file__).parent.parent / "static"
Prefetch = Callable[[str, Mapping[str, str]], None]
_prefetches: list[Prefetch] = []
_component = components.component(
    "indoubt_live",
    js="\n".join(
        (STATIC / name).read_text(encoding="utf-8")
        for name in ("vendor/idiomorph.min.js", "palette.js", "keys.js", "dialogs.js", "live.js")
    ),
    isolate_styles=False,
)


def tell_before_shown(prefetch: Prefetch) -> None:
    """Call ``prefetch`` with the name and the query of each region that a page writes, before the browser asks for it."""
    _prefetches[:] = [prefetch]


def show(name: str, query: Mapping[str, str], viewer: Mapping[str, object], *, on_click: Callable[[str], None]) -> None:
    """Write the region ``name`` for this query; ``on_click`` is called with the data-click of a clicked element.

    It runs before the page is written again, as a widget's callback does. ``viewer``: what static/live.js is told of who looks.
    """
    key = f"live-{name}"
    for prefetch in _prefetches:
        prefetch(name, query)

    def on_clicked() -> None:
        click: Any = getattr(st.session_state.get(key), "clicked", None)
        if isinstance(click, Mapping) and isinstance(click.get("click"), str):
            on_click(click["click"])

    path = f"live/{name}?{urlencode(sorted(query.items()))}"
    _component(key=key, data={"path": path, **viewer}, on_clicked_change=on_clicked)
