"""Seeds with sinks of files, on this machine and in a store that refuses: ``make test-long``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.crash.catalogue import LOCAL, S3
from tests.crash.checker import Checker
from tests.crash.schedule import schedule_of
from tests.crash.servers import SharedServers
from tests.crash.verdict import Verdict

# The first test also waits for earlier seeds.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]
LIMIT_S = 1700.0
SCHEDULES = [
    schedule_of(2, ["files-unavailable", "kill-driver-mid-commit"], files=S3),
    schedule_of(3, files=LOCAL),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Future[Verdict]]]:
    """Return the futures of the verdicts by seed."""
    directory = Path(tmp_path_factory.mktemp("crash"))
    with SharedServers(directory) as shared, Checker(directory, shared, print) as checker:
        yield checker.start(SCHEDULES)


@pytest.mark.parametrize("seed", [schedule.seed for schedule in SCHEDULES])
def test_of_files_nothing_is_lost_doubled_shown_too_early_or_left(verdicts, seed):
    verdict = verdicts[seed].result(LIMIT_S)
    assert verdict.clean, verdict.report()
