"""Keeps the collector's process small. Import it before anything else: what it says is asked for when libraries are loaded.

Beside each: what it spares a collector with nothing to do. None of it costs time (``python -m benchmarks.collector_ingest``).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_M_ARENA_MAX = -8
ARENAS = 2
"""Of glibc's malloc, which makes up to eight for each core, and gives no memory of one to the threads of another: 4 MiB."""
_ARROW_POOL = ("ARROW_DEFAULT_MEMORY_POOL", "system")
"""Arrow's own allocator keeps what a topic took that was read from its start: 10 MiB."""

TRIM_EVERY_S = 30.0
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc alone."""


class _NoPandas(MetaPathFinder):
    """Arrow imports pandas with its first array, to ask whether what it is given is one of pandas' objects: 35 MiB."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used in the collector", name=fullname)
        return None


def _use_few_arenas() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other systems have none
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, ARENAS)


class MallocTrimmer:
    """Gives back what allocators keep for later: a topic read from its start takes much more than what stays.

    A step of the history writer's maintenance: every 30 s, in a few milliseconds, in which other threads go on.
    """

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, _: object) -> None:
        """Give back what is free when it is time."""
        if time.monotonic() < self._next_s:
            return
        import pyarrow as pa  # loaded long since, and not before this module

        pa.default_memory_pool().release_unused()
        if _TRIM is not None:
            _TRIM(0)
        self._next_s = time.monotonic() + TRIM_EVERY_S


sys.meta_path.insert(0, _NoPandas())
os.environ.setdefault(*_ARROW_POOL)
_use_few_arenas()
