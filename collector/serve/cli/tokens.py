"""``indoubt token add|list|revoke``: who may call the API of the collector in a directory."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.auth import token_store
from indoubt.collector.serve.api.auth.token_store import KnownToken
from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Role

NOTE = "a running collector takes it up at once, unless its tokens come from the environment"


def main(arguments: Sequence[str]) -> int:
    """Carry out one command: what was asked for on stdout, words on stderr. Return the exit code, 2 when it was not done."""
    given = _parser().parse_args(arguments)
    try:
        match given.command:
            case "add":
                expires_at_ms = None if given.days is None else now_ms() + given.days * DAY_MS
                role, for_persons = Role(given.role), given.for_persons
                print(token_store.add(given.directory, given.name, role, expires_at_ms, for_persons=for_persons))
                speaks = " and speaks for persons" if for_persons else ""
                print(f"token: shown this once, keep it. {given.name} is {given.role}{speaks}; {NOTE}", file=sys.stderr)
            case "list":
                rows = [_row(token) for token in token_store.kept(given.directory)]
                print(json.dumps(rows, indent=1))
            case _:
                token_store.revoke(given.directory, given.name)
                print(f"token: {given.name} is revoked; {NOTE}", file=sys.stderr)
    except SettingsError as error:
        print(f"token: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="indoubt token", description="Make, list and revoke tokens of the collector's API."
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--directory", type=Path, required=True, help="the collector's directory, which holds tokens.json"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", parents=[shared], help="make a token and print it, this once")
    adding.add_argument("name", help="who holds it: audit rows say this name")
    adding.add_argument("--role", choices=[role.value for role in Role], default=Role.VIEWER.value)
    adding.add_argument(
        "--for-persons",
        action="store_true",
        help="it is for an app that signs persons in: orders carry the person's name, with at most this role",
    )
    adding.add_argument("--days", type=_days, help="it ends after this many days (default: never)")
    commands.add_parser("list", parents=[shared], help="print names, roles and ends as JSON, no token")
    revoking = commands.add_parser("revoke", parents=[shared], help="shut the holder of a token out")
    revoking.add_argument("name")
    return parser


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 36_500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to 36500")
    return int(text)


def _row(token: KnownToken) -> dict[str, str | bool | None]:
    ends_ms = token.expires_at_ms
    expires = None if ends_ms is None else datetime.fromtimestamp(ends_ms / 1000, UTC).isoformat(timespec="seconds")
    return {"name": token.name, "role": token.role.value, "expires": expires, "for_persons": token.for_persons}
