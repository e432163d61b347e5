"""The MCP server: its options are documented, and its tools ask nothing that changes something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.server.mcpserver.exceptions import ToolError

from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.mcp_server.main import DEFAULT_PAGES, Questions, parser
from indoubt.lifecycle.verdicts import Verdict
from tests.unit import settings_page
from tests.unit.collector.serve.api.served_api import VIEWER, Api


def test_each_option_is_documented() -> None:
    options = {name for action in parser()._actions for name in action.option_strings if name not in ("-h", "--help")}
    documented = settings_page.documented("mcp")
    assert {name for name in documented if name.startswith("--")} == options
    assert documented["--public-url"] == DEFAULT_PAGES


def asked(tmp_path: Path, **arguments: Any) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return what a dry run asks a collector, and its answer."""
    api, paths = Api(tmp_path), []

    def send(request: httpx.Request) -> httpx.Response:
        paths.append((request.method, request.url.path))
        told = api.client.request(request.method, str(request.url), content=request.content, headers=VIEWER)
        return httpx.Response(told.status_code, content=told.content)

    http = httpx.Client(base_url="http://collector", transport=httpx.MockTransport(send))
    try:
        return paths, Questions(Client("http://collector", http), "http://pages").dry_run_order(**arguments)
    finally:
        api.store.close()


def test_a_dry_run_asks_for_a_preview_alone_and_links_to_the_page_of_the_same_filter(tmp_path: Path) -> None:
    paths, answer = asked(tmp_path, action="abort", pipeline="nobody", verdict=Verdict.FOREIGN)
    assert paths == [("POST", "/api/v1/orders/preview")]
    assert (answer["done"], answer["transactions"], answer["orders"]) == ("nothing", 0, [])
    assert answer["page"] == "http://pages/transactions?filter-words=nobody&verdict=foreign"


def test_a_refusal_is_told_in_the_collectors_words(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="takes one or more of"):
        asked(tmp_path, action="abort")
