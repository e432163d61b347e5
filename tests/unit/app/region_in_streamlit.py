"""Stands for the browser where Streamlit's test driver has none: a live region as markup, its links and buttons as buttons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html.parser import HTMLParser

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.markup import Html, el, join
from indoubt.app.screens.live_regions import REGIONS


class _Clickables(HTMLParser):
    """Collects the text and attributes of each element that carries data-click."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[tuple[str, dict[str, str | None], list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if "data-click" in dict(attrs):
            self._open.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        for _, _, texts in self._open:
            texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            _, attributes, texts = self._open.pop()
            self.found.append(("".join(texts), attributes))


def clickables(markup: Html) -> list[tuple[str, dict[str, str | None]]]:
    """Return what can be clicked in this markup, as (text, attributes)."""
    parser = _Clickables()
    parser.feed(markup)
    return parser.found


def write_without_buttons(name: str, query: Mapping[str, str] | None = None) -> Html:
    """Write a region's content as markup, or why there is none; return it."""
    try:
        markup = join(REGIONS[name](live.collector(), query or {}).values())
    except CollectorError as error:
        markup = el("p", str(error), class_="region-lost", role="alert")
    st.html(markup)
    return markup


def show(name: str, query: Mapping[str, str], viewer: Mapping[str, object], *, on_click: Callable[[str], None]) -> None:
    """Do what app.regions.component.show does, once per run of the page."""
    for number, (text, attributes) in enumerate(clickables(write_without_buttons(name, query))):
        may_click = viewer["maySilence" if attributes.get("data-order") == "silence" else "mayOrder"]
        is_off = "data-order" in attributes and not may_click
        st.button(
            text,
            key=f"click-{name}-{number}",
            disabled=is_off,
            help=str(viewer["whyNot"]) if is_off else None,
            on_click=on_click,
            args=(attributes["data-click"],),
        )
