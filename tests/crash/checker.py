"""The checker: runs a schedule from the first record to the verdict, and several schedules at once."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from demo.waiting import DemoFailed
from tests.crash.beginning import running
from tests.crash.faults import strike
from tests.crash.judge import Anomaly, Kind
from tests.crash.schedule import Schedule
from tests.crash.servers import SharedServers
from tests.crash.verdict import Verdict

MORE_RECORDS = 50


def check(
    schedule: Schedule,
    shared: SharedServers,
    directory: Path,
    say: Callable[[str], None],
    given_up: threading.Event,
) -> Verdict:
    """Run a schedule in ``directory`` and judge it; afterwards none of its processes is left.

    Raises FaultMissed, NotDelivered, and GivenUp once ``given_up`` is set.
    """
    began = time.monotonic()
    stuck: list[Anomaly] = []
    struck = 0
    with shared.of(schedule, directory) as servers, running(schedule, servers, directory, given_up) as run:
        try:
            run.settle("the start")
            for number, planned in enumerate(schedule.strikes, 1):
                say(f"seed {schedule.seed}, {time.monotonic() - began:.0f} s: {number}. {planned}")
                strike(run, planned)
                # Earlier commits prove nothing about the processes that run now, so new records must arrive.
                run.workload.produce(MORE_RECORDS)
                run.settle(f"{number}. {planned.fault}")
                struck = number
            run.workload.produce(MORE_RECORDS)
            run.settle("the last records")
            run.pipeline.stop_in_order()
            run.require_nothing_in_doubt("the last stop in order")
        except (AssertionError, DemoFailed) as error:
            stuck = [Anomaly(kind=Kind.STUCK, where="the pipeline", count=1, examples=str(error))]
        restarts = run.restarts + int(run.pipeline.status.get("restarts", 0))
        run.pipeline.stop()
        return Verdict(
            schedule=schedule,
            anomalies=(*stuck, *run.verdict()),
            records=run.workload.counts.total(),
            rows_checked=run.rows_checked,
            struck=struck,
            signals=Counter(run.signals),
            seconds=time.monotonic() - began,
            restarts=restarts,
            lost_rows=run.lost_rows,
            notes=tuple(run.notes),
            log_tail=run.pipeline.log[-4000:],
        )


class Checker:
    """Runs schedules, ``at_once`` at a time, because most of a run is waiting. Take the verdicts before the context ends."""

    def __init__(self, directory: Path, shared: SharedServers, say: Callable[[str], None], at_once: int = 2) -> None:
        self._directory, self._shared, self._say = directory, shared, say
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="seed")
        self._given_up = threading.Event()
        self._counting = threading.Lock()
        self._planned = self._done = 0

    def start(self, schedules: Iterable[Schedule]) -> dict[int, Future[Verdict]]:
        """Start the necessary shared servers, then all schedules; return the futures of their verdicts by seed."""
        planned = list(schedules)
        self._planned += len(planned)
        for schedule in planned:
            self._shared.start_for(schedule)
        return {schedule.seed: self._pool.submit(self._check, schedule) for schedule in planned}

    def close(self) -> None:
        """Cancel the waiting schedules, end the running ones, and wait for their end."""
        self._given_up.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, schedule: Schedule) -> Verdict:
        directory = self._directory / f"seed-{schedule.seed}"
        directory.mkdir(parents=True)
        verdict = check(schedule, self._shared, directory, self._say, self._given_up)
        with self._counting:
            self._done += 1
            done = self._done
        self._say(f"{done} of {self._planned} done: {verdict}")
        if verdict.clean:
            # The directory of a failed seed stays: its logs and checkpoint show why.
            shutil.rmtree(directory, ignore_errors=True)
        return verdict
