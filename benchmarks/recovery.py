"""Claim: a pipeline that left 1,000 prepared transactions behind is settled in less than a second.

    python -m benchmarks.recovery [--counts 1,100,1000] [--rounds 3] [--json]

It starts a broker. For each number, in turn, writers prepare this many transactions and are killed. Either a commit decision
lists the transactions (they must be committed) or none does (they must be rolled back). A fresh process recovers. The time is
from the start of the recovery to its end, when all are settled; the interpreter's start and its imports are reported
separately. An independent read_committed reader counts the visible rows, and no transaction may still be open.
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
from uuid import uuid4

from confluent_kafka import IsolationLevel

from benchmarks import machine
from benchmarks.figures import row
from benchmarks.prepared import BATCH, leave_prepared
from benchmarks.topics import count_committed, end_offset, make_topic
from demo.broker import Broker
from demo.prerequisites import java_home
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory, CheckpointIdentity
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.recovery.recovery import Recovery
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

ROOT = Path(__file__).resolve().parent.parent
DECIDED, UNDECIDED = "decided", "undecided"
RECOVERY_LIMIT_S = 300.0
STABLE_LIMIT_S = 10.0
"""EndTxn answers before its markers are on every partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """A recovery: seconds from its start until all is settled, and seconds of its whole process."""

    recovery_s: float
    process_s: float


def leave_behind(connection: KafkaConnection, settings: PipelineSettings, count: int, kind: str) -> None:
    """Leave ``count`` prepared transactions of a dead run, with or without a commit decision."""
    identity = make_directory(settings)
    log = DecisionLog(connection)
    run = RunStarted(
        prefix=settings.prefix, checkpoint_id=identity.checkpoint_id, run="left", at_ms=time.time_ns() // 1_000_000
    )
    attempt = log.start_run(run)
    handles = leave_prepared(
        connection,
        settings.sink,
        prefix=settings.prefix,
        checkpoint_id=identity.checkpoint_id,
        attempt=attempt,
        count=count,
    )
    if kind == DECIDED:
        log.decide(
            Decision(
                prefix=settings.prefix,
                batch_attempt=BatchAttempt(checkpoint_id=identity.checkpoint_id, batch=BATCH, attempt=attempt),
                ruling=Ruling.COMMIT,
                handles=tuple(handles),
                who=f"run {attempt}",
                at_ms=time.time_ns() // 1_000_000,
            )
        )
    log.close()


def make_directory(settings: PipelineSettings) -> CheckpointIdentity:
    """Make the checkpoint directory of a run that planned a batch; return its checkpoint id."""
    directory = CheckpointDirectory.open(settings)
    identity = CheckpointIdentity(
        checkpoint_id=uuid4().hex,
        prefix=settings.prefix,
        sink=settings.sink,
        decisions=settings.decisions_topic,
        location=directory.location.uri,
    )
    if not directory.create(identity):
        raise RuntimeError(f"{settings.checkpoint} is in use")
    planned = Path(directory.location.path) / "offsets" / str(BATCH)
    planned.parent.mkdir()
    planned.touch()
    return identity


def recover(settings: PipelineSettings, count: int, kind: str) -> Took:
    """Recover in a fresh process. Raises AssertionError unless it settled exactly these transactions."""
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
        raise AssertionError(f"the recovery of {count} {kind} transactions settled {answer}")
    return Took(recovery_s=answer["recovery_s"], process_s=process_s)


def check(connection: KafkaConnection, topic: str, visible: int) -> None:
    """Check that exactly the first ``visible`` records are visible and no reader is blocked. Raises AssertionError."""
    deadline = time.monotonic() + STABLE_LIMIT_S
    while (stable := end_offset(connection, topic, IsolationLevel.READ_COMMITTED)) < (
        end := end_offset(connection, topic, IsolationLevel.READ_UNCOMMITTED)
    ):
        if time.monotonic() > deadline:
            raise AssertionError(f"{topic}: readers are blocked at {stable}, the log ends at {end}")
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
                    run = recover(settings, count, kind)
                    check(connection, settings.sink, count if kind == DECIDED else 0)
                    took[count, kind].append(run)
                    print(
                        f"round {number}: {count:,} {kind}: {run.recovery_s:.3f} s (process {run.process_s:.2f} s)",
                        file=sys.stderr,
                    )
    medians = {key: statistics.median(run.recovery_s for run in runs) for key, runs in took.items()}
    print(f"left behind -> all settled, median of {arguments.rounds} rounds, each in a fresh process:")
    print(row("transactions", "committed", "rolled back"))
    for count in counts:
        print(row(f"{count:,}", f"{medians[count, DECIDED]:.3f} s", f"{medians[count, UNDECIDED]:.3f} s"))
    rest = statistics.median(run.process_s - run.recovery_s for runs in took.values() for run in runs)
    print(f"the interpreter and its imports, in addition: {rest:.2f} s")
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
