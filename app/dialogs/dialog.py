"""What all dialogs have in common: the session keeps what is asked, and each run of the page shows it until it is put away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import streamlit as st

from indoubt.app.components import shown_cluster
from indoubt.app.components.markup import plain_label

Asked = TypeVar("Asked")


class Dialog(ABC, Generic[Asked]):
    """Its widgets' keys begin with ``key``. What is asked is replaced as a whole: a click on what it replaced does nothing."""

    key: ClassVar[str]

    @abstractmethod
    def title(self, asked: Asked) -> str:
        """Return what stands above it, as plain text."""

    @abstractmethod
    def body(self, asked: Asked) -> None:
        """Write what is in it."""

    def show_if_asked(self) -> None:
        """Show the dialog if it is open. Called once per run of the page, outside every fragment."""
        st.session_state.pop("show_dialog", None)
        asked = self.asked()
        if asked is not None:
            st.dialog(plain_label(self.title(asked)), on_dismiss=self.put_away)(self._write)()

    def open(self, asked: Asked) -> None:
        """Open the dialog; a part of the page that refreshes itself has the page written for it."""
        self.keep(asked)
        st.session_state["show_dialog"] = True

    def keep(self, asked: Asked) -> None:
        """Keep what is asked now in place of what was."""
        st.session_state[self._kept] = asked

    def asked(self) -> Asked | None:
        """Return what is asked; None: the dialog is closed."""
        asked: Asked | None = st.session_state.get(self._kept)
        return asked

    def put_away(self) -> None:
        """Close the dialog."""
        st.session_state.pop(self._kept, None)

    @property
    def _kept(self) -> str:
        # What is asked of one cluster is not there on the pages of another.
        return shown_cluster.key(f"{self.key}-asked")

    def _write(self) -> None:
        asked = self.asked()
        if asked is None:
            st.rerun()
        self.body(asked)
