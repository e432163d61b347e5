"""Waiting for a condition, never for a fixed time: each wait has a limit and names its condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
CHECK_EVERY_S = 0.2


class DemoFailed(Exception):
    """A part of the demo failed; the message names the part and its log."""


def wait_until(
    what: str, check: Callable[[], T | bool | None], limit_s: float, meanwhile: Callable[[], None] | None = None
) -> T:
    """Return the first true answer of ``check``. Raises DemoFailed, naming ``what``, after ``limit_s`` seconds.

    ``meanwhile`` runs between the checks and may raise, for example because a process has ended.
    """
    deadline = time.monotonic() + limit_s
    while True:
        answer = check()
        if answer:
            return answer  # type: ignore[return-value]
        if meanwhile is not None:
            meanwhile()
        if time.monotonic() > deadline:
            raise DemoFailed(f"no success after waiting {limit_s:.0f} s for {what}")
        time.sleep(CHECK_EVERY_S)
