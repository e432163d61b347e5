"""``make crash SEEDS=n``: random schedules of faults against real pipelines, judged by independent readers.

It prints each failed seed, its anomalies, and the command that runs that schedule again. All choices come from the seed, but
the duration of each step varies, so a rare race may need several tries. The exit code is 0 only if all seeds are clean.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import as_completed
from pathlib import Path

from tests.crash.catalogue import FAULTS, LOCAL, S3
from tests.crash.checker import Checker
from tests.crash.schedule import Schedule, schedule_of
from tests.crash.servers import SharedServers
from tests.crash.verdict import Verdict, again, figures, summary

_printing = threading.Lock()


def say(text: str) -> None:
    """Print progress at once, because several seeds run at the same time."""
    with _printing:
        print(text, flush=True)


def main() -> int:
    """Check seeds; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many schedules (default: 1)")
    parser.add_argument("--first-seed", type=int, help="the first of them (default: drawn at random)")
    parser.add_argument("--seed", type=int, help="run only this seed")
    parser.add_argument("--faults", default="", help=f"run these faults instead of the seed's own: {', '.join(FAULTS)}")
    parser.add_argument(
        "--records", type=int, help="how many are produced under each fault (default: the seed's choice)"
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="on three brokers, Spark's standalone cluster and an object store, one seed at a time",
    )
    parser.add_argument(
        "--files", default="", choices=[LOCAL, S3], help="with sinks of files, on this machine or in a store"
    )
    parser.add_argument("--at-once", type=int, default=2, help="how many run side by side (default: 2)")
    parser.add_argument(
        "--directory", type=Path, help="directory for data of failed seeds (default: a temporary directory)"
    )
    arguments = parser.parse_args()
    given = arguments.first_seed if arguments.seed is None else arguments.seed
    first = secrets.randbelow(10**9) + 1 if given is None else given
    seeds = range(first, first + (arguments.seeds if arguments.seed is None else 1))
    if first < 1 or not seeds:
        parser.error("--seeds must be at least 1, and a seed is a number from 1 on")
    only = [name.strip() for name in arguments.faults.split(",") if name.strip()]
    try:
        schedules = {
            seed: schedule_of(seed, only, arguments.records, on_cluster=arguments.cluster, files=arguments.files)
            for seed in seeds
        }
    except ValueError as error:
        parser.error(str(error))
    at_once = 1 if arguments.cluster else arguments.at_once
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="indoubt-crash-"))
    # Each JVM lives for seconds, so the second compiler costs more than it saves; the tests do the same.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    # On SIGTERM it also ends its child processes: frozen ones would stay for ever.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"seeds {seeds[0]} to {seeds[-1]}, data in {directory}")
    began = time.monotonic()
    verdicts: list[Verdict] = []
    failed: list[int] = []
    with SharedServers(directory) as shared, Checker(directory, shared, say, at_once) as checker:
        futures = {future: seed for seed, future in checker.start(schedules.values()).items()}
        for future in as_completed(futures):
            seed, broken = futures[future], future.exception()
            if broken is None:
                verdicts.append(future.result())
                if verdicts[-1].clean:
                    continue
            failed.append(seed)
            say(future.result().report() if broken is None else _broken(schedules[seed], broken))
            say(f"data: {directory}/seed-{seed}")
    seconds = time.monotonic() - began
    say(figures(verdicts, seconds))
    say(summary(verdicts, sorted(failed), seconds))
    return 1 if failed else 0


def _broken(schedule: Schedule, error: BaseException) -> str:
    trace = "".join(traceback.format_exception(error))
    return f"SEED {schedule.seed} COULD NOT BE JUDGED\n{schedule}\n{trace}again: {again(schedule)}"


if __name__ == "__main__":
    sys.exit(main())
