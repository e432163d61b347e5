"""Every release of Kafka that the documents name: what its broker answers to the sink and about its transactions."""

from __future__ import annotations

import subprocess
import sys

import pytest

from demo.prerequisites import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]
RELEASES = ("3.6.2", "3.9.1", "4.1.2", "4.4.0")
"""Beside 4.3.1, on which all tests run."""
TESTS = ("test_kafka_resource_manager.py", "test_kafka_zombies.py", "test_transaction_versions.py")
LIMIT_S = 1700


@pytest.mark.parametrize("release", RELEASES)
def test_the_protocol_holds_on_a_broker_of_another_release(release):
    command = [sys.executable, "-m", "tests.brokers", "--kafka", release, "--", "-m", "not long"]
    command += [f"tests/integration/{name}" for name in TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
