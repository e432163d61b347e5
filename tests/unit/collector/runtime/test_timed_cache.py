"""Answers that are kept for a while."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from collector.runtime.timed_cache import TtlCache

EVERY_MS = 2_000


def test_an_answer_is_kept_for_its_time_and_never_given_for_an_earlier_one() -> None:
    kept = TtlCache(lambda at_ms: at_ms, EVERY_MS)
    assert [kept.at(at_ms) for at_ms in (10_000, 11_999, 12_000, 11_000)] == [10_000, 10_000, 12_000, 11_000]


def test_the_keys_that_were_asked_for_last_are_kept() -> None:
    found: list[str] = []

    def find(at_ms: int, key: str) -> str:
        found.append(key)
        return f"{key} at {at_ms}"

    kept = TtlCache(find, EVERY_MS, most=2)
    assert [kept.at(10_000, key) for key in "aba"] == ["a at 10000", "b at 10000", "a at 10000"]
    kept.at(10_000, "c")
    assert [kept.at(10_001, key) for key in "ab"] == ["a at 10000", "b at 10001"]
    assert found == ["a", "b", "c", "b"]


def test_an_answer_that_failed_is_made_again() -> None:
    failures = [ValueError("history cannot be read")]

    def find(at_ms: int) -> int:
        if failures:
            raise failures.pop()
        return at_ms

    kept = TtlCache(find, EVERY_MS)
    with pytest.raises(ValueError, match="cannot be read"):
        kept.at(10_000)
    assert kept.at(10_001) == 10_001


def test_who_asks_while_an_answer_is_made_gets_the_same_and_others_do_not_wait() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def find(at_ms: int, key: str) -> object:
        if key == "slow":
            begun.set()
            assert go_on.wait(10)
        return object()

    kept = TtlCache(find, EVERY_MS, most=2)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(kept.at, 10_000, "slow")
        assert begun.wait(10)
        second = threads.submit(kept.at, 10_001, "slow")
        kept.at(10_001, "quick")
        go_on.set()
        assert first.result(10) is second.result(10)
