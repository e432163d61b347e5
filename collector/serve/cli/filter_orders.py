"""Orders by filter on the command line: what the filter means, and how the collector's run for it goes."""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any

from indoubt.collector.serve.cli.arguments import read_filter
from indoubt.collector.serve.cli.client import Client, Refused, Unanswered
from indoubt.collector.serve.cli.order_answers import (
    DONE,
    DRY_REASON,
    NOT_DONE,
    STEP_COLUMNS,
    TRANSACTION_COLUMNS,
    WrongUse,
    say,
)
from indoubt.collector.serve.cli.text_table import table
from indoubt.lifecycle.counted_nouns import counted

LOOK_S = 0.5
"""How often the collector is asked how far it is."""
_DONE = {"abort": "aborted", "commit": "committed"}
_RISKS = {
    "abort": "data may be lost",
    "commit": "right only if the job is then restored from this checkpoint or a later one",
}


def give(client: Client, given: argparse.Namespace) -> int:
    """Give the order for all that the filter meant, or check it; return the exit code. Raises WrongUse, Unanswered, Refused."""
    if given.keys or (given.command == "commit" and given.verdict):
        others = " or --verdict" if given.command == "commit" else ""
        raise WrongUse(f"{given.command} takes KEYs or --filter{others}, not both")
    if given.yes and not given.fingerprint:
        raise WrongUse("--fingerprint is missing: run the command without --yes first, it shows what the filter means")
    body = {"action": given.command, "filter": read_filter(given.filter), "reason": given.reason or DRY_REASON}
    if not given.yes:
        return _check(client, given, body)
    if not given.confirm and sys.stdin.isatty():
        given.confirm = _asked(client, given, body["filter"])
    key = given.idempotency_key or uuid.uuid4().hex
    say(f"idempotency key: {key}")
    body |= {"fingerprint": given.fingerprint, "confirm": given.confirm, "idempotency_key": key}
    try:
        return _follow(client, given, client.begin_run(body))
    except (Unanswered, KeyboardInterrupt):
        say(f"if it began, it goes on: the same command with --idempotency-key {key} shows how")
        raise


def _check(client: Client, given: argparse.Namespace, body: Mapping[str, Any]) -> int:
    """Show what the filter means, what must be typed for which, and what the collector finds when it checks each."""
    preview = client.preview(given.command, body["filter"])
    if not given.json:
        _show(preview, given.command)
    if not preview["keys"]:
        raise Refused(f"the filter means no transaction that may be {_DONE[given.command]}")
    codes = []
    for condition in preview["conditions"]:
        number, confirm = counted(len(condition["keys"]), "transaction"), condition["confirm"]
        if confirm:
            say(f"{number}: {_RISKS[given.command]}: --confirm takes {confirm!r}")
        say(f"{number}: fingerprint: {condition['fingerprint']}")
        checked = client.begin_run({**body, "fingerprint": condition["fingerprint"], "dry_run": True})
        codes.append(_follow(client, given, checked))
    if NOT_DONE not in codes:
        say("nothing was done: add --yes to do it")
    return max(codes)


def _show(preview: Mapping[str, Any], action: str) -> None:
    print(table(preview["rows"], TRANSACTION_COLUMNS))
    for left in preview["left_out"]:
        say(f"left out, may not be {_DONE[action]}: {left['key']} ({left['verdict']})")
    unlisted, unsaid = len(preview["keys"]) - len(preview["rows"]), preview["left_out_total"] - len(preview["left_out"])
    if unlisted:
        say(f"and {counted(unlisted, 'other')}: --json names all")
    if unsaid:
        say(f"and {counted(unsaid, 'other')} left out")


def _asked(client: Client, given: argparse.Namespace, wanted: Mapping[str, Any]) -> str:
    """Return what the operator types at the terminal, where something must be typed."""
    for condition in client.preview(given.command, wanted)["conditions"]:
        if condition["fingerprint"] == given.fingerprint and condition["confirm"]:
            number = counted(len(condition["keys"]), "transaction")
            return input(f"{number}: {_RISKS[given.command]}; type {condition['confirm']!r} to do it: ")
    return ""


def _follow(client: Client, given: argparse.Namespace, run: Mapping[str, Any]) -> int:
    """Say how far the collector is until the run is over, then show what became of each transaction; return the exit code."""
    said = 0
    while True:
        if run["parts_sent"] > said:
            said = run["parts_sent"]
            audit = f", audit {run['audits'][-1]}" if run["audits"] else ""
            say(
                f"part {said} of {run['parts']}: {run['sent']:,} of {counted(run['transactions'], 'transaction')}{audit}"
            )
        if run["is_over"]:
            break
        time.sleep(LOOK_S)
        run = client.run(run["run"])
    run = client.run(run["run"], steps="true")
    print(json.dumps(run) if given.json else table(run["steps"], STEP_COLUMNS))
    audits = f"audit {run['audits'][0]}" if run["audits"] else "no audit"
    audits += f" to {run['audits'][-1]}" if len(run["audits"]) > 1 else ""
    say(f"{audits}: {run['outcome'].replace('_', ' ') or 'nothing sent'} in {run['took_ms']} ms")
    if run["outcome"] == "pending":
        say("the end of some is not known yet and is followed up: later audit rows refer to these")
    if run["halted"]:
        unsent = counted(run["transactions"] - run["sent"], "transaction")
        say(f"{unsent} not sent: {run['halted']}")
    return DONE if run["done"] == run["transactions"] else NOT_DONE
