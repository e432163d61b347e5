"""Silences rebuilt from the audit: a history that starts over has its rows from the audit file, and they tell every silence."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb

from collector.history import alert_sql
from collector.history.sidecar_table import AUDIT

BEGIN, END = "silence", "end silence"
log = logging.getLogger(__name__)


def rebuild(connection: duckdb.DuckDBPyConnection, rows: Iterable[Sequence[Any]]) -> int:
    """Make and end the silences that these audit rows tell of, in their order; return how many rows did. Raises duckdb.Error.

    ``rows``: columns as in history, oldest first. One that cannot be read is reported and passed over.
    """
    restored = 0
    for row in rows:
        fields = dict(zip(AUDIT.columns, row, strict=True))
        if fields["action"] not in (BEGIN, END) or fields["outcome"] != "accepted":
            continue
        try:
            number = int(json.loads(fields["keys"])[0].partition(":")[2])
            evidence = json.loads(fields["evidence"])[0]
            matchers, ends_ms = json.dumps(evidence["matchers"]), int(evidence["ends_at_ms"])
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            log.warning("audit row %s tells no silence that can be read", fields["audit"])
            continue
        restored += 1
        if fields["action"] == END:
            connection.execute(alert_sql.END_SILENCE, [ends_ms, number])
        else:
            silence = [number, matchers, fields["reason"], fields["who"], fields["at_ms"], ends_ms]
            connection.execute(alert_sql.KEEP_SILENCE, silence)
    return restored
