"""Real pipelines under real faults: a short run kills a driver in the middle of a commit; the long run checks the central claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.broker import Broker
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from tests.crash.checker import Checker
from tests.crash.schedule import Schedule, schedule_of
from tests.crash.servers import SharedServers
from tests.crash.verdict import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LIMIT_S = 800.0
CLAIM = schedule_of(22, ["kill-worker-slot-prepared", "timed-out-after-decision"])
HALF_DONE = schedule_of(3, ["kill-driver-mid-commit"])
LEADERS_MOVE = schedule_of(5, ["broker-of-two-lost"])


@pytest.fixture(scope="module")
def checker(
    broker: Broker, mariadb: MariaDbServer, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checker]:
    """Return a checker on the test run's shared servers."""
    directory = Path(tmp_path_factory.mktemp("crash"))
    with (
        SharedServers(directory, broker, mysql=mariadb, postgres=postgres) as shared,
        Checker(directory, shared, print) as started,
    ):
        yield started


def verdict_of(checker: Checker, schedule: Schedule) -> Verdict:
    """Run a schedule to its end."""
    return checker.start([schedule])[schedule.seed].result(LIMIT_S)


@pytest.mark.long
def test_a_timeout_after_the_decision_loses_no_row(checker):
    verdict = verdict_of(checker, CLAIM)
    assert verdict.clean, verdict.report()
    assert verdict.lost_rows > 0, "the broker aborted what had been decided, and recovery found it lost"


@pytest.mark.long
def test_a_driver_killed_amid_the_commit_loses_no_row(checker):
    verdict = verdict_of(checker, HALF_DONE)
    assert verdict.clean, verdict.report()


@pytest.mark.long
def test_batches_of_our_own_follow_leaders_that_move(checker):
    verdict = verdict_of(checker, LEADERS_MOVE)
    assert verdict.clean, verdict.report()
