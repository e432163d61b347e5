"""The demo's guided tour, one step at a time, until it is closed; a browser remembers that. The demo gives the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app import live
from app.components.markup import el
from app.components.viewer_choices import TOUR, TOUR_CLOSED, TOUR_OPEN

STEP = "tour_step"


def show(steps: Sequence[dict[str, Any]]) -> None:
    """Write the step at which this session is, with buttons to go on, back and to close; nothing where there are no steps."""
    if not steps:
        return
    if TOUR.remembered == TOUR_CLOSED:
        st.button("Show the tour", key="tour-open", on_click=_close, args=(False,), type="tertiary")
        return
    at = min(st.session_state.get(STEP, 0), len(steps) - 1)
    step = steps[at]
    with st.container(key="tour", border=True):
        live.write(
            el(
                "div",
                el("small", f"Tour · {at + 1} of {len(steps)}"),
                el("h4", str(step.get("title") or "")),
                el("p", str(step.get("text") or "")),
                class_="tour",
            )
        )
        with st.container(horizontal=True):
            st.button("Back", key="tour-back", disabled=at == 0, on_click=_go, args=(at - 1,))
            st.button("Next", key="tour-next", disabled=at == len(steps) - 1, on_click=_go, args=(at + 1,))
            st.button("Close", key="tour-close", on_click=_close, args=(True,), type="tertiary")


def _go(step: int) -> None:
    st.session_state[STEP] = step


def _close(closed: bool) -> None:
    TOUR.remember(TOUR_CLOSED if closed else TOUR_OPEN)
