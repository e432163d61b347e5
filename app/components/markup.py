"""HTML without injection: every child and attribute is escaped unless this module built it.

Transactional ids, topics and reasons come from outside and may contain anything; a page shows them as text.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable

from indoubt.lifecycle.visible_text import visible


class Html(str):
    """Text that is already markup: only ``el`` and ``join`` make it."""

    __slots__ = ()


Child = object
_VOID = frozenset({"br", "hr", "meta"})
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&\"'^=@/])")


def el(name: str, *children: Child, **attributes: object) -> Html:
    """Return one element. None and False children and attributes are left out; ``class_`` is class, ``a_b`` is a-b."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(visible(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Return the children in one piece: Html as it is, lists one after the other, all else escaped."""
    return Html("".join(_escaped(child) for child in children))


def _escaped(child: Child) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, list | tuple):
        return join(child)
    return str(child) if isinstance(child, Html) else html.escape(visible(child))


def compared(text: object, part: int, most: int, level: str | None) -> Html:
    """Return a number in words, with a bar that compares it with the largest of its kind; ``level``: its colour (style.css)."""
    width = 100 * part / most if most else 0
    bar = el("span", el("i", data_level=level, style=f"width:{width:.0f}%"), class_="bar", aria_hidden="true")
    return el("div", text, bar, class_="hidden-part")


def plain_label(text: object) -> str:
    """Return text for a Streamlit label, with every character escaped that Markdown or Streamlit interprets."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def widget_token(name: str) -> str:
    """Return ten hex digits for a name from outside: always the same, and safe in a widget's key."""
    return hashlib.sha256(name.encode()).hexdigest()[:10]
