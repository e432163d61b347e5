"""A schedule on three brokers, Spark's executors and an object store: what only a cluster loses, and nothing with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.checker import Checker
from tests.crash.schedule import schedule_of
from tests.crash.servers import SharedServers

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1500)]
LIMIT_S = 1400.0
LOSSES = schedule_of(4, ["node-killed", "coordinator-killed", "store-unavailable"], on_cluster=True)


def test_a_machine_a_coordinator_and_the_store_are_lost_and_no_row_with_them(tmp_path: Path) -> None:
    with SharedServers(tmp_path) as shared, Checker(tmp_path, shared, print) as checker:
        verdict = checker.start([LOSSES])[LOSSES.seed].result(LIMIT_S)
    assert verdict.clean, verdict.report()
