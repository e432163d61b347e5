"""A live region in a Streamlit page: it opens the WebSocket in the browser, and reports what is pressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st
import streamlit.components.v2 as components

STATIC = Path(__file__).parent.parent / "static"
Expect = Callable[[str, Mapping[str, str]], None]
_told: list[Expect] = []
_component = components.component(
    "indoubt_live",
    js="\n".join(
        (STATIC / name).read_text(encoding="utf-8") for name in ("vendor/idiomorph.min.js", "keys.js", "live.js")
    ),
    isolate_styles=False,
)


def tell_before_shown(expect: Expect) -> None:
    """Call ``expect`` with the name and the query of each region that a page writes, before the browser asks for it."""
    _told[:] = [expect]


def show(
    name: str,
    query: Mapping[str, str],
    *,
    pressed: Callable[[str], None],
    may_order: bool,
    may_silence: bool,
    why_not: str,
    zone: str,
    remember: Mapping[str, str],
) -> None:
    """Write the region ``name`` for this query; ``pressed`` is called with the text of a pressed element's data-press.

    It runs before the page is written again, as a widget's callback does. Elements with the attribute data-order are off unless
    ``may_order``, buttons about a silence unless ``may_silence``; ``why_not`` is the title of what is off. The browser keeps
    what is to ``remember`` in cookies of these names. ``zone``: of its times, by name.
    """
    key = f"live-{name}"
    for expect in _told:
        expect(name, query)

    def on_pressed() -> None:
        press: Any = getattr(st.session_state.get(key), "pressed", None)
        if isinstance(press, Mapping) and isinstance(press.get("press"), str):
            pressed(press["press"])

    _component(
        key=key,
        data={
            "path": f"live/{name}?{urlencode(sorted(query.items()))}",
            "mayOrder": may_order,
            "maySilence": may_silence,
            "whyNot": why_not,
            "zone": zone,
            "remember": dict(remember),
        },
        on_pressed_change=on_pressed,
    )
