"""Rows of GET /ids, in the columns of the OpenAPI document; all times epoch ms."""

from __future__ import annotations

from collector.state.transactional_ids import PrefixReport
from lifecycle.rows.pipelines import IdsRow


def id_row(report: PrefixReport) -> IdsRow:
    """Return what there is to say about the ids of one prefix."""
    return IdsRow(
        prefix=report.prefix,
        ids=report.ids,
        growth_per_hour=report.growth_per_hour,
        created_last_hour=report.created_last_hour,
        stale_ids=report.stale_ids,
        leaks=report.leaks,
        shared=report.shared,
        why=report.why,
        checkpoint_ids=report.checkpoint_ids,
        fenced_last_hour=report.fenced_last_hour,
        newest_at_ms=report.newest_ms,
        oldest_at_ms=report.oldest_ms,
        example=report.example,
    )
