"""The time by this machine's clock, as it stands. The collector, which outlives steps of it, has a clock of its own."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return epoch milliseconds, UTC."""
    return time.time_ns() // 1_000_000
