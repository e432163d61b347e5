"""Text from outside that may hold control characters: shown so that it can be read and copied, and read back as it was.

So nobody else can write a log line: what a message or an exception quotes stays on the line of who logs it.
"""

from __future__ import annotations

import logging
import re
import traceback
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SHOWN = re.compile(r"\\u([0-9a-f]{4})")
_BEHIND = "    "
"""Stands before each line of a stack trace: no line of a log begins so."""


def visible(text: object) -> str:
    """Return the text with each control and direction-changing character as a visible ``\\uXXXX``."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def actual(text: str) -> str:
    """Return what ``visible`` made such a text of: each ``\\uXXXX`` of a character that it shows so becomes that character."""
    return _SHOWN.sub(lambda match: sign if _CONTROL.fullmatch(sign := chr(int(match[1], 16))) else match[0], text)


class _VisibleRecord(logging.LogRecord):
    """Its text holds no control characters. Each handler takes it from here, also those of libraries."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if self.exc_info and self.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(*self.exc_info)).splitlines()
            self.exc_text = "\n".join(f"{_BEHIND}{visible(line)}" for line in trace)

    def getMessage(self) -> str:
        """Return the message with its arguments in it."""
        return visible(super().getMessage())


def protect_log_lines() -> None:
    """Have every line that this process logs from now on show control characters, and move nothing."""
    logging.setLogRecordFactory(_VisibleRecord)
