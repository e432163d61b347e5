"""Live regions: one rendering for all viewers, only what changed is sent, and the last content stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.markup import el
from indoubt.app.regions import component, region_server
from indoubt.app.regions.region_content import Query, RegionContent, changes
from indoubt.app.regions.region_server import RegionServer, TooManyViews
from indoubt.app.settings import Settings
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_server import ContractServer

LIMIT_S = 20.0


class Shown:
    """A region whose blocks a test sets; it counts its renderings."""

    def __init__(self) -> None:
        self.blocks: dict[str, str] = {"a": "first"}
        self.renderings = 0

    def render(self, client: CollectorClient, query: Query) -> RegionContent:
        client.overview()
        self.renderings += 1
        return {name: el("p", text, query.get("words", "")) for name, text in self.blocks.items()}


@pytest.fixture
def known() -> Answers:
    return Answers()


@pytest.fixture
def served(known: Answers) -> Iterator[ContractServer]:
    with ContractServer(known) as server:
        yield server
        known.ends_streams = True


@asynccontextmanager
async def running(server: ContractServer, shown: Shown) -> AsyncGenerator[RegionServer]:
    settings = Settings.from_environment({"INDOUBT_COLLECTOR_URL": server.url, "INDOUBT_TOKEN": TOKEN})
    regions = RegionServer(CollectorClient(settings, 5.0), {"shown": shown.render})
    regions.start()
    try:
        yield regions
    finally:
        await regions.stop()


async def until(what: str, messages: AsyncGenerator[str], holds: Any) -> dict[str, Any]:
    """Return the first message that holds."""
    try:
        async with asyncio.timeout(LIMIT_S):
            async for text in messages:
                message: dict[str, Any] = json.loads(text)
                if holds(message):
                    return message
    except TimeoutError:
        pass
    raise AssertionError(f"no message in {LIMIT_S:.0f} s with {what}")


async def reached(what: str, holds: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"no success after waiting {LIMIT_S:.0f} s for {what}") from None


def has_blocks(message: dict[str, Any]) -> bool:
    return "blocks" in message


def test_a_viewer_gets_the_picture_and_then_only_what_changed(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            messages = regions.messages("shown", {"words": "<x>"})
            first = await until("blocks", messages, has_blocks)
            assert first["blocks"] == {"a": "<p>first&lt;x&gt;</p>"}
            assert first["order"] == ["a"]
            shown.blocks = {"b": "new", "a": "first"}
            known.version += 1
            second = await until("blocks", messages, has_blocks)
            assert second["blocks"] == {"b": "<p>new&lt;x&gt;</p>"}
            assert second["order"] == ["b", "a"]

    asyncio.run(view())


def test_a_slow_rendering_is_followed_by_a_longer_pause_that_a_new_viewer_ends(served, known, monkeypatch):
    monkeypatch.setattr(region_server, "MIN_PAUSE_S", 0.0)
    monkeypatch.setattr(region_server, "MAX_PAUSE_S", 10 * LIMIT_S)
    monkeypatch.setattr(region_server, "PAUSE_TIMES", 1e6)

    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            await until("blocks", regions.messages("shown", {}), has_blocks)
            shown.blocks = {"a": "second"}
            known.version += 1
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await reached("another rendering", lambda: shown.renderings > 1)
            other = await until("blocks", regions.messages("shown", {"words": "new"}), has_blocks)
            assert other["blocks"] == {"a": "<p>secondnew</p>"}

    asyncio.run(view())


def test_an_expected_region_is_ready_when_its_viewer_comes(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            await asyncio.to_thread(regions.prefetch, "shown", {})
            regions.prefetch("unknown", {})
            await reached("a rendering without a viewer", lambda: shown.renderings == 1)
            shown.blocks = {"a": "second"}
            first = await until("blocks", regions.messages("shown", {}), has_blocks)
            assert first["blocks"] == {"a": "<p>first</p>"}

    asyncio.run(view())


def test_a_region_that_was_expected_in_vain_is_left_alone(served, known, monkeypatch):
    monkeypatch.setattr(region_server, "PREFETCHED_FOR_S", 0.2)

    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            regions.prefetch("shown", {})
            await reached("an open stream of changes", lambda: known.streams == 1)
            await reached("its end", lambda: known.streams == 0)
        regions.prefetch("shown", {})
        assert shown.renderings == 1

    asyncio.run(view())


def test_a_new_viewer_has_the_others_rendered_once_more_only_after_a_change(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            stays = regions.messages("shown", {"words": "a"})
            await until("blocks", stays, has_blocks)
            viewers = [regions.messages("shown", {"words": word}) for word in ("b", "c")]
            before = shown.renderings
            for messages in viewers:
                await until("blocks", messages, has_blocks)
            assert shown.renderings == before + 2
            await stays.aclose()

    asyncio.run(view())


def test_a_page_says_which_region_it_writes_before_the_browser_asks_for_it(monkeypatch):
    heard: list[object] = []
    monkeypatch.setattr(component, "_prefetches", [])
    monkeypatch.setattr(component, "_component", lambda **_: heard.append("written"))
    component.tell_before_shown(lambda name, query: heard.append((name, query)))
    component.show("shown", {"words": "x"}, {}, on_click=lambda _: None)
    assert heard == [("shown", {"words": "x"}), "written"]


def test_one_rendering_serves_all_who_see_the_same(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            viewers = [regions.messages("shown", {}) for _ in range(20)]
            for messages in viewers:
                await until("blocks", messages, has_blocks)
            before = shown.renderings
            shown.blocks = {"a": "second"}
            known.version += 1
            for messages in viewers:
                await until("the second content", messages, lambda m: m.get("blocks") == {"a": "<p>second</p>"})
            # Another sign of change may have come between.
            assert shown.renderings - before <= 3

    asyncio.run(view())


def test_the_regions_of_one_rendering_share_the_collectors_answers(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            viewers = [regions.messages("shown", {"words": word}) for word in ("a", "b", "c", "d")]
            for messages in viewers:
                await until("blocks", messages, has_blocks)
            asked, before = known.asked.count("overview"), shown.renderings
            shown.blocks = {"a": "second"}
            known.version += 1
            for messages in viewers:
                await until("the second content", messages, lambda m: "second" in m.get("blocks", {}).get("a", ""))
            # Each rendering asks for the overview once, whatever it renders.
            assert 2 * (known.asked.count("overview") - asked) <= shown.renderings - before

    asyncio.run(view())


def test_the_last_picture_stays_while_the_collector_is_away(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            messages = regions.messages("shown", {})
            await until("blocks", messages, has_blocks)
            known.loading, known.ends_streams = True, True
            lost = await until("a lost collector", messages, lambda m: m["lost"])
            assert "blocks" not in lost, "what a viewer shows stays as it is"
            assert lost["as_of_ms"] <= lost["now_ms"]
            shown.blocks = {"a": "back"}
            known.loading, known.ends_streams = False, False
            back = await until("the content after the return", messages, has_blocks)
            assert back["blocks"] == {"a": "<p>back</p>"}
            assert back["lost"] == ""

    asyncio.run(view())


def test_the_collector_is_left_alone_while_nobody_watches(served, known):
    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            messages = regions.messages("shown", {})
            await until("blocks", messages, has_blocks)
            await reached("an open stream of changes", lambda: known.streams == 1)
            await messages.aclose()
            await reached("its end", lambda: known.streams == 0)
            before = shown.renderings
            known.version += 1
            await until("blocks", regions.messages("shown", {"words": "later"}), has_blocks)
            assert shown.renderings == before + 1

    asyncio.run(view())


def test_a_region_that_fails_says_so_and_the_others_go_on(served):
    def broken(client: CollectorClient, query: Query) -> RegionContent:
        raise ZeroDivisionError

    async def view() -> None:
        shown = Shown()
        async with running(served, shown) as regions:
            regions._regions["broken"] = broken
            failed = await until("blocks", regions.messages("broken", {}), has_blocks)
            assert "cannot be shown" in failed["blocks"]["error"]
            await until("blocks", regions.messages("shown", {}), has_blocks)

    asyncio.run(view())


def test_more_different_views_than_the_limit_are_refused(served, monkeypatch):
    monkeypatch.setattr(region_server, "MAX_VIEWS", 1)

    async def view() -> None:
        async with running(served, Shown()) as regions:
            first = regions.messages("shown", {})
            await until("blocks", first, has_blocks)
            with pytest.raises(TooManyViews, match="close some tabs"):
                await anext(regions.messages("shown", {"words": "more"}))

    asyncio.run(view())


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({}, {"a": "1"}, {"blocks": {"a": "1"}, "order": ["a"]}),
        ({"a": "1"}, {"a": "1"}, {}),
        ({"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"blocks": {"b": "3"}}),
        ({"a": "1", "b": "2"}, {"b": "2"}, {"order": ["b"]}),
        ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"order": ["b", "a"]}),
    ],
)
def test_a_message_holds_what_changed_and_nothing_else(before, now, message):
    assert changes(before, now) == message


def test_a_region_without_a_block_says_so_in_whole_json(served):
    async def view() -> None:
        shown = Shown()
        shown.blocks = {}
        async with running(served, shown) as regions:
            await until("a heartbeat", regions.messages("shown", {}), lambda message: shown.renderings > 0)

    asyncio.run(view())
