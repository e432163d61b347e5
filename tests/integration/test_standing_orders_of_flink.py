"""A Flink job dies between pre-commit and commit, without an operator: a standing order commits what counts, on a real broker.

The JobManager's REST API gives a real Flink's answers with another job in them, and is gone when a test closes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.command_line_process import command
from tests.integration.flink_job_manager import JobManager
from tests.integration.flink_transactions import NAME, Prepared, prepare, write_checkpoint
from tests.integration.kafka_fixtures import connection_to, running_broker, wait_until
from tests.integration.pipeline_process import read_committed

pytestmark = pytest.mark.integration
# Orders here mean whatever the cluster has open: what other tests left there would be committed too.
own_broker = pytest.fixture(running_broker, scope="module", name="broker")
own_connection = pytest.fixture(connection_to, scope="module", name="connection")
CLUSTER, OWNER = "shop", "night shift"
TIMEOUT_MS = 300_000
"""Two starts of a collector on a busy machine fit into it."""
ORDER = f"""
owner = "{OWNER}"

[[order]]
name = "save it"
act = "commit"
applications = ["*"]
driver_gone = true
most_per_hour = 10
dry_run = false
"""


@pytest.fixture
def prepared(connection: KafkaConnection) -> Prepared:
    return prepare(connection, TIMEOUT_MS)


def started(
    broker: Broker, manager: JobManager, directory: Path, order: str = ORDER, polling_ms: int = 100
) -> AbstractContextManager[CollectorProcess]:
    """Run a collector with the standing order; again on the same directory, it is a restart."""
    file = directory / "standing_orders.toml"
    file.write_text(order)
    file.chmod(0o600)
    places = ["--flink", f"{CLUSTER}={manager.url}", "--flink-checkpoints", f"{CLUSTER}={directory / 'flink'}"]
    settings = {"INDOUBT_FLINK_POLLING_MS": str(polling_ms)}
    return running(
        broker.bootstrap_servers, directory / "collector", [*places, "--standing-orders", str(file)], settings
    )


@contextmanager
def job_manager(directory: Path, prepared: Prepared, *, completed: bool = True) -> Iterator[JobManager]:
    manager = JobManager()
    try:
        manager.take(write_checkpoint(directory / "flink", prepared.metadata), completed=completed)
        yield manager
    finally:
        manager.die()


def row(collector: CollectorProcess) -> dict[str, Any]:
    (found,) = collector.rows("standing-orders")
    return found


def given(collector: CollectorProcess) -> list[tuple[str, str]]:
    return [(one["who"], one["outcome"]) for one in collector.rows("audit")]


def refusals(collector: CollectorProcess) -> set[str]:
    """Return why standing orders were refused."""
    return {one["detail"] for one in collector.rows("audit") if (one["who"], one["outcome"]) == (OWNER, "refused")}


def await_evaluations(collector: CollectorProcess) -> None:
    """Wait until what is due was judged anew, at least twice."""
    seen: set[int] = set()

    def holds() -> bool:
        seen.add(row(collector)["evaluated_at_ms"])
        return len(seen) > 3

    wait_until("it was evaluated again", holds, LIMIT_S)


@pytest.mark.long
def test_a_job_that_died_loses_nothing_without_an_operator(
    broker: Broker, connection: KafkaConnection, prepared: Prepared, tmp_path: Path
) -> None:
    with job_manager(tmp_path, prepared) as manager, started(broker, manager, tmp_path) as collector:
        for id_ in prepared.ids:
            collector.wait_for(id_, verdict="commit it", may_commit=True, commit_confirmation="")
        await_evaluations(collector)
        assert (given(collector), row(collector)["held"]) == ([], 0), "its job runs: it is not due"

        manager.die()
        expected = {b"of " + id_.encode(): 1 for id_ in prepared.ids}
        wait_until(
            "the rows are seen", lambda: dict(read_committed(connection, prepared.sink.topic)) == expected, LIMIT_S
        )
        wait_until("the audit has it", lambda: given(collector) == [(OWNER, "accepted")] * len(expected), LIMIT_S)
        audit = collector.rows("audit")[0]
        assert audit["reason"] == "standing order save it: its driver is gone"
        assert "lists exactly" in json.dumps(audit["evidence"])


@pytest.mark.long
def test_what_is_only_likely_is_left_to_a_person(
    broker: Broker, connection: KafkaConnection, prepared: Prepared, tmp_path: Path
) -> None:
    with job_manager(tmp_path, prepared, completed=False) as manager, started(broker, manager, tmp_path) as collector:
        collector.wait_for(prepared.ids[0], verdict="in progress", rule=24)
        manager.die()
        for id_ in prepared.ids:
            collector.wait_for(id_, verdict="commit it", may_commit=True, commit_confirmation=NAME)
        await_evaluations(collector)
        assert given(collector) == [], collector.rows("audit")
        assert read_committed(connection, prepared.sink.topic).total() == 0


@pytest.mark.long
def test_after_a_restart_that_could_miss_a_restore_it_holds_back(
    broker: Broker, connection: KafkaConnection, prepared: Prepared, tmp_path: Path
) -> None:
    with job_manager(tmp_path, prepared) as manager:
        with started(broker, manager, tmp_path) as collector:
            collector.wait_for(prepared.ids[0], verdict="commit it", commit_confirmation="")
        manager.die()
        with started(broker, manager, tmp_path) as collector:
            found = collector.wait_for(prepared.ids[0], verdict="commit it", commit_confirmation=NAME)
            assert "no job was restored since Flink's REST API answered last" in json.dumps(found["evidence"])
            await_evaluations(collector)
            assert given(collector) == []
            assert read_committed(connection, prepared.sink.topic).total() == 0


def test_what_rest_tells_since_the_last_poll_is_asked_before_it_acts(
    broker: Broker, connection: KafkaConnection, prepared: Prepared, tmp_path: Path
) -> None:
    at_once = ORDER.replace("driver_gone = true", "less_than_s_left = 3600")
    stop, start = (("standing-orders", word, "--reason", "a drill") for word in ("stop", "start"))
    with job_manager(tmp_path, prepared) as manager:
        # One that is stopped in its history begins stopped: nothing of it is due before REST has told more.
        other = at_once.replace('["*"]', '["another"]')
        with started(broker, manager, tmp_path, other, polling_ms=600_000) as collector:
            assert command(collector, *stop).code == 0
        with started(broker, manager, tmp_path, at_once, polling_ms=600_000) as collector:
            collector.wait_for(prepared.ids[0], verdict="commit it", commit_confirmation="")
            manager.submit("c" * 32, "a copy")
            assert command(collector, *start, "--yes").code == 0
            wait_until("it was tried", lambda: refusals(collector), LIMIT_S)
            why = f"Flink's REST APIs: {CLUSTER}: job a copy ({'c' * 32}) is RUNNING now, which was not judged yet"
            assert refusals(collector) == {why}, collector.rows("audit")
            assert read_committed(connection, prepared.sink.topic).total() == 0
