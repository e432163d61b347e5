"""Keeps the decision log short: a snapshot of what still matters now and then, and what is older than is kept is deleted."""

from __future__ import annotations

import logging
import time

from lifecycle.errors import DecisionLogUnreadable
from pipeline.config.sink_settings import SinkSettings
from resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)

DAY_MS = 24 * 3_600_000


def keep_short(decisions: DecisionLog, settings: SinkSettings, checkpoint_id: str, attempt: int) -> bool:
    """Write a snapshot when the newest one is old, and cut the log behind it; return whether one was written.

    Only the newest run does. What fails is logged and tried again at the next call: the log is longer meanwhile, no more.
    """
    try:
        ledger = decisions.read_to_end()
        newest = decisions.newest_snapshot
        age_ms = time.time() * 1000 - newest.at_ms if newest else None
        is_due = age_ms is None or age_ms >= settings.decisions_snapshot_interval_ms
        if not is_due or ledger.newer_run(settings.prefix, checkpoint_id, attempt) is not None:
            return False
        before = decisions.snapshot(settings.prefix, f"run {attempt}")
        first = decisions.cut(before, settings.decisions_keep_days * DAY_MS)
        log.info(
            "%s: a snapshot stands for what is before offset %d, the log begins at %d", decisions.topic, before, first
        )
        return True
    except DecisionLogUnreadable as error:
        log.warning("the decision log was not shortened, which is tried again: %s", error)
        return False
