"""What the curves of the collector share: the processor time of its threads at rest, and the time from a fact to its API."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from benchmarks import machine
from benchmarks.cpu import read_stat, used_s
from benchmarks.figures import percentile
from benchmarks.growth.curve import Options
from benchmarks.running_collector import RunningCollector

SETTLE_S = 10.0
"""Imports, the first round through everything and the first checkpoint of the history are over then."""
ALONE_SETTLE_S = 3.0
ASK_PAUSE_S = 0.005
FACT_LIMIT_S = 120.0
NAMED = "benchmarks.growth.named_threads"
UNLIMITED = {"INDOUBT_REQUESTS_PER_SECOND": "100000"}
COLUMNS: Mapping[str, str] = {
    "% of a core": ".2f",
    "broker %": ".2f",
    "MiB": ",.0f",
    "fact p50 s": ".2f",
    "fact max s": ".2f",
}
BROKER_ALONE = "alone %"
"""The broker without the collector: what it takes by itself does not come from being asked."""
COST = "% of a core"
PARTS = "threads, % of a core"


def collector(bootstrap_servers: str, directory: Path, arguments: Collection[str] = ()) -> RunningCollector:
    """Return a collector whose threads can be told apart, and that may be asked often."""
    return RunningCollector(bootstrap_servers, directory, UNLIMITED, tuple(arguments), module=NAMED)


def at_rest(
    running: RunningCollector, broker_pid: int, options: Options, settle_s: float = SETTLE_S
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the figures of a collector that nobody asks, and its threads: per cent of a core each."""
    time.sleep(min(settle_s, options.seconds))
    threads_s, own_s, broker_s, started = (
        threads(running.pid),
        used_s(running.pid),
        used_s(broker_pid),
        time.monotonic(),
    )
    time.sleep(options.seconds)
    took_s = time.monotonic() - started
    figures = {
        "% of a core": 100 * (used_s(running.pid) - own_s) / took_s,
        "broker %": 100 * (used_s(broker_pid) - broker_s) / took_s,
        "MiB": machine.resident_mib(running.pid),
    }
    after_s = threads(running.pid)
    return figures, {name: 100 * (after_s[name] - threads_s.get(name, 0.0)) / took_s for name in after_s}


def broker_alone(broker_pid: int, options: Options) -> dict[str, float]:
    """Return the per cent of a core that a broker takes when the collector has ended."""
    time.sleep(min(ALONE_SETTLE_S, options.seconds))
    before_s, started = used_s(broker_pid), time.monotonic()
    time.sleep(options.seconds)
    return {BROKER_ALONE: 100 * (used_s(broker_pid) - before_s) / (time.monotonic() - started)}


def to_api(expected: Mapping[str, float], shown: Callable[[], Collection[str]]) -> dict[str, float]:
    """Ask until every expected fact is shown; return the median and the longest time from its beginning (monotonic seconds).

    Raises TimeoutError.
    """
    took: dict[str, float] = {}
    deadline = time.monotonic() + FACT_LIMIT_S
    while missing := expected.keys() - took.keys():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(missing)} of {len(expected)} facts were not in the API in {FACT_LIMIT_S:.0f} s")
        answer, at_s = set(shown()), time.monotonic()
        took |= {name: at_s - expected[name] for name in missing & answer}
        time.sleep(ASK_PAUSE_S)
    return times(list(took.values()))


def times(took_s: Collection[float]) -> dict[str, float]:
    """Return the figures of the times from fact to API."""
    return {"fact p50 s": percentile(list(took_s), 0.5), "fact max s": max(took_s)}


def wait_until(what: str, holds: Callable[[], bool], limit_s: float = FACT_LIMIT_S, pause_s: float = 0.1) -> None:
    """Return as soon as it holds. Raises TimeoutError."""
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit_s:.0f} s in vain for: {what}")
        time.sleep(pause_s)


def threads(pid: int) -> dict[str, float]:
    """Return the processor time of a process's threads by their names."""
    found: defaultdict[str, float] = defaultdict(float)
    for directory in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = read_stat((directory / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        found[stat.name] += stat.used_s
    return dict(found)
