"""However a demo ends, none of its processes outlives it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
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
    assert f"port {port} is taken" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_broker_whose_free_port_was_taken_before_it_listened_starts_on_another(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", broker.port))
        with broker:
            assert broker.port != taken.getsockname()[1]
            topics.create_topics(broker.bootstrap_servers)
