"""Ten seeds in a row, which contain every fault: ``make test-long``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.crash.checker import Checker
from tests.crash.schedule import SEEDS_OF_A_DEAL, schedule_of
from tests.crash.servers import SharedServers
from tests.crash.verdict import Verdict

# The first test also waits for earlier seeds.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.last, pytest.mark.timeout(3600)]
LIMIT_S = 3500.0
SEEDS = range(1, SEEDS_OF_A_DEAL + 1)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Future[Verdict]]]:
    """Return the futures of the verdicts by seed: schedules run two at a time, because most of a run is waiting."""
    directory = Path(tmp_path_factory.mktemp("crash"))
    with SharedServers(directory) as shared, Checker(directory, shared, print) as checker:
        yield checker.start(map(schedule_of, SEEDS))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_doubled_shown_too_early_or_left_in_doubt(verdicts, seed):
    verdict = verdicts[seed].result(LIMIT_S)
    assert verdict.clean, verdict.report()


def test_what_a_timeout_took_after_the_decision_was_written_again(verdicts):
    """The broker aborted what had been decided, and recovery found it lost: without that, a clean verdict would not show it."""
    assert sum(verdict.result(LIMIT_S).lost_rows for verdict in verdicts.values()) > 0
