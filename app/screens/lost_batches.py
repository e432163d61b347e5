"""What the overview offers for lost batches: a list that shows them has the same remedy."""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.app.client.collector_client import CollectorClient
from indoubt.lifecycle.rows.attention import Attention


def needs_of_lost(client: CollectorClient, keys: Sequence[str]) -> dict[tuple[str, int | None], Attention]:
    """Return the parts of incidents about these lost transactions, by pipeline and batch; without ``keys`` nothing is asked."""
    return {(item.pipeline, item.batch): item for item in client.parts(keys)} if keys else {}
