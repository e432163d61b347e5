"""Rows of GET /ids, in the columns and order of docs/api.md; all times epoch ms."""

from __future__ import annotations

from typing import Any

from collector.id_leaks import PrefixReport


def id_row(report: PrefixReport) -> dict[str, Any]:
    """Return what there is to say about the ids of one prefix."""
    return {
        "prefix": report.prefix,
        "ids": report.ids,
        "growth_per_hour": report.growth_per_hour,
        "created_last_hour": report.created_last_hour,
        "stale_ids": report.stale_ids,
        "leaks": report.leaks,
        "shared": report.shared,
        "why": report.why,
        "lives": report.lives,
        "fenced_last_hour": report.fenced_last_hour,
        "newest_at_ms": report.newest_ms,
        "oldest_at_ms": report.oldest_ms,
        "example": report.example,
    }
