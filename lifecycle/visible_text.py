"""Text from outside that may hold control characters: shown so that it can be read and copied, and read back as it was."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SHOWN = re.compile(r"\\u([0-9a-f]{4})")


def visible(text: object) -> str:
    """Return the text with each control and direction-changing character as a visible ``\\uXXXX``."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def actual(text: str) -> str:
    """Return what ``visible`` made such a text of: each ``\\uXXXX`` of a character that it shows so becomes that character."""
    return _SHOWN.sub(lambda match: sign if _CONTROL.fullmatch(sign := chr(int(match[1], 16))) else match[0], text)
