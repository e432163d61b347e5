"""The wheel, installed and run from a directory that is no checkout: collector, command line, app and pipeline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.broker import Broker
from demo.ports import free_port
from demo.prerequisites import JARS
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.version import VERSION
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import VIEWER, CollectorProcess
from tests.integration.installed import LIMIT_S, Installed, install_wheel
from tests.integration.pipeline_process import PipelineProcess, make_topics, produce, read_committed, wait_until
from tests.integration.watch_process import WatchProcess, of_readme

pytestmark = [pytest.mark.integration, pytest.mark.long]

OPENS_THE_PAGE = """
import indoubt.app, pathlib
from streamlit.testing.v1 import AppTest
page = AppTest.from_file(str(pathlib.Path(indoubt.app.__file__).with_name("page.py")), default_timeout=60).run()
print([error.message for error in page.exception], bool(page.get("html")))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install_wheel(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def collector(installed: Installed, broker: Broker, connection: KafkaConnection) -> Iterator[CollectorProcess]:
    DecisionLog(connection).ensure_topic()
    process = CollectorProcess(broker.bootstrap_servers, installed.elsewhere / "history")
    process.program, process.cwd = (installed.bin / "indoubt", "collector"), installed.elsewhere
    process.start()
    yield process
    assert process.stop() == 0


def test_nothing_but_indoubt_can_be_imported(installed: Installed) -> None:
    imports = "import indoubt, importlib.util as u; print(indoubt.__version__, [n for n in {!r} if u.find_spec(n)])"
    names = ["app", "collector", "lifecycle", "pipeline", "program", "resource_managers", "demo", "tests"]
    assert installed.run("python", "-c", imports.format(names)).stdout.split(maxsplit=1) == [VERSION, "[]\n"]


@pytest.mark.parametrize(
    "words", [[], ["app"], ["collector"], ["pipeline"]], ids=lambda words: " ".join(words) or "itself"
)
def test_the_program_and_each_part_say_their_version(installed: Installed, words: list[str]) -> None:
    done = installed.run("indoubt", *words, "--version")
    assert (done.stdout, done.returncode) == (f"indoubt {VERSION}\n", 0), done.stderr


def test_the_demo_is_said_to_be_elsewhere(installed: Installed) -> None:
    done = installed.run("indoubt", "demo")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "run 'make demo' in a checkout of indoubt" in done.stderr


def test_watch_runs_its_parts_from_the_installation(installed: Installed, broker: Broker, tmp_path: Path) -> None:
    stranger = tmp_path / "indoubt"
    stranger.mkdir()
    (stranger / "__init__.py").write_text("raise SystemExit('of a stranger')")
    watch = WatchProcess(of_readme(broker), tmp_path, program=(installed.bin / "indoubt",), cwd=tmp_path)
    assert answers(f"{watch.page}/_stcore/health")
    assert watch.parts().keys() == {"collector", "app"}
    assert watch.end(signal.SIGTERM) == 0


def test_the_collector_observes_and_a_command_asks_it(installed: Installed, collector: CollectorProcess) -> None:
    wait_until("the decision log is read", lambda: collector.observer("decision log")["state"] == "up")
    asked = installed.run("indoubt", "status", "--json", INDOUBT_COLLECTOR_URL=collector.url, INDOUBT_TOKEN=VIEWER)
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["observers"]


def test_the_app_serves_its_page(installed: Installed, collector: CollectorProcess) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = installed.elsewhere / "app.log"
    with log.open("wb") as out:
        app = subprocess.Popen(
            [installed.bin / "indoubt", "app", "--collector", collector.url, "--port", str(port)],
            cwd=installed.elsewhere,
            env={**os.environ, "INDOUBT_TOKEN": VIEWER},
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent,
        )
    try:
        wait_until("the app", lambda: app.poll() is not None or answers(f"{url}/_stcore/health"), LIMIT_S)
        assert httpx.get(url).status_code == 200, log.read_text()
        opened = installed.run(
            "python", "-c", OPENS_THE_PAGE, INDOUBT_COLLECTOR_URL=collector.url, INDOUBT_TOKEN=VIEWER
        )
        assert (opened.stdout, opened.returncode) == ("[] True\n", 0), opened.stderr
    finally:
        app.terminate()
        app.wait(LIMIT_S)


def answers(url: str) -> bool:
    """Say whether this address answers well."""
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_the_pipeline_writes_exactly_once(installed: Installed, connection: KafkaConnection, tmp_path: Path) -> None:
    name = f"installed-{uuid.uuid4().hex[:8]}"
    source, sink = f"{name}-source", f"{name}-sink"
    make_topics(connection, source, sink, "transaction_lifecycle", "pipeline_orders")
    DecisionLog(connection).ensure_topic()
    rows = [b"row-%d" % number for number in range(100)]
    produce(connection, source, rows)
    settings = {"prefix": name, "source": source, "sink": sink, "spark_jars": JARS / "spark"}
    pipeline = PipelineProcess(connection, tmp_path, **settings, checkpoint="checkpoint")
    pipeline.program, pipeline.cwd = (installed.bin / "indoubt", "pipeline"), installed.elsewhere
    with pipeline:
        wait_until("every row is committed", lambda: read_committed(connection, sink) == Counter(rows))
        # What is given relative is meant relative to where the program was started. Spark notes the batch there after
        # its rows are visible: a driver stopped in between does so at its next start.
        noted = installed.elsewhere / "checkpoint" / "commits" / "0"
        wait_until("Spark notes the batch in the checkpoint directory", noted.exists)
    assert pipeline.status["state"] == "stopped"
