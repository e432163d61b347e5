"""Times and lengths of time as people read them in sentences."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(at_ms: int) -> str:
    """Return epoch milliseconds as ``2026-11-21 16:59:02.756 UTC``."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} UTC"


def seconds(length_ms: int) -> str:
    """Return a length of time as ``12 s``; below 10 s as ``7.4 s``, from 2 min on as ``9 min 40 s``, or ``10 min``."""
    minutes, rest = divmod(round(length_ms / 1000), 60)
    if minutes >= 2:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{length_ms / 1000:.0f} s" if length_ms >= 10_000 else f"{length_ms / 1000:.1f} s"
