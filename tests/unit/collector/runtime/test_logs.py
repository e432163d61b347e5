"""What Kafka's clients repeat is written once a minute; our own lines are written each time."""

from __future__ import annotations

import logging

import pytest

from indoubt.collector.runtime import logs

FAIL = "FAIL [rdkafka#consumer-%d] [thrd:b:9092/bootstrap]: Connect to ipv4#10.0.0.1:9092 failed (after %dms)"


def line(name: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, __file__, 1, text, (), None)


def test_what_a_client_repeats_is_written_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now_s)
    once = logs.OncePerMinute()
    said = [once.filter(line("indoubt.collector.observe.topic_reader", FAIL % (n, n))) for n in range(5)]
    assert said == [True, False, False, False, False], "they differ in their numbers alone"
    assert once.filter(line("kafka.net.manager", "Connection failed: 111"))
    assert not once.filter(line("kafka.net.manager", "Connection failed: 113"))
    now_s += logs.REPEATED_AFTER_S
    assert once.filter(line("kafka.net.manager", "Connection failed: 111"))


def test_our_own_lines_are_written_each_time() -> None:
    once = logs.OncePerMinute()
    assert all(once.filter(line("indoubt.collector.observe.source", "decision log: down")) for _ in range(3))


def test_so_many_kinds_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "KINDS_KEPT", 2)
    once = logs.OncePerMinute()
    assert all(once.filter(line("kafka.net", f"lost {name}")) for name in "abc")
    assert once.filter(line("kafka.net", "lost a")), "forgotten with the others"
