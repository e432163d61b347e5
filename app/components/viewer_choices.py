"""What a viewer chooses for all pages: the zone of times, how many rows a page has, and whether the demo's tour is shown.

The address has the choice and wins, so a link shows everyone the same; else what this session was shown or told last counts,
else what this browser remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerChoice:
    """One choice; ``name``: in the address, ``cookie``: by which the browser remembers it."""

    name: str
    cookie: str

    def read(self, is_known: Callable[[str], bool]) -> str:
        """Return the choice that holds, empty where none is known; what an address asks for holds for the session."""
        asked = st.query_params.get(self.name, "")
        if is_known(asked):
            st.session_state[self._shown] = asked
            return asked
        kept = (str(st.session_state.get(self._shown, "")), self.remembered)
        return next(filter(is_known, kept), "")

    @property
    def remembered(self) -> str:
        """Return what the viewer chose last, here or on an earlier visit; a link that was opened is no choice."""
        return str(st.session_state.get(self._chosen) or st.context.cookies.get(self.cookie, ""))

    def choose(self, value: str, **also: str) -> None:
        """Keep a choice, in the address too; ``also``: what changes there with it, because each change is a step back."""
        st.session_state[self._chosen] = st.session_state[self._shown] = value
        st.query_params.update({self.name: value, **also})

    def remember(self, value: str) -> None:
        """Keep a choice that no address has."""
        st.session_state[self._chosen] = value

    @property
    def _shown(self) -> str:
        return f"{self.name}-shown"

    @property
    def _chosen(self) -> str:
        return f"{self.name}-chosen"


ZONE = ViewerChoice(name="zone", cookie="indoubt-zone")
ROWS = ViewerChoice(name="rows", cookie="indoubt-rows")
TOUR = ViewerChoice(name="tour", cookie="indoubt-tour")
TOUR_CLOSED, TOUR_OPEN = "closed", "open"
REMEMBERED = (ZONE, ROWS, TOUR)
