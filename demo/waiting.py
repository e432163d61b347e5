"""Waiting for a condition, never for a time: each wait has a limit and says what it waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_EVERY_S = 0.2


class DemoFailed(Exception):
    """A part of the demo did not do what it must; the message says which, and where its log is."""


def wait_until(
    what: str, look: Callable[[], T | bool | None], limit_s: float, meanwhile: Callable[[], None] | None = None
) -> T:
    """Return the first true answer of ``look``. Raises DemoFailed, naming ``what``, after ``limit_s`` seconds.

    ``meanwhile`` is called between looks and may raise, for example because a process that is needed has ended.
    """
    deadline = time.monotonic() + limit_s
    while True:
        found = look()
        if found:
            return found  # type: ignore[return-value]
        if meanwhile is not None:
            meanwhile()
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {limit_s:.0f} s in vain for {what}")
        time.sleep(LOOK_EVERY_S)
