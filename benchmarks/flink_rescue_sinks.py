"""The failure of flink_rescue.py with Flink's sinks that write tables: rows lost and doubled, without indoubt and with it.

A job numbers orders and writes them by the FileSink (to a directory, or to S3: moto's server) or by the IcebergSink (catalog in
SQLite). Its tasks stand still after checkpoint 3, before its commits, and SIGKILL ends it. What the store does with what nobody
commits is done at once, for its delay is days: hidden files are cleaned away, unfinished uploads aborted, as S3's lifecycle rule
AbortIncompleteMultipartUpload does, and files that no snapshot of the table names removed, as remove_orphan_files does. Then the
job is restored from checkpoint 3 or 2, or not at all.

With indoubt, ``indoubt advise`` is asked first about that checkpoint (about 3 if there is no restore), and where it says "commit
first" the order is given, before the store's delay is over. In the last line the order is given, and the job then restored from
checkpoint 2 against the advice. An independent reader counts (flink_sinks.py): a row that checkpoint 3 has, or, once the restored
job has ended, any row, is lost if nobody sees it. Needs Maven once, and a minute a line and side.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.advised_order import Advice, advice, rescue
from benchmarks.figures import row
from benchmarks.flink_sinks import SINKS, Sink
from benchmarks.running_collector import RunningCollector
from demo.broker import Broker
from demo.waiting import wait_until
from tests.integration.flink_orders_job import LAST, NoFlink

ORDERS = 400
BEFORE = LAST - 1
OPERATOR = "benchmark-operator"
SETTINGS = {
    "INDOUBT_OPERATOR_TOKEN": f"anna:{OPERATOR}",
    "INDOUBT_FLINK_POLLING_MS": "200",
    "INDOUBT_REMOTE_CHECKPOINT_POLLING_MS": "500",
    # A JobManager that died is waited for so long before anything is to be committed.
    "INDOUBT_DRIVER_SILENT_MS": "3000",
}
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What happens after the kill; ``restored``: the checkpoint that the job is restored from."""

    is_expired: bool
    restored: int
    is_against_advice: bool = False
    """With indoubt alone: the order is given, and the job restored from a checkpoint that does not have what it committed."""


WAYS = [Way(is_expired=expired, restored=restored) for expired in (False, True) for restored in (LAST, BEFORE)]
WAYS.append(Way(is_expired=False, restored=BEFORE, is_against_advice=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Rows that a reader misses, and sees twice; ``pending``: rows that waited for a commit at the kill.

    ``ordered``: transactions that an order committed. ``advised``: what ``indoubt advise`` said of the checkpoint just before the
    restore. ``fails``: the restored job ended with an error, and stays down.
    """

    pending: int
    lost: int
    twice: int
    ordered: int
    advised: str
    fails: bool = False


def run(sink_type: type[Sink], broker: Broker, directory: Path, way: Way, *, is_asked: bool) -> tuple[Outcome, Outcome]:
    """Kill a job of its own and go this way; return what is counted before the restore, and after it.

    Raises RuntimeError, DemoFailed.
    """
    (directory / "checkpoints").mkdir(parents=True)
    with ExitStack() as stack:
        sink = sink_type(directory, stack)
        stack.callback(sink.job.kill)
        places = ["--flink", f"shop=http://127.0.0.1:{sink.job.port}"]
        places += ["--flink-checkpoints", f"shop={directory / 'checkpoints'}"]
        environment = {**SETTINGS, **sink.environment}
        collector = stack.enter_context(
            RunningCollector(broker.bootstrap_servers, directory / "collector", environment, places)
        )
        os.environ |= {"INDOUBT_COLLECTOR_URL": collector.url, "INDOUBT_TOKEN": OPERATOR}
        checkpoint = _killed_after_it(sink, collector)
        pending = sink.hidden()
        listed = sink.visible() + pending

        told = advice(checkpoint.parent.name, lambda told: told.get(LAST, {}).get("commits") == sink.commits)
        ordered = 0
        if is_asked and (told[way.restored]["commits"] or way.is_against_advice):
            ordered = rescue(checkpoint, sink.commits).committed
        if way.is_expired:
            sink.expire()
        told = advice(checkpoint.parent.name, lambda told: _has_seen(told, way, sink.commits, is_ordered=ordered > 0))

        def counted(expected: Counter[str], *, fails: bool = False) -> Outcome:
            seen = sink.visible()
            lost, twice = (expected - seen).total(), (seen - expected).total()
            said = _short(told[way.restored])
            return Outcome(pending=pending.total(), lost=lost, twice=twice, ordered=ordered, advised=said, fails=fails)

        before = counted(listed)
        sink.job.start(ORDERS, restore=checkpoint.with_name(f"chk-{way.restored}"))
        fails = sink.job.exit_code() != 0
        all_orders = Counter(f"order {number}" for number in range(ORDERS))
        return before, counted(listed if fails else all_orders, fails=fails)


def _killed_after_it(sink: Sink, collector: RunningCollector) -> Path:
    """Have the job killed between checkpoint 3 and its commits, which the collector has seen; return the checkpoint."""

    def seen() -> bool:
        rows = collector.get("transactions?all=true")["rows"]
        return len([each for each in rows if (each["checkpoint"], each["rule"]) == (LAST, 23)]) == sink.commits

    sink.job.start(ORDERS, last=LAST)
    checkpoint = sink.job.checkpoint(LAST)
    wait_until(f"the collector's rows of checkpoint {LAST}", seen, LIMIT_S)
    sink.job.kill()
    return checkpoint


def _has_seen(told: Advice, way: Way, commits: int, *, is_ordered: bool) -> bool:
    """Say whether the advice knows what became of the commits: done, gone, or still to be done."""
    last = told.get(LAST)
    wanted = (0, 0) if is_ordered else (0, commits) if way.is_expired else (commits, 0)
    return last is not None and (last["commits"], last["lost"], last["unknown"]) == (*wanted, 0)


def _short(advised: Mapping[str, Any]) -> str:
    """Return what a restore would do, as a row of the advice counts it."""
    words = {"lost": "loses", "twice": "doubles", "commits": "commit first", "rolled_back": "leave"}
    said = [f"{word} {advised[name]}" for name, word in words.items() if advised[name]]
    return ", ".join(said) or ("safe" if advised["is_safe"] else "unknown")


def measure(name: str, *, is_json: bool) -> int:
    """Go each way without and with indoubt and print both beside each other; return 0 when with it nothing was lost or doubled."""
    sink_type = SINKS[name]
    try:
        sink_type.sources.compile()
    except NoFlink as absent:
        print(absent)
        return 2
    found: list[tuple[str, Outcome | None, Outcome]] = []
    heeded: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work, Broker(Path(work) / "broker") as broker:
        for number, way in enumerate(WAYS):
            sides = [
                run(sink_type, broker, Path(work) / f"{number}-{is_asked}", way, is_asked=is_asked)
                for is_asked in ((True,) if way.is_against_advice else (False, True))
            ]
            print(f"{way}: {sides}", file=sys.stderr)
            store = "expired" if way.is_expired else "kept"
            if way.is_against_advice:
                found.append((f"{store}, {way.restored}, against advice", None, sides[0][1]))
                continue
            (alone_before, alone), (asked_before, asked) = sides
            if way.restored == LAST:
                found.append((f"{store}, none", alone_before, asked_before))
                heeded.append(asked_before)
            found.append((f"{store}, {way.restored}", alone, asked))
            heeded.append(asked)
    print(f"{name}: killed between checkpoint {LAST} and its commits; orders lost, of those that waited for these:")
    heads = ("lost without", "twice", "advised", "ordered", "advised then", "lost with", "twice")
    print(row("store, restored from", *heads, first=26))
    for line, alone_or_none, asked in found:
        without = ("-",) * 3 if alone_or_none is None else _figures(alone_or_none)
        lost, twice, advised = _figures(asked)
        print(row(line, *without, str(asked.ordered), advised, lost, twice, first=26))
    print("!: the restored job fails, and stays down")
    print(machine.describe())
    if is_json:
        sides_of = {line: [alone and asdict(alone), asdict(asked)] for line, alone, asked in found}
        print(json.dumps(sides_of))
    return 0 if all(each.lost == each.twice == 0 and not each.fails for each in heeded) else 1


def _figures(outcome: Outcome) -> tuple[str, str, str]:
    failed = " !" if outcome.fails else ""
    return f"{outcome.lost} of {outcome.pending}{failed}", str(outcome.twice), outcome.advised
