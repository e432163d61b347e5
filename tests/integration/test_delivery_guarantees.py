"""What each delivery guarantee promises, and what it does not, on Kafka, MariaDB and PostgreSQL. Judged from outside.

The tables have no primary key, so that a row that is written twice is there twice.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from demo.broker import Broker
from demo.mariadb_server import MariaDbServer
from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.resource_managers.kafka import batch_delivery
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.kafka_fixtures import make_sink, rows
from tests.integration.pipeline_process import PipelineProcess, produce, read_committed, wait_until
from tests.integration.three_sinks import VALUES, Sinks, make_sinks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LIMIT_S = 180.0
"""Generous: the machine may be busy with other tests."""
ALL = ("kafka", "mysql", "postgres")


@pytest.fixture
def sinks(connection, mariadb, postgres, tmp_path) -> Sinks:
    return make_sinks(connection, tmp_path, [mariadb, postgres], VALUES)


def values(start: int, count: int) -> list[bytes]:
    return [b"row %06d" % n for n in range(start, start + count)]


def stop_wholly(pid: int) -> None:
    """Stop a child process and wait until its last thread stands still: on a busy machine one works on for a while."""
    os.kill(pid, signal.SIGSTOP)
    seen = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
    wait_until(f"process {pid} to stand still", lambda: os.waitid(os.P_PID, pid, seen))


def wait_for(sinks: Sinks, expected: list[bytes]) -> None:
    """Wait until every row is seen everywhere, however often."""

    def nothing_missing() -> bool:
        return all(not Counter(expected) - seen for seen in sinks.everywhere().values())

    wait_until(f"{len(expected)} rows everywhere", nothing_missing, LIMIT_S)


def run_and_kill(connection, sinks: Sinks, directory, guarantee: str, point: str) -> dict[str, Counter[bytes]]:
    """Write 100 rows, then 100 more whose first task is killed with its driver at ``point``; return what is seen at last."""
    with PipelineProcess(connection, directory, **sinks.settings(*ALL, delivery_guarantee=guarantee)) as pipeline:
        produce(connection, sinks.source, values(0, 100))
        wait_for(sinks, values(0, 100))
        assert all(seen == Counter(values(0, 100)) for seen in sinks.everywhere().values()), (
            "without a failure: once each"
        )
        pipeline.arm(point, "kill")
        produce(connection, sinks.source, values(100, 100))
        wait_until(f"the driver to be killed at {point}", lambda: pipeline.reached(point), LIMIT_S)
        # A batch after the replayed one: when its rows are there, the replay has ended.
        produce(connection, sinks.source, values(200, 100))
        wait_for(sinks, values(0, 300))
    assert pipeline.process.returncode == 0
    return sinks.everywhere()


@pytest.mark.long
def test_exactly_once_holds_after_kill_9_of_a_prepared_task(connection, sinks, tmp_path):
    for name, seen in run_and_kill(connection, sinks, tmp_path, "exactly_once", "slot-prepared").items():
        assert seen == Counter(values(0, 300)), name


@pytest.mark.long
def test_at_least_once_loses_nothing_and_doubles_over_kill_9(connection, sinks, tmp_path):
    for name, seen in run_and_kill(connection, sinks, tmp_path, "at_least_once", "after-flush").items():
        assert set(seen) == set(values(0, 300)), name
        doubled = {value for value, times in seen.items() if times > 1}
        assert doubled, f"{name}: the killed task's rows were delivered, and its batch was replayed"
        assert doubled <= set(values(100, 100)), f"{name}: only rows of the batch that was under way"


@pytest.mark.long
def test_none_goes_on_without_the_rows_that_a_database_did_not_take(connection, postgres, tmp_path):
    with MariaDbServer(tmp_path / "mariadb") as mariadb:
        sinks = make_sinks(connection, tmp_path, [mariadb, postgres], VALUES)
        settings = sinks.settings(*ALL, delivery_guarantee="none")
        with PipelineProcess(connection, tmp_path, **settings) as pipeline:
            produce(connection, sinks.source, values(0, 100))
            wait_for(sinks, values(0, 100))
            mariadb.kill()
            produce(connection, sinks.source, values(100, 100))
            wait_until("the rows in the topic", lambda: sinks.in_topic().total() == 200, LIMIT_S)
            wait_until("the rows in PostgreSQL", lambda: sinks.in_table("postgres").total() == 200, LIMIT_S)
            wait_until("the loss is said", lambda: "rows were not written" in pipeline.log)
            mariadb.start()
            produce(connection, sinks.source, values(200, 100))
            wait_until("later rows in MariaDB", lambda: sinks.in_table("mysql").total() == 200, LIMIT_S)
            assert pipeline.status["restarts"] == 0
        assert sinks.in_table("mysql") == Counter([*values(0, 100), *values(200, 100)]), "lost, and nobody replays them"
        assert sinks.in_topic() == sinks.in_table("postgres") == Counter(values(0, 300))


@pytest.mark.long
@pytest.mark.parametrize(
    "guarantee", [pytest.param(DeliveryGuarantee.NONE, marks=pytest.mark.long), DeliveryGuarantee.AT_LEAST_ONCE]
)
def test_rows_lost_with_the_broker_fail_at_least_once_but_not_none(tmp_path, guarantee, monkeypatch, caplog):
    with Broker(tmp_path / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        sink = make_sink(connection, partitions=1)
        # A leader that is not ready yet refuses records, and with none they are not sent again.
        produce(connection, sink.topic, [b"first"])
        writer = sink.manager().begin_without_transaction(guarantee)
        writer.write(rows(b"seen"))
        writer.flush()
        wait_until("the writer's first row", lambda: read_committed(connection, sink.topic)[b"seen"] == 1)
        # The broker stands still: its machine takes what is sent and acknowledges nothing; then it dies.
        stop_wholly(broker.pid)
        writer.write(rows(b"unheard"))
        # Not the minute that a task waits, nor the 20 s for an answer.
        monkeypatch.setattr(batch_delivery, "CALL_LIMIT_S", 6.0)
        monkeypatch.setattr(batch_delivery, "REQUEST_LIMIT_MS", 2_000)
        if guarantee is DeliveryGuarantee.NONE:
            writer.finish()
            assert "1 rows may be missing" in caplog.text
        else:
            with pytest.raises(Unreachable, match=r"1 batches .* were not taken by the brokers"):
                writer.finish()
        broker.kill()
        writer.abort()
        broker.start()
        assert read_committed(connection, sink.topic) == Counter([b"first", b"seen"])
