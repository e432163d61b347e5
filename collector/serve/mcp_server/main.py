"""``indoubt mcp``: serves the tools on stdin and stdout, or by HTTP on loopback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.mcp_server.questions import INSTRUCTIONS, Questions
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.version import VERSION
from indoubt.lifecycle.visible_text import visible

WRONG_USE = 2
PUBLIC_URL, DEFAULT_PAGES = "INDOUBT_PUBLIC_URL", "http://127.0.0.1:8651"
LOOPBACK = "127.0.0.1"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; each option has a line in docs/settings.md."""
    made = argparse.ArgumentParser(
        prog="indoubt mcp",
        description="Serve a collector's answers to an AI assistant (Model Context Protocol), on stdin and stdout. It gives no "
        "order. Collector and token are found as by every other command.",
    )
    made.add_argument("--http", type=int, metavar="PORT", help=f"serve http://{LOOPBACK}:PORT/mcp instead")
    made.add_argument(
        "--public-url", default="", help=f"address of the pages, for links (or {PUBLIC_URL}; default: {DEFAULT_PAGES})"
    )
    return made


def main(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Serve until the client, or a signal, ends it; return the exit code."""
    given = parser().parse_args(words)
    try:
        client = Client.from_environment(environment, settings_file.cluster_of((), environment))
    except SettingsError as error:
        print(f"indoubt mcp: {visible(error)}", file=sys.stderr)
        return WRONG_USE
    pages = given.public_url or environment.get(PUBLIC_URL) or DEFAULT_PAGES
    served = server(client, pages.rstrip("/"))
    if given.http is None:
        served.run("stdio")
    else:
        # It keeps to loopback, and refuses other names in Host and Origin: no token is asked for.
        served.run("streamable-http", host=LOOPBACK, port=given.http)
    return 0


def server(client: Client, pages: str) -> MCPServer[None]:
    """Return the server with its tools; ``pages``: the app's address."""
    made: MCPServer[None] = MCPServer("indoubt", version=VERSION, instructions=INSTRUCTIONS, log_level="WARNING")
    only_reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in Questions(client, pages).tools:
        made.tool(annotations=only_reads)(tool)
    return made
