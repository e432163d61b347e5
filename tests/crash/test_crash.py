"""Real pipelines under real faults: ten seeds that hold every fault, and with them the central claim."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from demo.broker import Broker
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from tests.crash.checker import Checker, Verdict
from tests.crash.schedule import SEEDS_OF_A_DEAL, schedule_of
from tests.crash.servers import SharedServers

# The first seed that is asked for waits for those before it, too.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(2400)]
LIMIT_S = 2300.0
SEEDS = range(1, SEEDS_OF_A_DEAL + 1)
CLAIM = next(seed for seed in SEEDS if any(s.fault == "timed-out-after-decision" for s in schedule_of(seed).strikes))


@pytest.fixture(scope="module")
def verdicts(
    broker: Broker, mariadb: MariaDbServer, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, Future[Verdict]]]:
    """Return the verdicts to be, by seed: schedules run two at a time, because most of a run is waiting."""
    directory = Path(tmp_path_factory.mktemp("crash"))
    with (
        SharedServers(directory, broker, mysql=mariadb, postgres=postgres) as shared,
        Checker(directory, shared, print) as checker,
    ):
        yield checker.start(map(schedule_of, SEEDS))


def test_a_prepared_transaction_that_timed_out_after_the_decision_loses_no_row(verdicts):
    verdict = verdicts[CLAIM].result(LIMIT_S)
    assert verdict.clean, verdict.report()
    assert verdict.lost_rows > 0, "the broker aborted what had been decided, and recovery found it lost"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_doubled_shown_too_early_or_left_in_doubt(verdicts, seed):
    verdict = verdicts[seed].result(LIMIT_S)
    assert verdict.clean, verdict.report()
