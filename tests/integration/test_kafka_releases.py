"""What the sink asks of a broker, on other releases of Kafka than the one on which all tests run (4.3.1)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from demo.prerequisites import ROOT
from tests.integration.spark_job import environment

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.last, pytest.mark.timeout(900)]
TESTS = ("test_kafka_resource_manager.py", "test_kafka_zombies.py")
LIMIT_S = 800


@pytest.mark.parametrize("release", ["3.6.2", "3.9.1", "4.1.2", "4.4.0"])
def test_the_resource_manager_on_another_release(release: str) -> None:
    files = [str(ROOT / "tests" / "integration" / name) for name in TESTS]
    command = [sys.executable, "-m", "tests.brokers", "--kafka", release, "--", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
