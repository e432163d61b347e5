"""A running collector reads its settings file again at SIGHUP: what is watched changes, and nothing that is known is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from demo.broker import Broker
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until
from tests.json_server import Answer, answering
from tests.unit.collector.flink_recordings import FIRST_JOB, recorded

pytestmark = pytest.mark.integration

SECOND_JOB = "f" * 32


@contextmanager
def flink(job: str) -> Iterator[str]:
    """Serve what a real Flink answered, under this job's id."""
    overview, checkpoints = recorded("first_jobs_overview"), recorded("first_checkpoints")
    overview["jobs"][0]["jid"] = job

    def answer(path: str, _: Mapping[str, str]) -> Answer:
        known = {"/jobs/overview": overview, f"/jobs/{job}/checkpoints": checkpoints}
        return (200, known.get(path, [])) if job in path or path in known else (404, {"errors": ["unknown"]})

    with answering(answer) as url:
        yield url


@pytest.fixture
def addresses() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(flink(job)) for name, job in (("eu", FIRST_JOB), ("us", SECOND_JOB))}


def watched(collector: CollectorProcess) -> dict[str, dict[str, Any]]:
    """Return the observers of what the settings name, by name."""
    kinds = ("flink", "checkpoints of", "database")
    return {each["name"]: each for each in collector.get("status")["observers"] if each["name"].startswith(kinds)}


def of_flink(cluster: str) -> set[str]:
    """Return the names of the observers of a Flink cluster."""
    return {f"flink {cluster}", f"flink checkpoints of {cluster}", f"flink files of {cluster}"}


def jobs(collector: CollectorProcess) -> set[str]:
    return {row["job"] for row in collector.rows("jobs")}


def test_what_is_watched_changes_and_what_is_known_stays(
    broker: Broker, addresses: dict[str, str], tmp_path: Path
) -> None:
    file, spark, database = tmp_path / "indoubt.toml", tmp_path / "spark", tmp_path / "database.properties"
    spark.mkdir()
    database.write_text("postgres.host=127.0.0.1\npostgres.port=1\npostgres.user=u\npostgres.database=d\n")
    database.chmod(0o600)
    file.write_text(f'[collector]\nflink = {{ eu = "{addresses["eu"]}" }}\ncheckpoint = {{ orders = "{spark}" }}\n')
    with running(broker.bootstrap_servers, tmp_path / "collector", ["--settings-file", str(file)]) as collector:
        wait_until("the job of eu is known", lambda: FIRST_JOB in jobs(collector), LIMIT_S)
        assert set(watched(collector)) == {*of_flink("eu"), "checkpoints of orders"}
        before = watched(collector)["checkpoints of orders"]

        file.write_text("[collector")
        collector.send(signal.SIGHUP)
        wait_until("it says what is wrong", lambda: "nothing was changed" in collector.log.read_text(), LIMIT_S)
        assert "flink eu" in watched(collector)

        file.write_text(
            f'[collector]\nflink = {{ us = "{addresses["us"]}" }}\ncheckpoint = {{ orders = "{spark}" }}\n'
            f'database_properties = "{database}"\nread_only = true\n'
        )
        collector.send(signal.SIGHUP)
        names = {*of_flink("us"), "checkpoints of orders", "database postgres"}
        wait_until("others are watched", lambda: set(watched(collector)) == names, LIMIT_S)
        wait_until("the job of us is known", lambda: SECOND_JOB in jobs(collector), LIMIT_S)
        assert FIRST_JOB in jobs(collector), "what is known stays"
        since_ms = watched(collector)["checkpoints of orders"]["since_ms"]
        assert since_ms == pytest.approx(before["since_ms"], abs=100), "it went on"
        wait_until("the database is asked", lambda: watched(collector)["database postgres"]["error"], LIMIT_S)
        said = "a change of read_only takes a restart"
        wait_until("it says what it cannot take over", lambda: said in collector.log.read_text(), LIMIT_S)

        file.write_text(f'[collector]\nflink = {{ eu = "{addresses["us"]}" }}\n')
        collector.send(signal.SIGHUP)
        wait_until("one has another address", lambda: set(watched(collector)) == of_flink("eu"), LIMIT_S)
        wait_until("it answers", lambda: watched(collector)["flink eu"]["state"] == "up", LIMIT_S)
        known = {row["job"]: row["state"] for row in collector.rows("jobs")}
    with running(broker.bootstrap_servers, tmp_path / "collector", ["--settings-file", str(file)]) as collector:
        wait_until("it is as before", lambda: jobs(collector) == known.keys(), LIMIT_S)
