"""What an independent reader of a sink's topic has to see, and tests that one producer is enough for."""

from __future__ import annotations

from collections import Counter

import pytest

from resource_managers.kafka.connection import ARROW, LIBRDKAFKA
from tests.integration.kafka_fixtures import Sink, wait_until
from tests.integration.pipeline_process import read_committed

arrow_in_the_long_run = pytest.mark.parametrize(
    "sink", [LIBRDKAFKA, pytest.param(ARROW, marks=pytest.mark.long)], indirect=True
)
"""On a test that takes seconds."""


def seen(sink: Sink) -> Counter[bytes]:
    """Return the committed rows, each with how often it is there."""
    return read_committed(sink.connection, sink.topic)


def expect(sink: Sink, *values: bytes) -> None:
    """Wait until as many rows are committed; expect them to be these."""
    wait_until(f"{len(values)} committed rows in {sink.topic}", lambda: seen(sink).total() >= len(values))
    assert seen(sink) == Counter(values)
