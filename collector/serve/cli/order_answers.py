"""One order of the command line: how it is sent, and what is shown of its answer."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.cli.text_table import table
from indoubt.lifecycle.rows.order_request import MAX_REASON, MIN_REASON
from indoubt.lifecycle.visible_text import visible

DONE, NOT_DONE, WRONG_USE = 0, 1, 2
TRANSACTION_COLUMNS = ("verdict", "certainty", "pipeline", "batch", "slot", "state", "rows", "key")
STEP_COLUMNS = ("outcome", "key", "description", "detail")
DRY_REASON = "dry run from the command line"


class WrongUse(ValueError):
    """The arguments do not fit together; the message says what is missing."""


def check_reason(reason: str, *, is_needed: bool) -> None:
    """Return if an order may have this reason. Raises WrongUse that says what is wrong with it."""
    length = len(reason.strip())
    if length == 0 and is_needed:
        raise WrongUse("--reason is missing: with --yes say why, it goes to the audit")
    if length and not MIN_REASON <= length <= MAX_REASON:
        much = "short" if length < MIN_REASON else "long"
        raise WrongUse(
            f"--reason is too {much} ({length} characters; it takes {MIN_REASON} to {MAX_REASON}): say why, it goes to the audit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One order to give: what it says besides reason and confirmation."""

    action: str
    request: Mapping[str, Any]

    @classmethod
    def of_rows(cls, action: str, rows: Sequence[Mapping[str, Any]]) -> Wanted:
        """Return the order about rows as they were just read."""
        seen = {row["key"]: row["revision"] for row in rows}
        return cls(action=action, request={"keys": list(seen), "seen": seen})


def give_one(client: Client, given: argparse.Namespace, wanted: Wanted, number: int) -> int:
    """Give one order, or check it without ``--yes``; return the exit code. ``number``: which one of the command. Raises Refused."""
    body = {"action": wanted.action, **wanted.request, "confirm": given.confirm}
    if not given.yes:
        answer = client.order({**body, "reason": given.reason or DRY_REASON, "dry_run": True})
        if answer.get("confirm"):
            say(f"data may be lost or the pipeline stays down: --confirm takes {answer['confirm']!r}")
        return show(given, answer)
    if not given.confirm and sys.stdin.isatty():
        body["confirm"] = _asked(client, body, given.reason)
    key = given.idempotency_key or uuid.uuid4().hex
    # An order about another attempt is another order.
    body["idempotency_key"] = key if number == 0 else f"{key}-{number}"
    say(f"idempotency key: {body['idempotency_key']}")
    return show(given, client.order({**body, "reason": given.reason}))


def _asked(client: Client, body: Mapping[str, Any], reason: str) -> str:
    """Return what the operator types at the terminal, where something must be typed."""
    wanted = client.order({**body, "reason": reason, "dry_run": True}).get("confirm", "")
    return input(f"this may lose data or leave the pipeline down; type {wanted!r} to do it: ") if wanted else ""


def show(given: argparse.Namespace, answer: Mapping[str, Any]) -> int:
    """Print what became of an order; return the exit code."""
    print(json.dumps(answer) if given.json else table(answer["steps"], STEP_COLUMNS))
    say(f"audit {answer['audit']}: {answer['outcome'].replace('_', ' ')} in {answer['took_ms']} ms")
    if answer["outcome"] == "pending":
        say(f"the end is not known yet and is followed up: a later audit row refers to {answer['audit']}")
    return DONE if answer["outcome"] in ("accepted", "dry_run") else NOT_DONE


def say(words: str) -> None:
    """Say something beside the answer."""
    print(visible(words), file=sys.stderr)
