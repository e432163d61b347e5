"""The collector's clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return epoch milliseconds, UTC."""
    return time.time_ns() // 1_000_000
