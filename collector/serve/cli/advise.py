"""``advise JOB``: what a restore from each retained checkpoint of a Flink job would do; the exit code is a gate for scripts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.cli.text_table import cell
from indoubt.lifecycle.rows.restores import AfterRestore
from indoubt.lifecycle.verdicts import Certainty
from indoubt.lifecycle.visible_text import actual, visible

COMMAND = "advise"
SAFE, NOT_SAFE = 0, 4
KEYS_PRINTED = 5


def execute(client: Client, given: argparse.Namespace) -> int:
    """Print the advice; return 0 where the restore loses and doubles nothing, as far as is known, else 4.

    Raises ValueError for a checkpoint that is not retained, Unanswered, Refused.
    """
    answer = client.get("/api/v1/restores", job=actual(given.job))
    rows = answer["rows"]
    if given.checkpoint is not None and all(row["checkpoint"] != given.checkpoint for row in rows):
        known = ", ".join(str(row["checkpoint"]) for row in rows) or "none"
        raise ValueError(f"checkpoint {given.checkpoint} is not retained, or its list was not read; known: {known}")
    if given.json:
        print(json.dumps(answer))
    elif rows:
        print(*(line for row in rows for line in _said(row)), sep="\n")
    else:
        print("no retained checkpoint of it was read: 'indoubt status' shows whether its directory is watched")
    asked = [row for row in rows if given.checkpoint in (None, row["checkpoint"])]
    return SAFE if asked and _is_safe(asked[0]) else NOT_SAFE


def _is_safe(row: Mapping[str, Any]) -> bool:
    return row["is_safe"] and not row["commits"] and row["certainty"] != Certainty.GUESS.value


def _said(row: Mapping[str, Any]) -> Iterator[str]:
    newest = ", the newest" if row["is_newest"] else ""
    yield f"checkpoint {row['checkpoint']} of {visible(row['pipeline'])}{newest}, written {cell('at_ms', row['written_at_ms'])}"
    yield f"   {row['certainty']}: {visible(row['advice'])}"
    if row["deadline_ms"] is not None:
        yield f"   the first times out at {cell('deadline_ms', row['deadline_ms'])}"
    for doubt in row["doubts"]:
        yield f"   but {visible(doubt)}"
    for kind in AfterRestore:
        keys = row["keys"].get(kind.value, ())
        shown = ", ".join(visible(key) for key in keys[:KEYS_PRINTED])
        if keys:
            yield f"   {kind.value}: {shown}{f' and {len(keys) - KEYS_PRINTED} more' if len(keys) > KEYS_PRINTED else ''}"
    yield f"   {visible(row['path'])}"
