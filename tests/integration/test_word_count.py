"""The job word_count on real databases: counts are absolute, exact after kill -9, and the same wherever they go."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.pipeline_process import PipelineProcess, produce, wait_until
from tests.integration.three_sinks import COUNTS, Sinks, make_sinks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LIMIT_S = 180.0
"""Generous: the machine may be busy with other tests."""

LINES = [
    "Der Käse, der O'Neil x_1 a-b",
    "der kase und das Naïve; the naive",
    "一二 一二 " + "y" * 255,
    "",
    "no word of these is too long, but " + "x" * 256,
] * 20
COUNTED = {
    **{"der": 60, "käse": 20, "o": 20, "neil": 20, "x_1": 20, "a": 20, "b": 20, "kase": 20, "und": 20, "das": 20},
    **{"naïve": 20, "the": 20, "naive": 20, "一二": 40, "y" * 255: 20, "no": 20, "word": 20, "of": 20, "these": 20},
    **{"is": 20, "too": 20, "long": 20, "but": 20},
}


def encoded(lines: list[str]) -> list[bytes]:
    return [line.encode() for line in lines]


def twice(counts: dict[str, int]) -> dict[str, int]:
    return {word: 2 * count for word, count in counts.items()}


@pytest.fixture
def sinks(connection, mariadb, postgres, tmp_path) -> Sinks:
    return make_sinks(connection, tmp_path, [mariadb, postgres], COUNTS)


@pytest.mark.long
def test_counts_are_exact_after_kill_9_between_two_databases_commits(connection, sinks, tmp_path):
    settings = sinks.settings("mysql", "postgres", job="word_count")
    with PipelineProcess(connection, tmp_path, **settings) as pipeline:
        produce(connection, sinks.source, encoded(LINES))
        for name in sinks.databases:
            wait_until(f"first counts in {name}", lambda n=name: sinks.counts(n) == COUNTED, LIMIT_S)
        wait_until("the words left out are said", lambda: "20 rows too_long, left out" in pipeline.log)
        pipeline.arm("mid-commit", "kill")
        produce(connection, sinks.source, encoded(LINES))
        wait_until("the driver to be killed between two databases", lambda: pipeline.reached("mid-commit"), LIMIT_S)
        # The batch may hold a part of the lines: a batch ends where the topic ended when it was planned.
        assert Counter(COUNTED) < Counter(sinks.counts("mysql")) <= Counter(twice(COUNTED))
        for name in sinks.databases:
            wait_until(f"second counts in {name}", lambda n=name: sinks.counts(n) == twice(COUNTED), LIMIT_S)
        wait_until("nothing is in doubt", lambda: not any(sinks.prepared(name) for name in sinks.databases), LIMIT_S)
        assert pipeline.status["restarts"] == 1
    assert pipeline.process.returncode == 0


@pytest.mark.long
def test_with_a_topic_among_the_sinks_its_records_tell_the_same_counts(connection, sinks, tmp_path):
    with PipelineProcess(connection, tmp_path, **sinks.settings("kafka", "postgres", job="word_count")):
        produce(connection, sinks.source, encoded(LINES))
        wait_until("counts in the table", lambda: sinks.counts("postgres") == COUNTED, LIMIT_S)
        assert sinks.counts("mysql") == {}
        produce(connection, sinks.source, encoded(["der der"]))
        more = Counter(COUNTED) + Counter(der=2)
        wait_until("new counts in the table", lambda: sinks.counts("postgres") == more, LIMIT_S)
    told = {key: value["count"] for key, value in sinks.latest_by_key().items()}
    assert told == more
    assert all(value["word"] == key for key, value in sinks.latest_by_key().items())
