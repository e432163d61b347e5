"""Claim: with 10,000,000 events of history every request takes less than 100 ms (p95) while 5,000 events/s come in.

    python -m benchmarks.collector_queries [--events 10000000] [--ids 1000] [--seconds 240] [--rate 5000] [--only TEXT...]
        [--history FILE] [--json]

It starts its own broker. Before the start, synthetic_history.py writes the history into the file, with 500 batches of an
indoubt pipeline and 200 open transactions. It measures the time from the collector's start to its readiness. Then it sends
every request of the pages and the command line (collector_requests.py) in turn, while another process writes transaction
states into ``__transaction_state`` at the given rate. With ``--only`` it sends those requests whose name holds one of the
texts. With ``--history`` it takes a copy of FILE, which it makes where it is missing: that takes minutes. The times in it
stay as they were.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import collector_requests, coordinator_log, machine
from benchmarks.collector_requests import Question
from benchmarks.coordinator_load import CoordinatorLoad
from benchmarks.figures import percentile, row
from benchmarks.running_collector import RunningCollector
from benchmarks.synthetic_history import write_history
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection

TRANSACTIONAL_ID = "orders-7-17"
PAUSE_S = 0.02
GOAL_MS = 100.0

Took = dict[Question, list[float]]


def ask_in_turns(collector: RunningCollector, questions: Sequence[Question], seconds: float) -> Took:
    """Return how long each answer took (ms), in the order of arrival."""
    took: Took = {question: [] for question in questions}
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        for question, times_ms in took.items():
            times_ms.append(question.ask(collector.client))
            time.sleep(PAUSE_S)
    return took


def chosen(questions: Sequence[Question], texts: Sequence[str]) -> list[Question]:
    """Return the questions whose name holds one of the texts; all of them without a text."""
    return [question for question in questions if not texts or any(text in question.name for text in texts)]


def put_history(path: Path, kept: Path | None, events: int, ids: int) -> None:
    """Write the history into a file, or copy the one that is kept, which is made where it is missing."""
    if kept is None:
        write_history(path, events, ids)
        return
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_name(f"{kept.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        write_history(unfinished, events, ids)
        unfinished.rename(kept)
    shutil.copyfile(kept, path)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--ids", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=240.0, help="shared by pages and command line")
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="requests whose name holds one of them")
    parser.add_argument("--history", type=Path, metavar="FILE", help="keep the history in this file, and use it again")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    pages = chosen(collector_requests.PAGES, arguments.only)
    commands = chosen(collector_requests.of_command_line(TRANSACTIONAL_ID), arguments.only)
    if not pages and not commands:
        parser.error("no request holds any text of --only in its name")
    sides = (("pages", pages), ("command line", commands))
    seconds_each = arguments.seconds / sum(1 for _, questions in sides if questions)
    print(machine.describe())
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        home = Path(directory) / "collector"
        home.mkdir()
        put_history(home / "history.duckdb", arguments.history, arguments.events, arguments.ids)
        coordinator_log.make_state_topic(KafkaConnection(broker.bootstrap_servers))
        machine.settle()
        # The benchmark asks with almost no pause, which no caller should do.
        unlimited = {"INDOUBT_REQUESTS_PER_SECOND": "100000"}
        with RunningCollector(broker.bootstrap_servers, home, unlimited) as collector:
            ready_s, before = collector.ready_s, int(collector.get("status")["events"])
            load = CoordinatorLoad(broker.bootstrap_servers, arguments.rate, arguments.ids)
            started = time.monotonic()
            with load:
                took_of = {
                    name: ask_in_turns(collector, questions, seconds_each) for name, questions in sides if questions
                }
                arrived = (int(collector.get("status")["events"]) - before) / (time.monotonic() - started)
                seconds = time.monotonic() - started
    print(f"start to ready {ready_s:.2f} s; {load.written / seconds:,.0f} events/s written, {arrived:,.0f} arrived")
    p95: dict[str, dict[str, float]] = {}
    for name, took in took_of.items():
        print(row(f"{name}, ms", "p50", "p95", "worst", "asked", width=10, first=78))
        for question, times_ms in took.items():
            figures = (percentile(times_ms, 0.5), percentile(times_ms, 0.95), max(times_ms))
            print(row(question.name, *(f"{value:.1f}" for value in figures), f"{len(times_ms)}", width=10, first=78))
        p95[name] = {question.name: round(percentile(times_ms, 0.95), 1) for question, times_ms in took.items()}
        missed = [name for name, value in p95[name].items() if value >= GOAL_MS]
        print(f"  p95 under {GOAL_MS:.0f} ms: {len(took) - len(missed)} of {len(took)}")
    if arguments.json:
        figures_of = {"ready_s": round(ready_s, 2), "arrived_per_s": round(arrived), "p95_ms": p95}
        print(json.dumps({**figures_of, "events": arguments.events, "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
