"""SIGHUP asks for the settings to be read again, from the very start of the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from indoubt.collector.runtime import hangup
from indoubt.collector.runtime.hangup import READ_AGAIN


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("is_ignored", [False, True])
@pytest.mark.parametrize("has_terminal", [False, True])
def test_each_is_heard(monkeypatch: pytest.MonkeyPatch, has_terminal: bool, is_ignored: bool) -> None:
    monkeypatch.setattr(hangup, "has_terminal", lambda: has_terminal)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    heard = hangup.listen()
    assert heard.empty()
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGHUP)
    assert [heard.get(timeout=5.0), heard.get(timeout=5.0)] == [READ_AGAIN, READ_AGAIN]


@pytest.mark.parametrize("is_ignored", [False, True], ids=["in a window", "by nohup"])
def test_a_closed_window_ends_what_was_started_in_it(monkeypatch: pytest.MonkeyPatch, is_ignored: bool) -> None:
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    monkeypatch.setattr(hangup, "has_terminal", lambda: True)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    heard = hangup.listen()
    monkeypatch.setattr(hangup, "has_terminal", lambda: False)
    os.kill(os.getpid(), signal.SIGHUP)
    assert (bool(ended), heard.empty()) == (not is_ignored, not is_ignored)
