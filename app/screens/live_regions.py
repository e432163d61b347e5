"""Every live region by its name; a page shows one with app.dialogs.pressed.show_region."""

from __future__ import annotations

from collections.abc import Mapping

from app.regions.picture import Render, kept_for
from app.screens import (
    alerts,
    batches,
    collector_status,
    frame,
    news,
    over_time,
    overview,
    pending,
    pipelines,
    readers,
    timeouts,
)
from app.screens.objects import alert, batch, partition, pipeline, transaction

REGIONS: Mapping[str, Render] = {
    "frame": frame.render,
    "overview": overview.render,
    "over-time": kept_for(over_time.KEPT_S, over_time.render),
    "pending": pending.render,
    "readers": readers.render,
    "pipelines": pipelines.render,
    "alerts": alerts.render,
    "batches": batches.render,
    "timeouts": timeouts.render,
    "collector": collector_status.render,
    "news": news.render,
    "transaction": transaction.render,
    "batch": batch.render,
    "pipeline": pipeline.render,
    "alert": alert.render,
    "partition": partition.render,
}
