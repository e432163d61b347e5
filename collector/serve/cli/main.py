"""``indoubt COMMAND``: asks the running collector, gives it orders, and says how that went by its exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from indoubt.collector.serve.cli import advise, orders, overview, standing_orders
from indoubt.collector.serve.cli.arguments import ORDERS, QUESTIONS, moment_ms, parser
from indoubt.collector.serve.cli.client import Client, Refused, Unanswered
from indoubt.collector.serve.cli.listings import LISTINGS, Listing, parameter
from indoubt.collector.serve.cli.order_answers import DONE, NOT_DONE, WRONG_USE
from indoubt.collector.serve.cli.text_table import lines, table
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.visible_text import actual, visible

UNREACHABLE = 3
COMMANDS = frozenset({*QUESTIONS, *ORDERS})
OBSERVER_COLUMNS = ("name", "state", "delay_ms", "since_ms", "records", "error")


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Carry out one command; return its exit code (see ``--help``). Wrong arguments end the program with code 2."""
    given = parser().parse_args(arguments)
    try:
        cluster = settings_file.cluster_of(arguments, environment)
        return execute(Client.from_environment(environment, cluster), given)
    except (SettingsError, ValueError) as error:
        return _said(given, str(error), WRONG_USE)
    except Unanswered as error:
        return _said(given, str(error), UNREACHABLE)
    except Refused as error:
        return _said(given, str(error), NOT_DONE)


def _said(given: argparse.Namespace, message: str, code: int) -> int:
    print(f"indoubt {given.command}: {visible(message)}", file=sys.stderr)
    return code


def execute(client: Client, given: argparse.Namespace) -> int:
    """Carry out one command on this collector. Raises SettingsError, ValueError, Unanswered, Refused."""
    if given.command == "status":
        return _status(client, given)
    if given.command == overview.COMMAND:
        return overview.execute(client, as_json=given.json)
    if given.command == advise.COMMAND:
        return advise.execute(client, given)
    if given.command == standing_orders.COMMAND:
        return standing_orders.execute(client, given)
    if given.command in ORDERS:
        return orders.give(client, given)
    return _list(client, given, next(listing for listing in LISTINGS if listing.name == given.command))


def _list(client: Client, given: argparse.Namespace, listing: Listing) -> int:
    if given.limit < 1:
        raise ValueError(f"--limit is {given.limit}; it takes 1 or more")
    wanted = {"limit": str(given.limit)}
    for name in listing.filters:
        value = getattr(given, name.replace("-", "_"))
        if name in ("since", "until") and value:
            value = moment_ms(value, now_ms())
        if value:
            wanted[parameter(name)] = "true" if value is True else actual(str(value))
    if listing.has_pages and given.after:
        wanted["after"] = given.after
    answer = client.get(listing.path, **wanted)
    if given.json:
        print(json.dumps(answer))
    elif answer["rows"]:
        print(table(answer["rows"], listing.columns))
    else:
        print(f"no {listing.name}", file=sys.stderr)
    if answer["more"]:
        cursor = f", or for the next ones --after {answer['next']}" if answer["next"] else ""
        print(f"{answer['more']} more: --limit {given.limit + answer['more']}{cursor}", file=sys.stderr)
    return DONE


def _status(client: Client, given: argparse.Namespace) -> int:
    answer = client.get("/api/v1/status")
    if given.json:
        print(json.dumps(answer))
        return DONE
    print(*lines(answer), sep="\n")
    print(table(answer["observers"], OBSERVER_COLUMNS))
    return DONE
