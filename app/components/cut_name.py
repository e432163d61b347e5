"""Names that may be too long for their place: they are cut in the middle, because their end tells them from their siblings."""

from __future__ import annotations

from app.components.markup import Html, el

CUT_FROM = 24
TAIL = 12
"""Characters: of a name that is longer, the last ones always stay visible."""


def cut(name: str, element: str) -> Html:
    """Return the name in an element of this kind; the style sheet cuts it where there is no room, its hint is the whole name."""
    if len(name) <= CUT_FROM:
        return el(element, name)
    begins, ends = el("span", name[:-TAIL], class_="begins"), el("span", name[-TAIL:], class_="ends")
    return el(element, begins, ends, class_="cut", title=name)
