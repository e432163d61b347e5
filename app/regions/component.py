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


def show(
    name: str,
    query: Mapping[str, str],
    *,
    on_click: Callable[[str], None],
    may_order: bool,
    may_silence: bool,
    why_not: str,
    zone: str,
    remember: Mapping[str, str],
    cluster: str = "",
) -> None:
    """Write the region ``name`` for this query; ``on_click`` is called with the data-click of a clicked element.

    It runs before the page is written again, as a widget's callback does. Elements with the attribute data-order are off unless
    ``may_order``, buttons about a silence unless ``may_silence``; ``why_not`` is the title of what is off. The browser keeps
    what is to ``remember`` in cookies of these names. ``zone``: of its times, by name. ``cluster``: the page's, for its address.
    """
    key = f"live-{name}"
    for prefetch in _prefetches:
        prefetch(name, query)

    def on_clicked() -> None:
        click: Any = getattr(st.session_state.get(key), "clicked", None)
        if isinstance(click, Mapping) and isinstance(click.get("click"), str):
            on_click(click["click"])

    _component(
        key=key,
        data={
            "path": f"live/{name}?{urlencode(sorted(query.items()))}",
            "mayOrder": may_order,
            "maySilence": may_silence,
            "whyNot": why_not,
            "zone": zone,
            "remember": dict(remember),
            "cluster": cluster,
        },
        on_clicked_change=on_clicked,
    )
