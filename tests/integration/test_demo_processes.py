"""However a demo ends, none of its processes outlives it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from demo import topics
from demo.broker import Broker
from demo.prerequisites import ROOT
from tests.browser.demo_process import DemoProcess, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def jvm_of(demo: DemoProcess) -> int:
    """Return the process id of Spark's JVM, 0 before it runs."""
    file = demo.directory / "run" / "pipeline-status.json"
    return (json.loads(file.read_text()).get("jvm_pid") or 0) if file.exists() else 0


@pytest.mark.long
def test_kill_9_of_the_demo_leaves_no_process_not_even_a_frozen_driver(tmp_path: Path) -> None:
    demo = DemoProcess(tmp_path)
    demo.start()
    jvm = wait_for("Spark's JVM", lambda: jvm_of(demo), 120.0)
    driver = psutil.Process(jvm).ppid()
    for pid in (jvm, driver):
        os.kill(pid, signal.SIGSTOP)
    names = {process.name() for process in demo.processes()}
    assert "java" in names
    code, left = demo.end(signal.SIGKILL)
    assert (code, left) == (-signal.SIGKILL, [])


def parts_of(demo: DemoProcess) -> dict[str, psutil.Process]:
    """Return collector, app and the pipeline's supervisor by name, as far as they run."""
    words = {f"indoubt.{name}": name for name in ("collector", "app", "pipeline")}
    found = {}
    for process in psutil.Process(demo.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            module = dict(itertools.pairwise(process.cmdline())).get("-m")
            found |= {words[module]: process} if module in words else {}
    return found


def answers(collector: psutil.Process) -> bool:
    """Say whether the collector serves its API."""
    port = dict(itertools.pairwise(collector.cmdline()))["--port"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.long
def test_killed_parts_are_started_again_and_a_dead_broker_ends_it(tmp_path: Path) -> None:
    demo = DemoProcess(tmp_path)
    demo.start()
    killed = wait_for("collector, app and pipeline", lambda: found if len(found := parts_of(demo)) == 3 else {}, 90.0)
    wait_for("the demo to wait for nothing but Spark", lambda: "waiting for the Spark" in demo.said, 90.0)
    for process in killed.values():
        process.kill()
    psutil.wait_procs(killed.values(), timeout=10)

    def started_again() -> dict[str, psutil.Process]:
        found = parts_of(demo)
        return found if found.keys() == killed.keys() and answers(found["collector"]) else {}

    again = wait_for("all three to be started again", started_again, 60.0)
    assert {process.pid for process in again.values()}.isdisjoint(process.pid for process in killed.values())
    assert "collector ended with code -9: it starts again in 0.5 s" in demo.said
    (broker,) = demo.running("kafka.Kafka")
    broker.kill()
    code, left = demo.wait_end()
    assert (code, left) == (1, [])
    assert "the broker ended, so the demo ends" in demo.said


def test_sigterm_while_it_starts_leaves_no_process(tmp_path: Path) -> None:
    demo = DemoProcess(tmp_path)
    demo.start()
    wait_for("the broker", lambda: demo.runs("kafka.Kafka"), 60.0)
    code, left = demo.end(signal.SIGTERM)
    assert (code, left) == (130, [])


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "demo", "--port", str(port), "--directory", str(tmp_path / "run")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"port {port} is in use" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_broker_whose_port_was_taken_starts_on_another(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", broker.port))
        with broker:
            assert broker.port != taken.getsockname()[1]
            topics.create_topics(broker.bootstrap_servers)
