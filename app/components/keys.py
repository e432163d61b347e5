"""What the keys of static/keys.js do, in one line below each page."""

from __future__ import annotations

from app.components.markup import el, join

_DO = {"/": "search", "j": "next", "k": "previous", "Enter": "open", "c": "commit …", "a": "abort …"}
KEYS = el("p", join([el("kbd", key), f" {what} \u2003"] for key, what in _DO.items()), class_="keys")
"""``c`` and ``a`` open a dialog; no key gives an order."""
