"""Partitions that librdkafka has ceased to read: found by its statistics, and only those that could be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resource_managers.kafka.stalled_partitions import LATER, StalledPartitions

FETCHED = {"desired": True, "leader": 2, "broker": 2, "fetch_state": "active"}
STALLED = {"desired": True, "leader": 2, "broker": -1, "fetch_state": "validate-epoch-wait"}


def statistics(**partitions: dict[str, Any]) -> str:
    of_topic = {number.removeprefix("p"): partition for number, partition in partitions.items()}
    return json.dumps({"topics": {"t": {"partitions": of_topic}}})


def found_after(*states: dict[str, Any]) -> list[tuple[str, int]]:
    watch = StalledPartitions()
    for state in states:
        watch.note(statistics(p0=FETCHED, p7=state))
    return watch.found()


@pytest.mark.parametrize(
    ("state", "is_stalled"),
    [
        (FETCHED, False),
        (STALLED, True),
        (STALLED | {"broker": 2}, True),
        (FETCHED | {"broker": -1}, True),
        (FETCHED | {"fetch_state": "offset-wait"}, True),
        # Read from a follower (KIP-392).
        (FETCHED | {"broker": 3}, False),
        (STALLED | {"leader": -1}, False),
        (STALLED | {"desired": False}, False),
    ],
)
def test_what_has_a_leader_and_is_not_fetched_is_stalled(state: dict[str, Any], is_stalled: bool) -> None:
    assert found_after(*[state] * LATER) == ([("t", 7)] if is_stalled else [])


def test_a_partition_counts_only_when_it_is_not_fetched_for_long() -> None:
    assert found_after(*[STALLED] * (LATER - 1)) == []
    assert found_after(*[STALLED] * (LATER - 1), FETCHED, *[STALLED] * (LATER - 1)) == []


def test_what_was_found_counts_anew() -> None:
    watch = StalledPartitions()
    for times in range(2):
        for _ in range(LATER):
            assert watch.found() == [], times
            watch.note(statistics(p3=STALLED, p11=STALLED))
        assert watch.found() == [("t", 3), ("t", 11)]
