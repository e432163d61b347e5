"""Work that can wait gives way to answers, and not for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from starlette.types import Message, Receive, Scope, Send

from collector.api import middleware
from collector.api.middleware import RequestGuard
from collector.assess import assessor
from collector.history import writer
from collector.history.store import Store
from collector.runtime.answers import MOMENT_S, MOST_S, Answers
from collector.sources.source import ObserverStatus
from collector.verdicts.verdict_case import Limits
from collector.views.current_state import CurrentState
from tests.unit.collector.alerting.http_receiver import wait_until
from tests.unit.collector.assessments import assessor_of
from tests.unit.collector.history.test_damaged_history import told

LIMIT_S = 10.0


class Rests:
    """Counts rests; ``until``: what happens at which of them."""

    def __init__(self, until: dict[int, Callable[[], bool]] | None = None) -> None:
        self.count, self._until = 0, until or {}

    def __call__(self, seconds: float) -> bool:
        assert seconds == MOMENT_S
        self.count += 1
        return self._until.get(self.count, lambda: False)()


def test_work_rests_while_a_request_is_being_answered() -> None:
    answers, nothing = Answers(), Rests()
    assert not answers.give_way(nothing)
    assert nothing.count == 0
    first, second = answers.begin(), answers.begin()
    first()
    first()

    def end() -> bool:
        second()
        return False

    rests = Rests({3: end})
    assert not answers.give_way(rests)
    assert rests.count == 3, "the first ended once, however often that was said"


def test_work_goes_on_after_a_while_or_as_soon_as_it_is_urgent() -> None:
    answers = Answers()
    answers.begin()
    long, urgent = Rests(), Rests({2: lambda: True})
    assert not answers.give_way(long)
    assert long.count == round(MOST_S / MOMENT_S)
    assert answers.give_way(urgent)
    assert urgent.count == 2


def test_a_request_is_being_answered_until_its_answer_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers()
    monkeypatch.setattr(middleware, "ANSWERS", answers)
    seen: list[int] = []

    def rests() -> int:
        counted = Rests({1: lambda: True})
        answers.give_way(counted)
        return counted.count

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(rests())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        seen.append(rests())
        if scope["path"] == "/broken":
            raise RuntimeError("a fault")
        await send({"type": "http.response.body", "body": b""})

    async def none(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(rests())

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def drop(_: Message) -> None:
        return

    for app, path, expected in ((stream, "/", [1, 0]), (stream, "/broken", [1, 0]), (none, "/", [1])):
        scope = {"type": "http", "method": "GET", "scheme": "http", "path": path, "headers": []}
        asyncio.run(RequestGuard(app)(scope, nothing, drop))
        assert seen == expected
        assert rests() == 0
        seen.clear()


class Held(Answers):
    """Stands for an answer that takes very long: who gives way rests until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, user: ModuleType) -> None:
        super().__init__()
        self.asked = threading.Event()
        monkeypatch.setattr(user, "ANSWERS", self)

    def give_way(self, rest: Callable[[float], bool]) -> bool:
        self.asked.set()
        return rest(3_600.0)


def test_history_is_written_after_an_answer_unless_a_caller_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch, writer)
    store = Store(tmp_path / "history.duckdb")
    store.append([told(0)])
    assert held.asked.wait(LIMIT_S)
    wait_until("the first row is committed", lambda: not store.waiting)
    store.append([told(1)])
    assert store.next_offsets("topic") == {0: 1}
    store.flushed()
    assert store.next_offsets("topic") == {0: 2}
    store.append([told(2)])
    store.close()
    again = Store(store.path)
    assert again.next_offsets("topic") == {0: 3}, "the end is not waited for either"
    again.close()


def test_what_is_open_is_judged_after_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "history.duckdb")
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    looks: list[int] = []

    def observers() -> list[ObserverStatus]:
        looks.append(1)
        return []

    held = Held(monkeypatch, assessor)
    assessing = assessor_of(current, 0.001, observers=observers)
    assessing.start()
    assert held.asked.wait(LIMIT_S)
    assessing.stop()
    assert not looks, "it was stopped while it gave way"
    store.close()
