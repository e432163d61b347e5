"""Claim: a pipeline that left 1,000 prepared transactions behind is settled in less than a second.

    python -m benchmarks.recovery [--counts 1,100,1000] [--rounds 3] [--json]

Starts a broker. For each number, in turns: writers prepare so many transactions and are killed; either a commit decision
lists them (they must be committed) or none does (they must be rolled back); a fresh process recovers. The time is from
the start of the recovery to its end, when all are settled; the interpreter's start and its imports come on top and are
told beside it. An independent read_committed reader counts what is then visible, and nothing may be open any more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import IsolationLevel

from benchmarks import machine
from benchmarks.figures import row
from benchmarks.prepared import BATCH, leave_prepared
from benchmarks.topics import count_committed, end_offset, make_topic
from demo.broker import Broker
from demo.children import die_with_parent
from demo.prerequisites import java_home
from lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted
from pipeline.checkpoint_directory import open_checkpoint
from pipeline.recovery import Recovery
from pipeline.settings import PipelineSettings
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka_connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
DECIDED, UNDECIDED = "decided", "undecided"
RECOVERY_LIMIT_S = 300.0
STABLE_LIMIT_S = 10.0
"""EndTxn answers before its markers are on every partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """One recovery: seconds from its start to all settled, and those of its whole process."""

    recovery_s: float
    process_s: float


def leave_behind(connection: KafkaConnection, settings: PipelineSettings, count: int, kind: str) -> None:
    """Leave ``count`` prepared transactions of a run that is gone, listed in a commit decision or not."""
    life, _ = open_checkpoint(settings.checkpoint, settings.prefix, settings.sink, settings.decisions_topic)
    log = DecisionLog(connection)
    run = RunStarted(prefix=settings.prefix, life=life.life, run="left", at_ms=time.time_ns() // 1_000_000)
    attempt = log.start_run(run)
    handles = leave_prepared(
        connection, settings.sink, prefix=settings.prefix, life=life.life, attempt=attempt, count=count
    )
    if kind == DECIDED:
        log.decide(
            Decision(
                prefix=settings.prefix,
                about=BatchAttempt(life=life.life, batch=BATCH, attempt=attempt),
                ruling=Ruling.COMMIT,
                handles=tuple(handles),
                who=f"run {attempt}",
                at_ms=time.time_ns() // 1_000_000,
            )
        )
    log.close()


def recover(settings: PipelineSettings, count: int, kind: str) -> Took:
    """Recover in a fresh process. Raises AssertionError when it did not settle exactly what was left."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.recovery", "--recover", settings.to_json()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RECOVERY_LIMIT_S,
        preexec_fn=die_with_parent,
    )
    process_s = time.monotonic() - started
    if done.returncode != 0:
        raise RuntimeError(f"the recovery ended with code {done.returncode}:\n{done.stderr[-3000:]}")
    answer = json.loads(done.stdout)
    expected = (count, 0) if kind == DECIDED else (0, count)
    if (answer["committed"], answer["rolled_back"]) != expected:
        raise AssertionError(f"{count} {kind} transactions were left, and the recovery did: {answer}")
    return Took(recovery_s=answer["recovery_s"], process_s=process_s)


def check(connection: KafkaConnection, topic: str, visible: int) -> None:
    """Return when exactly the first ``visible`` records are seen and nothing holds readers up. Raises AssertionError."""
    deadline = time.monotonic() + STABLE_LIMIT_S
    while (stable := end_offset(connection, topic, IsolationLevel.READ_COMMITTED)) < (
        end := end_offset(connection, topic, IsolationLevel.READ_UNCOMMITTED)
    ):
        if time.monotonic() > deadline:
            raise AssertionError(f"{topic}: readers are held up at {stable}, the log ends at {end}")
    count_committed(connection, topic, visible).require(visible, topic)


def main() -> int:
    """Run the rounds in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="1,100,1000", help="numbers of transactions left behind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--recover", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.recover:
        return _recover(PipelineSettings.read(json.loads(arguments.recover)))
    os.environ["JAVA_HOME"] = java_home()
    counts = [int(count) for count in arguments.counts.split(",")]
    took: dict[tuple[int, str], list[Took]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work, Broker(Path(work) / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        DecisionLog(connection).ensure_topic()
        make_topic(connection, "transaction_lifecycle")
        for number in range(arguments.rounds):
            for count in counts:
                for kind in (DECIDED, UNDECIDED):
                    name = f"recovery-{kind}-{count}-{number}"
                    settings = PipelineSettings(
                        job="passthrough",
                        bootstrap_servers=connection.bootstrap_servers,
                        checkpoint=str(Path(work) / name),
                        prefix=name,
                        source="unused",
                        sink=f"sink-{name}",
                    )
                    make_topic(connection, settings.sink)
                    leave_behind(connection, settings, count, kind)
                    once = recover(settings, count, kind)
                    check(connection, settings.sink, count if kind == DECIDED else 0)
                    took[count, kind].append(once)
                    print(
                        f"round {number}: {count:,} {kind}: {once.recovery_s:.3f} s (process {once.process_s:.2f} s)",
                        file=sys.stderr,
                    )
    medians = {key: statistics.median(once.recovery_s for once in some) for key, some in took.items()}
    print(f"left behind -> all settled, median of {arguments.rounds} rounds, each in a fresh process:")
    print(row("transactions", "committed", "rolled back"))
    for count in counts:
        print(row(f"{count:,}", f"{medians[count, DECIDED]:.3f} s", f"{medians[count, UNDECIDED]:.3f} s"))
    rest = statistics.median(once.process_s - once.recovery_s for some in took.values() for once in some)
    print(f"on top, the interpreter and its imports: {rest:.2f} s")
    print(machine.describe())
    if arguments.json:
        figures = {
            kind: {str(count): round(medians[count, kind], 3) for count in counts} for kind in (DECIDED, UNDECIDED)
        }
        print(json.dumps({f"{kind}_s": seconds for kind, seconds in figures.items()}))
    return 0


def _recover(settings: PipelineSettings) -> int:
    recovery = Recovery(settings, KafkaConnection(settings.bootstrap_servers))
    started = time.monotonic()
    recovered = recovery.recover()
    recovery_s = time.monotonic() - started
    answer = {"committed": recovered.committed, "lost": recovered.lost, "rolled_back": recovered.rolled_back}
    print(json.dumps({"recovery_s": recovery_s, **answer}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
