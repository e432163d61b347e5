"""What may stand on the command line of ``indoubt COMMAND``, for each command that asks a collector or orders from it."""

from __future__ import annotations

import argparse
import re
from datetime import datetime
from typing import Any

from indoubt.collector.serve.cli.listings import LISTINGS, Listing
from indoubt.lifecycle.resource_manager_kinds import KINDS
from indoubt.lifecycle.rows.search import SearchOutcome
from indoubt.lifecycle.settings_file import CLUSTER_OPTION, CLUSTER_VARIABLE
from indoubt.lifecycle.verdicts import AbortCause, Certainty

EXIT_CODES = """exit codes:
  0  done (an order without --yes: every check passed, nothing was done)
  1  refused or failed, or not known yet how it ended; the message says which
  2  wrong use: arguments, address or token
  3  the collector does not answer
  4  of 'overview': something needs a person, or not every source was seen yet
     of 'advise': a restore loses rows or writes them twice, wants a commit first, or may do so"""
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ORDERS = {
    "commit": "commit transactions that a decision or a Flink checkpoint lists, or that hang although committed",
    "abort": "abort transactions: by key, or all that a filter means, however many",
    "settle-batch": "commit all of a decided batch, or abort all of an undecided one",
    "restart": "end a pipeline's driver and start the next run",
    "start": "start a pipeline that does not run, by the collector's command for it",
    "stop": "end a pipeline's driver and its supervisor",
    "standing-orders": "what is done without a person: list, stop all of it, or start it again",
}
"""What each command that changes something does, by its name."""
QUESTIONS = {
    "overview": "is anything wrong? what needs a person, by deadline, and the command that does it",
    "advise": "what a Flink job would lose or write twice if it were restored from each of its checkpoints",
    "status": "who is asked, who asks, and how the observers are",
    **{listing.name: listing.what for listing in LISTINGS},
}
"""What each command that only asks shows, by its name."""
_HELP = {
    "pipeline": "only this pipeline (prefix)",
    "verdict": "only this verdict, such as 'commit it'",
    "certainty": f"only this one: {', '.join(certainty.value for certainty in Certainty)}",
    "resource-manager": f"only this one: {', '.join(KINDS)}",
    "cause": f"only this cause: {', '.join(cause.value for cause in AbortCause)}",
    "transaction": "every transaction of this transactional id",
    "transaction-part": "only ids with this text in them",
    "group": "only what wrote where this consumer group reads",
    "outcome": f"only this one: {', '.join(outcome.value for outcome in SearchOutcome)}",
    "until": "only before then; as --since",
    "topic": "only this topic",
    "state": "only this state",
    "severity": "only this one: warning, critical",
    "since": "only since then: 90s, 15m, 2h, 7d ago, or a time such as 2026-11-21T14:00",
}
_FILTERS = ("pipeline", "verdict", "certainty", "resource_manager", "transaction_prefix", "open_for")


def parser() -> argparse.ArgumentParser:
    """Return the parser of these commands."""
    made = argparse.ArgumentParser(
        prog="indoubt",
        description="Ask a running collector, and give it orders. Its address and the token are taken from "
        "INDOUBT_COLLECTOR_URL and INDOUBT_TOKEN or INDOUBT_TOKEN_FILE.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for listing in LISTINGS:
        _listing(commands, listing)
    _command(commands, "status", QUESTIONS["status"])
    _command(commands, "overview", QUESTIONS["overview"])
    _advise(commands)
    _orders(commands)
    _standing_orders(commands)
    return made


def moment_ms(text: str, now_ms: int) -> int:
    """Return epoch ms of ``90s``, ``15m``, ``2h``, ``7d`` (ago) or an ISO time, local unless it has a zone. Raises ValueError."""
    if re.fullmatch(r"\d+[smhd]", text):
        return now_ms - duration_ms(text)
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Return ms of ``90s``, ``15m``, ``2h`` or ``7d``. Raises ValueError."""
    if not re.fullmatch(r"\d+[smhd]", text) or not int(text[:-1]):
        raise ValueError(f"{text!r} is no time span; it takes a number and s, m, h or d, such as 15m")
    return int(text[:-1]) * _UNITS_MS[text[-1]]


def read_filter(parts: list[str]) -> dict[str, Any]:
    """Return the API's filter of ``name=value`` texts. Raises ValueError that says what it takes."""
    found: dict[str, Any] = {}
    for part in parts:
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if name not in _FILTERS or not value:
            known = ", ".join(known.replace("_", "-") for known in _FILTERS)
            raise ValueError(f"--filter is {part!r}; it takes NAME=VALUE with one of {known}")
        if name in found or (name == "open_for" and "open_for_ms" in found):
            raise ValueError(f"--filter gives {name.replace('_', '-')} twice")
        if name == "open_for":
            found["open_for_ms"] = duration_ms(value)
        else:
            found[name] = value
    return found


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=what, epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="print the collector's answer as JSON")
    made.add_argument(
        CLUSTER_OPTION, default="", metavar="NAME", help=f"of several clusters, which (or {CLUSTER_VARIABLE})"
    )
    return made


def _listing(commands: Any, listing: Listing) -> None:
    made = _command(commands, listing.name, listing.what)
    for name in listing.filters:
        if name == "all":
            made.add_argument("--all", action="store_true", help="also what needs nothing (any more)")
        else:
            made.add_argument(f"--{name}", help=_HELP[name], default="")
    made.add_argument("--limit", type=int, default=100, help="rows at most (default: 100)")
    if listing.has_pages:
        made.add_argument("--after", help="the next page: the cursor that the one before it returned", default="")


def _advise(commands: Any) -> None:
    made = _command(commands, "advise", QUESTIONS["advise"])
    made.add_argument("job", metavar="JOB", help="Flink's job id, or the job's name where one job has it")
    made.add_argument("--checkpoint", type=int, help="which the exit code is about (default: the newest)")


def _orders(commands: Any) -> None:
    commit = _order(commands, "commit")
    commit.add_argument("keys", nargs="*", metavar="KEY", help="key of a transaction, as the listings show it")
    commit.add_argument(
        "--verdict",
        default="",
        help="instead of keys: every transaction with this verdict, 'commit it', that may be committed",
    )
    abort = _order(commands, "abort")
    abort.add_argument("keys", nargs="*", metavar="KEY", help="key of a transaction, as the listings show it")
    for made, act in ((commit, "commit"), (abort, "abort")):
        made.add_argument(
            "--filter",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"{act} whatever has this pipeline, verdict, certainty, resource-manager, transaction-prefix, or is open-for "
            "longer (15m); may be repeated, all must fit",
        )
        made.add_argument("--fingerprint", default="", help="which transactions: what the run without --yes showed")
    settle = _order(commands, "settle-batch")
    settle.add_argument("pipeline", help="the pipeline's prefix")
    settle.add_argument("batch", type=int, help="the batch's number")
    for name in ("restart", "start", "stop"):
        _order(commands, name).add_argument("pipeline", help="the pipeline's prefix")


def _standing_orders(commands: Any) -> None:
    made = _command(commands, "standing-orders", ORDERS["standing-orders"])
    made.add_argument("do", nargs="?", choices=("list", "stop", "start"), default="list", help="default: list")
    made.add_argument("--reason", default="", help="why, for the audit; needed with start")
    made.add_argument("--yes", action="store_true", help="needed with start; stop acts at once")


def _order(commands: Any, name: str) -> argparse.ArgumentParser:
    made = _command(commands, name, ORDERS[name])
    made.add_argument("--yes", action="store_true", help="do it; without it all is checked and nothing is done")
    made.add_argument("--reason", default="", help="why, for the audit; needed with --yes")
    made.add_argument("--confirm", default="", help="what must be typed where data may be lost, as the dry run says it")
    made.add_argument(
        "--idempotency-key",
        default="",
        help="of an order that was sent before: get its answer instead of doing it twice; of one by filter, how it goes",
    )
    return made
