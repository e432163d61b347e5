"""A stretch of time that is chosen on a picture or typed: the address keeps it, and the tables beside ask for it alone."""

from __future__ import annotations

from datetime import tzinfo
from urllib.parse import urlencode

import streamlit as st

from indoubt.app.components.markup import el
from indoubt.app.components.paging import PAGE, address_beside, back_to_first_page, number_in
from indoubt.app.components.time_text import exact_time, moment_ms
from indoubt.lifecycle.clock import now_ms

FROM, UNTIL = "from", "until"
_FIRST, _LAST = "From", "Until"
Stretch = tuple[int, int]


def stretch() -> Stretch | None:
    """Return the chosen stretch of time (epoch ms), or None."""
    ends_ms = [number_in(st.query_params.get(name, "")) for name in (FROM, UNTIL)]
    known_ms = sorted(end_ms for end_ms in ends_ms if end_ms is not None)
    return (known_ms[0], known_ms[1]) if len(known_ms) == 2 else None


def asked() -> dict[str, str]:
    """Return the chosen stretch as the API's parameters, none where none is chosen."""
    chosen = stretch()
    return {} if chosen is None else {"since_ms": str(chosen[0]), "until_ms": str(chosen[1])}


def say(key: str, zone: tzinfo) -> None:
    """Write which stretch of time is chosen, the button that goes back to all, and a form that takes one by keyboard."""
    chosen = stretch()
    with st.container(horizontal=True, vertical_alignment="center"):
        if chosen is not None:
            text = f"only {exact_time(chosen[0], zone)} to {exact_time(chosen[1], zone)}"
            st.html(el("p", text, class_="how-many"))
            st.button("Whole time", key=f"{key}-whole", on_click=keep, args=(None,))
        with st.popover("Choose a time", key=f"{key}-typed"):
            _form(key, zone)


def _form(key: str, zone: tzinfo) -> None:
    with st.form(f"{key}-form", border=False):
        for end, hint in (_FIRST, "2026-11-21 14:00"), (_LAST, "now, or 2026-11-21 15:00"):
            st.text_input(end, key=f"{key}-{end}", placeholder=hint, width=230)
        if complaint := st.session_state.get(f"{key}-complaint"):
            st.html(el("p", complaint, class_="warn", role="alert"))
        st.form_submit_button("Show this time", key=f"{key}-show", on_click=_choose_typed, args=(key, zone))


def _choose_typed(key: str, zone: tzinfo) -> None:
    texts = [str(st.session_state.get(f"{key}-{end}") or "").strip() for end in (_FIRST, _LAST)]
    first_ms = moment_ms(texts[0], zone)
    last_ms = moment_ms(texts[1], zone) if texts[1] else now_ms()
    wrong = [end for end, at_ms in ((_FIRST, first_ms), (_LAST, last_ms)) if at_ms is None]
    complaint = f"{' and '.join(wrong)}: this takes a date and a time such as 2026-11-21 14:00." if wrong else ""
    st.session_state[f"{key}-complaint"] = complaint
    if first_ms is not None and last_ms is not None:
        keep((min(first_ms, last_ms), max(first_ms, last_ms)))


def address(path: str, first_ms: int, last_ms: int) -> str:
    """Return the address of a page that shows a stretch of time alone, with the filters that the page has now."""
    return f"{path}?{urlencode([*address_beside(FROM, UNTIL, PAGE), (FROM, first_ms), (UNTIL, last_ms)])}"


def keep(chosen: Stretch | None) -> None:
    """Put a stretch of time into the address, or take it out."""
    # The address is not written as a whole: the parts that widgets are bound to cannot be set here.
    if chosen is not None:
        st.query_params.update({FROM: str(chosen[0]), UNTIL: str(chosen[1])} | back_to_first_page())
        return
    for name in (FROM, UNTIL, PAGE):
        st.query_params.pop(name, None)
