"""The checker: one schedule from the first record to the verdict, and many of them, some at once."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.crash.faults import strike
from tests.crash.judge import Anomaly, Kind
from tests.crash.run import running
from tests.crash.schedule import Schedule, schedule_of
from tests.crash.servers import SharedServers


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the judge found in one run.

    ``lost_rows``: rows of decided transactions that recovery found aborted, so that they had to be replayed; ``notes``: what
    the faults saw on their way; ``log_tail``: how the pipeline's log ends.
    """

    schedule: Schedule
    anomalies: tuple[Anomaly, ...]
    records: int
    seconds: float
    restarts: int
    lost_rows: int
    notes: tuple[str, ...]
    log_tail: str

    @property
    def clean(self) -> bool:
        """True when nothing is wrong."""
        return not self.anomalies

    def __str__(self) -> str:
        result = "clean" if self.clean else "; ".join(map(str, self.anomalies))
        lost = f", {self.lost_rows} rows lost after their decision" if self.lost_rows else ""
        did = f"{self.records} records, {self.restarts} restarts{lost}, {self.seconds:.0f} s"
        return f"seed {self.schedule.seed}: {did}: {result}"

    def report(self) -> str:
        """Return all that is known of the run: the schedule, what is wrong, and how to run it again."""
        return "\n".join(
            [
                f"SEED {self.schedule.seed} FAILED",
                str(self.schedule),
                *map(str, self.anomalies),
                *(f"note: {note}" for note in self.notes),
                f"again: {again(self.schedule)}",
                f"the pipeline's log ends:\n{self.log_tail}",
            ]
        )


def again(schedule: Schedule) -> str:
    """Return the command that runs a schedule again."""
    faults = [strike.fault for strike in schedule.strikes]
    command = f".venv/bin/python -m tests.crash --seed {schedule.seed}"
    if schedule == schedule_of(schedule.seed):
        return command
    command += f" --faults {','.join(faults)}"
    records = {strike.records for strike in schedule.strikes}
    return command if schedule == schedule_of(schedule.seed, faults) else f"{command} --records {records.pop()}"


def check(
    schedule: Schedule,
    shared: SharedServers,
    directory: Path,
    say: Callable[[str], None],
    given_up: threading.Event,
) -> Verdict:
    """Run one schedule in ``directory`` and judge it; no process of it is left then.

    Raises FaultMissed, NotDelivered, and GivenUp once ``given_up`` is set.
    """
    began = time.monotonic()
    stuck: list[Anomaly] = []
    with shared.of(schedule, directory) as servers, running(schedule, servers, directory, given_up) as run:
        try:
            run.settle("the start")
            for number, planned in enumerate(schedule.strikes, 1):
                say(f"seed {schedule.seed}, {time.monotonic() - began:.0f} s: {number}. {planned}")
                strike(run, planned)
                run.settle(f"{number}. {planned}")
            run.workload.produce(50)
            run.settle("the last records")
            run.pipeline.stop_in_order()
        except AssertionError as error:
            stuck = [Anomaly(kind=Kind.STUCK, where="the pipeline", count=1, examples=str(error))]
        restarts = run.restarts + int(run.pipeline.status.get("restarts", 0))
        run.pipeline.stop()
        return Verdict(
            schedule=schedule,
            anomalies=(*stuck, *run.verdict()),
            records=run.workload.counts.total(),
            seconds=time.monotonic() - began,
            restarts=restarts,
            lost_rows=run.lost_rows,
            notes=tuple(run.notes),
            log_tail=run.pipeline.log[-4000:],
        )


class Checker:
    """Runs schedules, ``at_once`` of them at a time: most of a run is waiting. A context manager: take the
    verdicts before it is left."""

    def __init__(self, directory: Path, shared: SharedServers, say: Callable[[str], None], at_once: int = 2) -> None:
        self._directory, self._shared, self._say = directory, shared, say
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="seed")
        self._given_up = threading.Event()

    def start(self, schedules: Iterable[Schedule]) -> dict[int, Future[Verdict]]:
        """Start the shared servers that are needed, then all schedules; return their verdicts to be, by seed."""
        planned = list(schedules)
        for schedule in planned:
            self._shared.start_for(schedule)
        return {schedule.seed: self._pool.submit(self._check, schedule) for schedule in planned}

    def close(self) -> None:
        """Cancel what has not begun, end what has, and wait for its end."""
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
        self._say(str(verdict))
        if verdict.clean:
            # Kept where something is wrong: logs and checkpoint tell why.
            shutil.rmtree(directory, ignore_errors=True)
        return verdict
