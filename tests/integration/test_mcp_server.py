"""The MCP server as an assistant's host starts it, asked by the package's own client, against a real collector and broker."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, ROOT, VIEWER, CollectorProcess, running
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until

pytestmark = pytest.mark.integration
PAGES = "https://indoubt.example"


@pytest.fixture(scope="module")
def sink(connection: KafkaConnection) -> Sink:
    """Return a topic with two transactions that somebody else left open."""
    made = make_sink(connection)
    for slot in (0, 1):
        made.prepare(b"row", slot=slot, timeout_ms=600_000)
    return made


@pytest.fixture(scope="module")
def collector(broker: Broker, sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    settings = {"INDOUBT_FOREIGN_OLD_MS": "1"}
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), environment=settings) as process:
        for slot in (0, 1):
            process.wait_for(f"{sink.prefix}-{slot}-0", may_abort=True)
        yield process


def environment(collector: CollectorProcess, token: str = VIEWER) -> dict[str, str]:
    return {"INDOUBT_COLLECTOR_URL": collector.url, "INDOUBT_TOKEN": token, "INDOUBT_PUBLIC_URL": PAGES}


def on_stdio(collector: CollectorProcess, token: str = VIEWER) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "indoubt", "mcp"], env=environment(collector, token), cwd=ROOT
    )


def told(server: StdioServerParameters | str, calls: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what each tool answers, by its name; of a call that failed its words."""

    async def ask() -> dict[str, Any]:
        found: dict[str, Any] = {}
        async with Client(server) as client:
            for name, arguments in calls.items():
                answer = await client.call_tool(name, dict(arguments))
                found[name] = answer.content[0].text if answer.is_error else answer.structured_content
        return found

    return asyncio.run(asyncio.wait_for(ask(), LIMIT_S))


def test_an_assistant_learns_what_is_wrong_and_why(collector: CollectorProcess, sink: Sink) -> None:
    row = collector.wait_for(f"{sink.prefix}-0-0")
    found = told(
        on_stdio(collector),
        {
            "what_needs_attention": {},
            "find_transactions": {"words": sink.prefix},
            "transaction": {"key": row["key"]},
            "was_data_lost": {"transaction": row["transaction"]},
            "timeouts": {},
        },
    )
    assert found["what_needs_attention"]["page"] == f"{PAGES}/overview"
    assert {one["transaction"] for one in found["find_transactions"]["rows"]} == {
        f"{sink.prefix}-{slot}-0" for slot in (0, 1)
    }
    one = found["transaction"]
    assert (one["verdict"], one["key"]) == (row["verdict"], row["key"])
    assert one["evidence"]
    assert one["page"].startswith(f"{PAGES}/transaction?key=")
    assert found["was_data_lost"]["rows"] == []
    assert row["pipeline"] in {one["pipeline"] for one in found["timeouts"]["rows"]}


def test_a_dry_run_does_nothing_and_a_person_can_give_the_order_that_it_showed(
    collector: CollectorProcess, sink: Sink
) -> None:
    before = collector.rows("audit")
    wanted = {"action": "abort", "transaction_prefix": f"{sink.prefix}-1"}
    dry = told(on_stdio(collector), {"dry_run_order": wanted})["dry_run_order"]
    (order,) = dry["orders"]
    assert (dry["done"], dry["transactions"], order["must_be_typed"]) == ("nothing", 1, True)
    assert "confirm" not in order
    assert dry["page"].startswith(f"{PAGES}/transaction?key=")
    assert collector.rows("audit") == before
    assert collector.wait_for(f"{sink.prefix}-1-0")["verdict"] != "settled"
    shown = collector.preview(transaction_prefix=f"{sink.prefix}-1")
    assert shown["conditions"][0]["fingerprint"] == order["fingerprint"]
    assert collector.over(collector.begin_run(shown).json()["run"])["outcome"] == "accepted"


def test_an_assistant_is_told_why_it_has_no_answer(collector: CollectorProcess) -> None:
    found = told(on_stdio(collector), {"transaction": {"key": "kafka:none:1:1"}, "dry_run_order": {"action": "abort"}})
    assert "none" in found["transaction"]
    assert "takes one or more of" in found["dry_run_order"]
    refused = told(on_stdio(collector, "wrong-token-of-nobody-at-all-in-here"), {"timeouts": {}})
    assert "no valid token" in refused["timeouts"]


def test_every_tool_says_that_it_only_reads(collector: CollectorProcess) -> None:
    async def listed() -> list[Any]:
        async with Client(on_stdio(collector)) as client:
            return list((await client.list_tools()).tools)

    tools = asyncio.run(asyncio.wait_for(listed(), LIMIT_S))
    assert len(tools) == 6
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)


@contextmanager
def by_http(collector: CollectorProcess, directory: Path) -> Iterator[str]:
    """Serve by HTTP, and return the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "indoubt", "mcp", "--http", str(port)]
    env = {"HOME": str(directory), "PATH": "", **environment(collector)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL) as process:
        try:

            def answers() -> bool:
                try:
                    return httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT_S).status_code == 404
                except httpx.ConnectError:
                    return False

            wait_until("the MCP server answers", answers, LIMIT_S)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def test_it_is_served_by_http_to_its_own_names_alone(collector: CollectorProcess, sink: Sink, tmp_path: Path) -> None:
    with by_http(collector, tmp_path) as address:
        found = told(address, {"find_transactions": {"words": sink.prefix}})
        assert found["find_transactions"]["rows"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream"}
        for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            assert httpx.post(address, json=body, headers=accept | header).status_code in (403, 421)
