"""``standing-orders list|stop|start``: how they stand, and the switch that stops all of them."""

from __future__ import annotations

import argparse
import json
import sys

from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.cli.order_answers import DONE, WrongUse, check_reason
from indoubt.collector.serve.cli.text_table import table

COMMAND = "standing-orders"
COLUMNS = (
    "name",
    "state",
    "act",
    "applications",
    "when",
    "acts",
    "dry_runs",
    "held",
    "most_per_hour",
    "owner",
    "why",
)
STOP_REASON = "stopped from the command line"


def execute(client: Client, given: argparse.Namespace) -> int:
    """List, stop or start. Raises WrongUse, Unanswered, Refused."""
    if given.do == "list":
        return _list(client, given)
    if given.do == "start" and not (given.yes and given.reason.strip()):
        raise WrongUse("start takes --yes and --reason: orders are then given without a person again")
    check_reason(given.reason, is_needed=False)
    stopped = given.do == "stop"
    answer = client.switch_standing_orders(stopped=stopped, reason=given.reason.strip() or STOP_REASON)
    if given.json:
        print(json.dumps(answer))
    words = "stopped: nothing is done without a person" if stopped else "started"
    print(f"audit {answer['audit']}: standing orders are {words}", file=sys.stderr)
    return DONE


def _list(client: Client, given: argparse.Namespace) -> int:
    answer = client.get("/api/v1/standing-orders")
    if given.json:
        print(json.dumps(answer))
    elif answer["rows"]:
        print(table(answer["rows"], COLUMNS))
    else:
        print("no standing orders: the collector was given no file of them", file=sys.stderr)
    return DONE
