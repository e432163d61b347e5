"""Links and buttons in a live region: their markup, what a click on one asks for, and how it is read back.

A browser may send anything, so a click only names things; whoever handles it asks the collector for them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from indoubt.app.components import shown_cluster
from indoubt.app.components.markup import Html, el
from indoubt.app.components.verdict_signs import Tone
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import read_row, row_to_json

FILTER = "filter"
"""The subject of an order for everything that a filter means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPage:
    """Go to a page of the app; ``path`` as in lifecycle.page_paths."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOrder:
    """Open the dialog of an order for these transactions, or for one pipeline or batch."""

    action: Action
    subject: str
    """``transactions``, ``pipeline``, ``batch``, ``filter``."""
    keys: tuple[str, ...]
    """Of a filter, ``name=value`` each."""
    cluster: str = ""
    """Of which what is shown is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSilence:
    """Open the dialog that silences an alert, or with ``number`` the one that ends a silence."""

    alert: str = ""
    number: int | None = None
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowNew:
    """Write the table below once more, with the rows that came since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortBy:
    """Show a table in another order; ``name``: of its order in the address."""

    name: str
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseTime:
    """Show what is of a stretch of time alone, with the filters that the page has (epoch ms)."""

    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseZone:
    """Show times in the zone of this name."""

    name: str


Click = OpenPage | AskOrder | AskSilence | ShowNew | SortBy | ChooseTime | ChooseZone
_CLICKS: Mapping[str, type[Click]] = {kind.__name__: kind for kind in get_args(Click)}


def click_text(click: Click) -> str:
    """Return a click as the data-click of an element."""
    return json.dumps({type(click).__name__: row_to_json(click)})


def read_click(text: str) -> Click | None:
    """Return what a click asks for, or None where a browser sent something else."""
    try:
        ((name, said),) = json.loads(text).items()
        return read_row(_CLICKS[name], said)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def link(
    path: str, *children: object, class_: str | None = None, is_current: bool = False, is_opening: bool = False
) -> Html:
    """Return a link to a page: a click changes the page in place, and it can be opened in a new tab as any link.

    It leads to the cluster that is shown. ``is_current``: what it leads to is what is shown. ``is_opening``: Enter on the card
    or row around it follows it.
    """
    path = shown_cluster.within(path)
    return el(
        "a",
        *children,
        href=path,
        target="_self",
        class_=class_,
        aria_current="true" if is_current else None,
        data_opens="" if is_opening else None,
        data_click=click_text(OpenPage(path=path)),
    )


def chip(path: str, text: str, *, is_on: bool) -> Html:
    """Return a link that sets a filter, or takes out one that is set."""
    return link(path, text, class_="chip on" if is_on else "chip", is_current=is_on)


def order_button(
    word: str, action: Action, subject: str, keys: Sequence[str], *, is_main: bool = False, loses_data: bool = False
) -> Html:
    """Return the button that opens the dialog of an order, red where it ``loses_data``; it is off for who may not order."""
    asked = AskOrder(action=action, subject=subject, keys=tuple(keys), cluster=shown_cluster.name())
    tone = " destructive" if loses_data else " main" if is_main else ""
    return el(
        "button",
        f"{word} …",
        type="button",
        class_=f"press{tone}",
        data_order=action.value,
        data_click=click_text(asked),
    )


def card_with_buttons(tone: Tone, *children: object, buttons: Sequence[object]) -> Html:
    """Return a card that the keys of static/keys.js find (data-item), with its buttons at its end."""
    remedies = el("div", *buttons, class_="remedies")
    return el("article", *children, remedies, class_=f"card {tone.value}", data_item="", tabindex="-1")


def silence_button(word: str, *, alert: str = "", number: int | None = None) -> Html:
    """Return the button that opens a dialog about a silence."""
    asked = AskSilence(alert=alert, number=number, cluster=shown_cluster.name())
    return el("button", f"{word} …", type="button", class_="press", data_order="silence", data_click=click_text(asked))
