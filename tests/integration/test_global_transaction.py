"""One decision over Kafka, MariaDB and PostgreSQL: rows are everywhere or nowhere. Judged from outside."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import PipelineProcess, open_transactions, produce, wait_until
from tests.integration.three_sinks import VALUES, Sinks, make_sinks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LIMIT_S = 180.0
"""Generous: the machine may be busy with other tests."""


@pytest.fixture
def sinks(connection, mariadb, postgres, tmp_path) -> Sinks:
    return make_sinks(connection, tmp_path, [mariadb, postgres], VALUES)


def values(start: int, count: int) -> list[bytes]:
    return [b"row %06d" % n for n in range(start, start + count)]


def expect_everywhere(sinks: Sinks, expected: list[bytes]) -> None:
    """Wait until each reader sees as many rows as expected, then compare each row's count."""

    def all_there() -> bool:
        return all(seen.total() >= len(expected) for seen in sinks.everywhere().values())

    wait_until(f"{len(expected)} rows everywhere", all_there, LIMIT_S)
    for name, seen in sinks.everywhere().items():
        assert seen == Counter(expected), name


@contextmanager
def nobody_restarts(pipeline: PipelineProcess, point: str) -> Iterator[None]:
    """Hold the supervisor while the driver, killed at ``point``, lies dead: what is seen meanwhile is what it left behind."""
    wait_until(f"the driver to be killed at {point}", lambda: pipeline.reached(point), LIMIT_S)
    pipeline.process.send_signal(signal.SIGSTOP)
    try:
        stat = Path(f"/proc/{pipeline.status['driver_pid']}/stat")
        wait_until(
            "the driver's end", lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
        )
        yield
    finally:
        pipeline.process.send_signal(signal.SIGCONT)


@pytest.mark.long
def test_kill_at_any_step_leaves_the_rows_everywhere_or_nowhere(connection, sinks, tmp_path):
    settings = sinks.settings("kafka", "mysql", "postgres", restart_delay_ms=3_000, restart_attempts=9)
    # Where rows of the batch are seen before the restart; a busy machine may plan two batches for the 100 rows.
    seen_before_the_restart = {"after-prepare": set(), "mid-commit": {"kafka"}, "after-decision": set()}
    with PipelineProcess(connection, tmp_path, **settings) as pipeline:
        produce(connection, sinks.source, values(0, 100))
        expect_everywhere(sinks, values(0, 100))
        for done, (point, expected) in enumerate(seen_before_the_restart.items(), start=1):
            pipeline.arm(point, "kill")
            if point == "after-decision":
                pipeline.arm("mid-recovery", "kill")
            produce(connection, sinks.source, values(done * 100, 100))
            with nobody_restarts(pipeline, point):
                assert {name for name, seen in sinks.everywhere().items() if seen.total() > done * 100} == expected, (
                    point
                )
                assert sinks.prepared("mysql") == sinks.prepared("postgres") > 0, point
            expect_everywhere(sinks, values(0, done * 100 + 100))
        assert pipeline.reached("mid-recovery")
        assert not re.search(r"[1-9]\d* lost", pipeline.log)
    assert pipeline.process.returncode == 0
    assert sinks.prepared("mysql") == sinks.prepared("postgres") == 0


@pytest.mark.long
def test_what_only_kafka_lost_is_replayed_only_into_kafka(connection, sinks, tmp_path):
    # MariaDB first: its branches are the ones that are committed before the driver stands still.
    settings = sinks.settings("mysql", "kafka", "postgres", transaction_timeout_ms=25_000)
    with PipelineProcess(connection, tmp_path, **settings) as pipeline:
        produce(connection, sinks.source, values(0, 100))
        expect_everywhere(sinks, values(0, 100))
        pipeline.arm("mid-commit", "freeze")
        produce(connection, sinks.source, values(100, 100))
        wait_until("the driver stands still between two branches", lambda: pipeline.reached("mid-commit"), LIMIT_S)
        wait_until("MariaDB's branches are committed", lambda: sinks.in_table("mysql").total() > 100)
        assert sinks.in_topic().total() == 100
        wait_until("the broker's timeout", lambda: not open_transactions(connection, sinks.name), LIMIT_S)
        assert sinks.in_topic().total() == 100
        pipeline.kill_driver()
        expect_everywhere(sinks, values(0, 200))
        checkpoint_id = pipeline.status["checkpoint_id"]
    ledger = DecisionLog(connection).read_to_end()
    batch = max(decision.batch_attempt.batch for decision in ledger.checkpoint_commits(checkpoint_id))
    replayed = [d for b in range(batch + 1) if len(d := ledger.commits_of(checkpoint_id, b)) > 1]
    held_by = [[{handle.resource_manager for handle in one.handles} for one in found] for found in replayed]
    assert held_by == [[{"mysql", "kafka", "postgres"}, {"kafka"}]], "the second decision lists what Kafka lost"


WRONG = {
    "no such table": ("does_not_exist", {"sink": "mysql:does_not_exist"}),
    "a column that nobody takes": ("no sink (mysql) takes the job's column 'key'", {}),
    "columns that do not fit": ("it has none of the job's columns", {"job": "word_count"}),
    "no connection": ("--database-properties", {"database_properties": ""}),
    "prefix too long": ("at most 38", {"prefix": "x" * 60}),
    "unknown job": ("word_count", {"job": "wordcount"}),
}
IN_SHORT = ("a column that nobody takes", "no connection")
"""Each starts a driver: one is refused by what a database says, one by the settings alone."""


@pytest.mark.parametrize(
    "case", [case if case in IN_SHORT else pytest.param(case, marks=pytest.mark.long) for case in WRONG]
)
def test_wrong_sink_ends_the_start_with_code_2_and_one_clear_line(connection, sinks, tmp_path, case):
    said, change = WRONG[case]
    with PipelineProcess(connection, tmp_path, **{**sinks.settings("mysql"), **change}) as pipeline:
        assert pipeline.wait_exit() == 2
    assert said in pipeline.log
    assert len(pipeline.log.strip().splitlines()) == 1, pipeline.log
