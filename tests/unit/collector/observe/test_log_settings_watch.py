"""The decision log's configuration is asked for now and then; nobody waits for the answer."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from indoubt.collector.observe.decision_log import ASK_AGAIN_S, ASK_EVERY_S, LogSettingsWatch
from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Admin:
    """Stands for an AdminClient: questions are answered when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Future[Any]]:
        self.asked.append(Future())
        return {resources[0]: self.asked[-1]}

    def answer(self, **settings: str) -> None:
        found = FORGETS_NOTHING | {name.replace("_", "."): value for name, value in settings.items()}
        self.asked[-1].set_result({name: SimpleNamespace(value=value) for name, value in found.items()})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.fixture
def watch(admin: Admin, clock: Clock) -> LogSettingsWatch:
    return LogSettingsWatch(lambda: admin, "t", clock)  # type: ignore[arg-type, return-value]


def test_it_asks_at_once_and_then_seldom(watch: LogSettingsWatch, admin: Admin, clock: Clock) -> None:
    assert [watch.read(), watch.read()] == [None, None], "it waits for no answer"
    assert len(admin.asked) == 1
    admin.answer(retention_ms="1")
    found = watch.read()
    assert found is not None
    assert (found.topic, found.said) == ("t", "retention.ms=1")
    clock.now_s += ASK_EVERY_S - 1
    assert watch.read() is None
    assert len(admin.asked) == 1
    clock.now_s += 1
    assert watch.read() is None
    admin.answer()
    mended = watch.read()
    assert mended is not None
    assert mended.wrong == ()


def test_a_configuration_that_may_not_be_read_is_said(watch: LogSettingsWatch, admin: Admin, clock: Clock) -> None:
    watch.read()
    admin.asked[-1].set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    assert watch.read() is None
    assert "allow DescribeConfigs on it" in watch.denied
    clock.now_s += ASK_AGAIN_S
    watch.read()
    admin.answer()
    assert watch.read() is not None
    assert watch.denied == ""
