"""Gives memory back to the system that allocators keep for later: a topic read from its start takes much more than what stays."""

from __future__ import annotations

import ctypes
import time

import pyarrow as pa

EVERY_S = 30.0
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc alone."""


class MallocTrimmer:
    """A step of the history writer's maintenance: every 30 s, in a few milliseconds, in which other threads go on."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, _: object) -> None:
        """Give back what is free when it is time."""
        if time.monotonic() < self._next_s:
            return
        pa.default_memory_pool().release_unused()
        if _TRIM is not None:
            _TRIM(0)
        self._next_s = time.monotonic() + EVERY_S
