"""The orders of the command line: look, check by a dry run, and with ``--yes`` do it. Answers on stdout, words on stderr."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from indoubt.collector.serve.cli import filter_orders
from indoubt.collector.serve.cli.client import Client, Refused
from indoubt.collector.serve.cli.order_answers import (
    DONE,
    NOT_DONE,
    TRANSACTION_COLUMNS,
    Wanted,
    WrongUse,
    check_reason,
    give_one,
    say,
    show,
)
from indoubt.collector.serve.cli.text_table import table
from indoubt.lifecycle.orders import HANGING_KEY
from indoubt.lifecycle.visible_text import actual

BATCH_COLUMNS = ("verdict", "pipeline", "batch", "attempt", "settle", "decision", "rows", "explanation")
BY_FILTER = ("abort", "commit")
_LIMIT = "100000"


def give(client: Client, given: argparse.Namespace) -> int:
    """Give the order that was asked for; return the exit code. Raises WrongUse, Unanswered, Refused."""
    check_reason(given.reason, is_needed=given.yes)
    if given.command in BY_FILTER and given.filter:
        return filter_orders.give(client, given)
    if given.idempotency_key and given.yes and (code := _given_before(client, given)) is not None:
        return code
    orders = _wanted(client, given)
    codes = [give_one(client, given, wanted, number) for number, wanted in enumerate(orders)]
    if not given.yes and DONE in codes:
        say("nothing was done: add --yes to do it")
    return max(codes, default=NOT_DONE)


def _wanted(client: Client, given: argparse.Namespace) -> list[Wanted]:
    match given.command:
        case "restart" | "start" | "stop":
            rows = client.get("/api/v1/pipelines", pipeline=given.pipeline)["rows"]
            if not rows:
                raise Refused(f"no run of a pipeline {given.pipeline!r} is known: is the prefix right?")
            return [Wanted.of_rows(given.command, rows)]
        case "settle-batch":
            return _of_batch(client, given)
        case "commit" if given.verdict:
            return _of_verdict(client, given)
        case action:
            if not given.keys:
                other = "" if action == "abort" else " or --verdict VERDICT"
                raise WrongUse(f"{action} takes one or more KEYs, or --filter NAME=VALUE{other}")
            if given.fingerprint:
                raise WrongUse("--fingerprint goes with --filter")
            return [Wanted.of_rows(action, [_row(client, key) for key in given.keys])]


def _row(client: Client, key: str) -> Any:
    # A table shows control characters by their numbers: a key that was copied from one is read back.
    key = actual(key)
    if not key.startswith(HANGING_KEY):
        return client.get(f"/api/v1/transactions/{quote(key, safe='')}")
    found = [row for row in client.get("/api/v1/hanging", limit=_LIMIT)["rows"] if row["key"] == key]
    if not found:
        raise Refused(f"{key} is not known (any more): look again")
    return found[0]


def _of_batch(client: Client, given: argparse.Namespace) -> list[Wanted]:
    """Return an order for each attempt at the batch that something is open of."""
    rows = client.get("/api/v1/batches", pipeline=given.pipeline, batch=str(given.batch), limit=_LIMIT)["rows"]
    if not rows:
        raise Refused(f"no batch {given.batch} of a pipeline {given.pipeline!r} is in memory: is the prefix right?")
    if not given.json:
        print(table(rows, BATCH_COLUMNS))
    going = [row for row in rows if row["settle"] is not None]
    if not going:
        why = "; ".join(f"attempt {row['attempt']} is {row['verdict']}: {row['explanation']}" for row in rows)
        raise Refused(f"nothing of batch {given.batch} of {given.pipeline} is to be settled ({why})")
    return [Wanted.of_rows("settle", [row]) for row in going]


def _of_verdict(client: Client, given: argparse.Namespace) -> list[Wanted]:
    """Return the orders that commit all of a verdict: one for those without a condition, and one for each condition."""
    if given.keys or given.fingerprint:
        raise WrongUse("commit takes KEYs, --filter or --verdict, one of them; --fingerprint goes with --filter")
    rows = client.get("/api/v1/transactions", verdict=given.verdict, limit=_LIMIT)["rows"]
    rows = [row for row in rows if row["may_commit"]]
    if not given.json:
        print(table(rows, TRANSACTION_COLUMNS))
    if not rows:
        raise Refused(f"no transaction with the verdict {given.verdict!r} may be committed now")
    conditions = sorted({row["commit_confirmation"] for row in rows})
    if not given.yes and len(conditions) > 1:
        say(f"one order for each condition: {', '.join(condition or 'none' for condition in conditions)}")
    return [
        Wanted.of_rows("commit", [row for row in rows if row["commit_confirmation"] == condition])
        for condition in conditions
    ]


def _given_before(client: Client, given: argparse.Namespace) -> int | None:
    """Show the first answer to the idempotency key, if there is one."""
    found = client.answer(given.idempotency_key)
    if found["refused"] is not None:
        raise Refused(f"given before and refused: {found['refused']}")
    if found["answer"] is None:
        return None
    say("this order was given before; this was its answer")
    return show(given, found["answer"])
