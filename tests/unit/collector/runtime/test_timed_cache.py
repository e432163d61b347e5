"""Answers that are kept for a while."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from indoubt.collector.runtime.timed_cache import Refresher, TtlCache

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


def test_what_is_asked_for_often_is_kept_ready_until_no_one_asks_any_more() -> None:
    times_ms = [10_000, 11_999, 12_000, 14_000, 14_100, 18_000, 22_000]
    found: list[int] = []

    def find(at_ms: int) -> int:
        found.append(at_ms)
        return at_ms

    refresher = Refresher(iter(times_ms).__next__)
    kept = refresher.add(TtlCache(find, EVERY_MS))
    refresher.refresh()
    assert found == [], "no one asked"
    assert [kept.at(at_ms) for at_ms in (10_000, 10_500)] == [10_000, 10_000]
    refresher.refresh()
    assert found == [10_000], "it is not time yet"
    refresher.refresh()
    assert found == [10_000, 12_000]
    refresher.refresh()
    assert found == [10_000, 12_000], "no one has asked since"
    assert kept.at(14_050) == 12_000
    refresher.refresh()
    assert found == [10_000, 12_000, 14_100]
    assert kept.at(18_099) == 14_100, "it is as good as ready: the next one is late"
    assert kept.at(18_100) == 18_100, "the refresher does not come"
    refresher.refresh()
    refresher.refresh()
    assert found[-1] == 18_100


def test_an_answer_that_cannot_be_kept_ready_is_asked_for_again_and_holds_up_no_other() -> None:
    failures = [ValueError("history cannot be read")] * 2

    def find(at_ms: int, key: str) -> int:
        if key == "damaged" and at_ms > 10_000 and failures:
            raise failures.pop()
        return at_ms

    refresher = Refresher(lambda: 12_000)
    kept = refresher.add(TtlCache(find, EVERY_MS, most=2))
    assert [kept.at(at_ms, key) for at_ms in (10_000, 10_001) for key in ("damaged", "whole")] == [10_000] * 4
    refresher.refresh()
    assert (kept.at(13_000, "damaged"), kept.at(13_000, "whole")) == (10_000, 12_000)
    with pytest.raises(ValueError, match="cannot be read"):
        kept.at(14_000, "damaged")
    assert kept.at(14_001, "damaged") == 14_001


def test_who_asks_while_the_next_answer_is_made_gets_the_last_one() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def find(at_ms: int) -> int:
        if at_ms > 10_000:
            begun.set()
            assert go_on.wait(10)
        return at_ms

    refresher = Refresher(lambda: 12_000)
    kept = refresher.add(TtlCache(find, EVERY_MS))
    assert kept.at(10_000) == kept.at(10_001) == 10_000
    refresher.start()
    assert begun.wait(10)
    assert kept.at(12_500) == 10_000
    go_on.set()
    refresher.stop()
    assert kept.at(12_500) == 12_000
