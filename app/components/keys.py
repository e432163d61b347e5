"""What the keys of static/keys.js do, in one line below each page."""

from __future__ import annotations

from app.components.markup import el, join

_OF_ITEMS = {"j": "next", "k": "previous", "Enter": "open", "c": "commit …", "a": "abort …"}


def _named(key: str, what: str) -> list[object]:
    return [el("kbd", key), f" {what} \u2003"]


KEYS = el(
    "p",
    *_named("/", "search"),
    # static/live.js hides it on a page without cards and rows that have keys.
    el("span", join(_named(key, what) for key, what in _OF_ITEMS.items()), data_of_items=""),
    class_="keys",
)
"""``c`` and ``a`` open a dialog; no key gives an order."""
