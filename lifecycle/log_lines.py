"""Log lines that nobody else can write: what a message or an exception quotes stays on the line of who logs it."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from lifecycle.visible_text import visible

_BEHIND = "    "
"""Stands before each line of a stack trace: no line of a log begins so."""


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


def protect() -> None:
    """Have every line that this process logs from now on show control characters, and move nothing."""
    logging.setLogRecordFactory(_VisibleRecord)
