"""``indoubt COMMAND``: each part of indoubt, and each command for a running collector, by its name.

Each loads only what it needs: a command that would load the collector first would answer a second and a half later.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import indoubt
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.version import VERSION
from indoubt.lifecycle.visible_text import visible

WRONG_USE = 2
BEGIN = {
    "watch": "a collector and its pages, on this machine, until Ctrl-C",
    "demo": "all of it on this machine, with Kafka, a Spark pipeline, and faults on request",
}
PARTS = {
    "collector": "observes, keeps, judges, notifies, and carries out orders",
    "app": "the pages, for a collector that runs elsewhere",
    "pipeline": "run: a Spark pipeline that writes exactly once; settle: say how a transaction ended",
    "mcp": "answers AI assistants (Model Context Protocol): they read, and orders are dry runs",
    "token": "add, list, revoke: who may call a collector's API",
}
_CHECKOUT = Path(indoubt.__file__).resolve().parent.parent
_COMMAND_VARIABLES = {
    "INDOUBT_COLLECTOR_URL",
    "INDOUBT_TOKEN",
    "INDOUBT_TOKEN_FILE",
    "INDOUBT_COLLECTOR_CA",
    "INDOUBT_CLUSTER",
}


def main() -> int:
    """Do what the first word says; return the exit code."""
    words = sys.argv[1:]
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command in ("", "-h", "--help", "help"):
        print(help_text())
        return 0 if command else WRONG_USE
    if command == "--version":
        print(f"indoubt {VERSION}")
        return 0
    for warning in unknown_variables(os.environ):
        print(f"indoubt: {visible(warning)}", file=sys.stderr)
    if command in BEGIN or command in PARTS:
        return _part(command, rest)
    return _ask(words)


def _part(command: str, rest: Sequence[str]) -> int:
    # Late imports: see above.
    match command:
        case "watch":
            from indoubt.program import watch

            return watch.main(rest, os.environ)
        case "collector":
            from indoubt.collector.__main__ import main as collector

            collector(rest)
        case "app":
            from indoubt.app.__main__ import main as app

            app(list(rest))
            return 0
        case "pipeline":
            from indoubt.pipeline.__main__ import main as pipeline

            return pipeline(rest)
        case "mcp":
            return _mcp(rest)
        case "token":
            from indoubt.collector.serve.cli import tokens

            return tokens.main(rest)
        case _:
            return _demo()


def _mcp(words: Sequence[str]) -> int:
    from indoubt.lifecycle import settings_file
    from indoubt.program import session

    if importlib.util.find_spec("mcp") is None:
        print("indoubt mcp: the package mcp is missing: pip install 'indoubt[mcp]'", file=sys.stderr)
        return WRONG_USE
    from indoubt.collector.serve.mcp_server import main as mcp_server

    try:
        environment = session.completed(os.environ, settings_file.cluster_of((), os.environ))
    except SettingsError as error:
        print(f"indoubt mcp: {visible(error)}", file=sys.stderr)
        return WRONG_USE
    return mcp_server.main(words, environment)


def _ask(words: Sequence[str]) -> int:
    from indoubt.collector.serve.cli import main as command_line
    from indoubt.lifecycle import settings_file
    from indoubt.program import session

    if words[0] not in command_line.COMMANDS:
        near = difflib.get_close_matches(words[0], [*BEGIN, *PARTS, *command_line.COMMANDS], 1)
        meant = f"is it '{near[0]}'? " if near else ""
        print(f"indoubt: there is no command '{visible(words[0])}'; {meant}'indoubt --help' lists all", file=sys.stderr)
        return WRONG_USE
    try:
        environment = session.completed(os.environ, settings_file.cluster_of(words, os.environ))
    except SettingsError as error:
        print(f"indoubt {words[0]}: {visible(error)}", file=sys.stderr)
        return WRONG_USE
    return command_line.main(words, environment)


def _demo() -> int:
    if not (_CHECKOUT / "pyproject.toml").exists():
        print(
            "indoubt demo: the demo is a part of the source, not of an installation: run 'make demo' in a checkout of indoubt",
            file=sys.stderr,
        )
        return WRONG_USE
    sys.argv[1:2] = []
    runpy.run_module("demo", run_name="__main__", alter_sys=True)
    return 0


def help_text() -> str:
    """Return what ``--help`` prints: every command, in groups."""
    from indoubt.collector.serve.cli.arguments import ORDERS, QUESTIONS

    groups = {
        "To begin": BEGIN,
        "Parts, each a process of its own": PARTS,
        "Ask a collector": QUESTIONS,
        "Give it orders": ORDERS,
    }
    width = max(map(len, [name for commands in groups.values() for name in commands])) + 4
    lines = [
        "usage: indoubt COMMAND …",
        "",
        "Shows every in-doubt transaction of a Kafka cluster, says what is safe to do, and does it.",
    ]
    for title, commands in groups.items():
        lines += ["", f"{title}:", *(f"  {name:<{width}}{what}" for name, what in commands.items())]
    return "\n".join(
        [
            *lines,
            "",
            "'indoubt COMMAND --help' says more. What asks or orders finds a 'watch' of the same user on this machine; another",
            "collector's address and token: INDOUBT_COLLECTOR_URL and INDOUBT_TOKEN or INDOUBT_TOKEN_FILE.",
        ]
    )


def _is_of_a_cluster(name: str) -> bool:
    from indoubt.program import clusters

    return clusters.is_known(name)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence about each variable that is named like one of ours and is none."""
    if not {name for name in environment if name.startswith("INDOUBT_")} - _COMMAND_VARIABLES:
        return []
    from indoubt.collector.config import variables

    known = variables.known()
    found = []
    for name in sorted(variables.unknown(environment)):
        if _is_of_a_cluster(name):
            continue
        near = difflib.get_close_matches(name, known, 1)
        found.append(f"{name} is no setting and changes nothing" + (f": is it {near[0]}?" if near else ""))
    return found
