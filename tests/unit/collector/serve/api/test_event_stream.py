"""The stream of changes: none is missed, whichever thread it comes from, and many are told as one."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from indoubt.collector.serve.api import event_stream
from indoubt.collector.serve.api.event_stream import Changes

LIMIT_S = 20.0


def version(event: str) -> int:
    return int(json.loads(event.split("data: ")[1])["version"])


def test_a_stream_that_waits_is_woken_from_another_thread():
    async def follow() -> int:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        stream = changes.stream()
        assert version(await anext(stream)) == 0
        told = asyncio.create_task(anext(stream))
        while not any(each.waits for each in changes._streams):
            await asyncio.sleep(0)
        threading.Thread(target=changes.tell, args=(7,)).start()
        return version(await asyncio.wait_for(told, LIMIT_S))

    assert asyncio.run(follow()) == 7


def test_what_changes_while_a_stream_pauses_is_told_as_one_and_does_not_wake_the_loop(monkeypatch):
    async def follow() -> int:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        stream = changes.stream()
        await anext(stream)
        monkeypatch.setattr(changes, "_wake_soon", lambda: pytest.fail("it is awake"))
        for number in range(1, 4):
            changes.tell(number)
        event = await asyncio.wait_for(anext(stream), LIMIT_S)
        return version(event)

    assert asyncio.run(follow()) == 3


def test_a_version_that_two_threads_tell_is_told_again():
    async def follow() -> list[int]:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        stream, seen = changes.stream(), []
        await anext(stream)
        for _ in range(2):
            changes.tell(5)
            seen.append(version(await asyncio.wait_for(anext(stream), LIMIT_S)))
        return seen

    assert asyncio.run(follow()) == [5, 5]


def test_a_quiet_stream_tells_that_it_lives_and_ends_when_it_is_closed(monkeypatch):
    monkeypatch.setattr(event_stream, "ALIVE_EVERY_S", 0.01)

    async def follow() -> list[str]:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        seen = []
        async for event in changes.stream():
            seen.append(event.split("\n")[0])
            if len(seen) == 2:
                threading.Thread(target=changes.close).start()
        return seen

    seen = asyncio.run(follow())
    assert seen[:2] == ["event: changed", "event: alive"]
