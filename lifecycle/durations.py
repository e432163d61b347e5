"""Lengths of time as text, and their units."""

from __future__ import annotations

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

NO_TIMEOUT_MS = 2**31 - 1
"""What Kafka has as the timeout of a producer with a two-phase commit of its own (KIP-939): no length of time."""


def timeout_that_ends(timeout_ms: int) -> int:
    """Return a timeout as Kafka has it, 0 where it is none: no coordinator ends that transaction."""
    return 0 if timeout_ms == NO_TIMEOUT_MS else timeout_ms


def steady_duration(length_ms: int) -> str:
    """Return a length of time as a text that seldom changes while it grows: in seconds, tens of seconds, then minutes."""
    if length_ms < MINUTE_MS:
        step_ms = SECOND_MS if length_ms < 10 * SECOND_MS else 10 * SECOND_MS
        return f"{length_ms // step_ms * step_ms // SECOND_MS} s"
    return f"{length_ms // MINUTE_MS} min" if length_ms < HOUR_MS else duration(length_ms)


def duration(length_ms: int | float) -> str:
    """Return a length of time in its two largest units: ``340 ms``, ``1.2 s``, ``41 s``, ``12 min 08 s``, ``3 h 04 min``."""
    if length_ms < 0:
        return "-" + duration(-length_ms)
    whole = int(length_ms)
    if whole < SECOND_MS:
        return f"{whole} ms"
    if whole < 9_950:
        return f"{length_ms / SECOND_MS:.1f} s"
    if whole < MINUTE_MS:
        return f"{whole // SECOND_MS} s"
    if whole < HOUR_MS:
        return f"{whole // MINUTE_MS} min {whole % MINUTE_MS // SECOND_MS:02d} s"
    if whole < DAY_MS:
        return f"{whole // HOUR_MS} h {whole % HOUR_MS // MINUTE_MS:02d} min"
    return f"{whole // DAY_MS} d {whole % DAY_MS // HOUR_MS} h"
