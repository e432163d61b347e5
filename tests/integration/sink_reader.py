"""What an independent reader of a sink's topic has to see."""

from __future__ import annotations

from collections import Counter

from tests.integration.kafka_fixtures import Sink, wait_until
from tests.integration.pipeline_process import read_committed


def seen(sink: Sink) -> Counter[bytes]:
    """Return the committed rows, each with how often it is there."""
    return read_committed(sink.connection, sink.topic)


def expect(sink: Sink, *values: bytes) -> None:
    """Wait until as many rows are committed; expect them to be these."""
    wait_until(f"{len(values)} committed rows in {sink.topic}", lambda: seen(sink).total() >= len(values))
    assert seen(sink) == Counter(values)
