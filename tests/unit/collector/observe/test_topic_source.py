"""Reading on while the records before are folded: each is handed over once, in order, and none that follows a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest
from confluent_kafka import Message

from indoubt.collector.history.store import Store
from indoubt.collector.observe import topic_source
from indoubt.collector.observe.lifecycle_topic import LifecycleTopic
from indoubt.collector.observe.topic_reader import Records, TopicRecreated
from indoubt.collector.observe.topic_source import AHEAD_FROM, HandOver
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection

MANY, FEW = AHEAD_FROM, 3
ID = "topic id"
EVENT = LifecycleEvent(
    type=EventType.CHECKPOINT_STARTED, source="/p", subject="s", at_ms=1, data={"pipeline": "p", "batch": 1}
)


class Disturbed(Exception):
    """What goes wrong in these tests."""


class Topic(LifecycleTopic):
    """Notes what is handed over, and how often it was told to have been read to its end."""

    def __init__(self, current: CurrentState, store: Store) -> None:
        super().__init__(current, store, KafkaConnection("127.0.0.1:1"), "events")
        self.handed_over: list[int] = []
        self.ends: list[bool] = []
        self.fails_at: int | None = None

    def decoded(self, records: Records) -> HandOver:
        """Return what notes how many there are."""
        hand_over = super().decoded(records)

        def noted() -> None:
            if self.fails_at == len(self.handed_over):
                raise Disturbed
            hand_over()
            self.handed_over.append(len(records.messages))

        return noted

    def read_on(self, has_reached_end: bool) -> None:
        """Note it."""
        self.ends.append(has_reached_end)


class Script:
    """Stands in the place of a TopicReader: returns reads of given sizes, then raises or stops the observer."""

    def __init__(self, topic: Topic, sizes: Sequence[int], last: Callable[[], None]) -> None:
        self._topic, self._sizes, self._last = topic, iter(sizes), last
        self._offset = 0
        self.topic_id = ID
        self.has_reached_end, self.is_behind = True, False
        self.limits_s: list[float] = []

    def __enter__(self) -> Script:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def find(self) -> None:
        """There it is."""

    def start(self, offsets: dict[int, int]) -> None:
        """Nothing to prepare."""

    def read(self, limit_s: float) -> Records:
        """Return the next records of partition 0."""
        self.limits_s.append(limit_s)
        size = next(self._sizes, None)
        if size is None:
            self._last()
            size = 0
        begin, self._offset = self._offset, self._offset + size
        messages = [
            Message(topic="events", partition=0, offset=n, value=encode(EVENT)) for n in range(begin, begin + size)
        ]
        return Records(
            messages=messages, partition=np.zeros(size, np.int64), offset=np.arange(begin, begin + size, dtype=np.int64)
        )


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        yield Topic(CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits()), store)


def read(topic: Topic, monkeypatch: pytest.MonkeyPatch, sizes: Sequence[int], last: Callable[[], None]) -> Script:
    script = Script(topic, sizes, last)
    monkeypatch.setattr(topic_source, "TopicReader", lambda *_: script)
    topic.observe()
    return script


def next_offset(topic: Topic) -> int:
    """Return how far history has the topic."""
    topic._store.flushed()
    return topic._store.next_offsets(topic.source).get(0, 0)


def test_records_are_handed_over_in_order_whether_many_come_or_few(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [FEW, MANY, MANY + 1, FEW, MANY, 0, MANY + 2]
    script = read(topic, monkeypatch, sizes, topic.stopping.set)
    assert topic.handed_over == [size for size in sizes if size]
    assert next_offset(topic) == topic.status.records == sum(sizes)
    assert script.limits_s == [
        topic_source.READ_LIMIT_S if n == 0 or sizes[n - 1] < MANY else 0 for n in range(len(sizes) + 1)
    ]
    assert topic.ends == [size < MANY for size in sizes] + [True], "not at the end while records are not handed over"


def test_what_was_read_before_a_read_failed_is_handed_over(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_anew() -> None:
        raise TopicRecreated("topic events was recreated")

    with pytest.raises(TopicRecreated):
        read(topic, monkeypatch, [FEW, MANY], made_anew)
    assert topic.handed_over == [FEW, MANY]
    assert next_offset(topic) == FEW + MANY


def test_after_records_that_could_not_be_handed_over_none_are(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.fails_at = 1
    with pytest.raises(Disturbed):
        read(topic, monkeypatch, [MANY, MANY + 1, MANY + 2], topic.stopping.set)
    assert topic.handed_over == [MANY]
    assert next_offset(topic) == MANY


def test_an_observer_that_falls_behind_has_not_caught_up(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    caught_up: list[bool] = []

    def follow(has_reached_end: bool) -> None:
        caught_up.append(topic.has_caught_up)
        script.is_behind = len(caught_up) in (2, 3)
        script.has_reached_end = len(caught_up) not in (1, 2, 3)

    script = Script(topic, [FEW] * 5, topic.stopping.set)
    monkeypatch.setattr(topic, "read_on", follow)
    monkeypatch.setattr(topic_source, "TopicReader", lambda *_: script)
    topic.observe()
    assert caught_up == [True, True, False, False, True, True]


def test_what_was_read_before_a_stop_is_handed_over(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "read_on", lambda _: topic.stopping.set())
    script = read(topic, monkeypatch, [MANY], topic.stopping.set)
    assert len(script.limits_s) == 1
    assert topic.handed_over == [MANY]
    assert next_offset(topic) == MANY
