"""A broker that answers late, but within the limit, fails no task that asks it for the leaders of the sink's topic."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.lifecycle.child_processes import with_descendants
from indoubt.lifecycle.errors import Unreachable
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Layout
from indoubt.resource_managers.kafka.row_sender import find_leaders
from tests.crash.processes import send
from tests.integration.kafka_fixtures import LIMIT_S, connection_to, make_sink, wait_until
from tests.integration.pipeline_process import stands_still

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_leaders_are_asked_for_again_after_an_answer_that_came_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, late = KafkaPartitions.layout, []

    def layout(partitions: KafkaPartitions, topics: list[str]) -> Layout:
        try:
            return asked(partitions, topics)
        except Unreachable as error:
            late.append(error)
            raise

    monkeypatch.setattr(KafkaPartitions, "layout", layout)
    with Broker(tmp_path / "broker") as broker, ThreadPoolExecutor(1) as pool:
        connection = connection_to(broker)
        sink = make_sink(connection)
        find_leaders(connection, sink.topic)
        assert broker.pid is not None
        frozen = with_descendants([broker.pid])
        send(signal.SIGSTOP, frozen)
        try:
            wait_until("all of the broker stands still", lambda: all(map(stands_still, frozen)))
            taken = pool.submit(find_leaders, connection, sink.topic)
            wait_until("an answer is too late", lambda: late or taken.done(), LIMIT_S)
        finally:
            send(signal.SIGCONT, frozen)
        assert sorted(taken.result(LIMIT_S)) == [0, 1]
        assert late
