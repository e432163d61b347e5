"""Records that Flink loses when it is killed between pre-commit and commit, without indoubt and with an order to commit.

    python -m benchmarks.flink_rescue --flink DIR [--rounds 3] [--outage 30] [--timeout 15000] [--json] [--standing]
    python -m benchmarks.flink_rescue --sink files|s3|iceberg [--json]

Each round runs ``flink.sh failure`` twice on the same broker: kill -9 as soon as checkpoint 3 has its ``_metadata``, an outage
longer than the transaction timeout, a restore from that checkpoint, then a read_committed reader counts 250,000 records. In one
of the two runs ``indoubt commit --verdict 'commit it' --yes`` is given right after the kill. The collector
has no REST API to ask, as when a JobManager died: it finds the checkpoint by --flink-checkpoints. Before each restore
``indoubt advise`` says how many transactions it loses; in the run without an order it is asked until the timeout has passed.
Needs flink.sh, Maven and 5 minutes a round.

``--standing`` has no operator: a standing order commits (flink_standing.py). ``--sink`` measures the FileSink or Iceberg instead,
without DIR (flink_rescue_sinks.py).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import flink, flink_standing, machine
from benchmarks.advised_order import Rescue, advice, rescue
from benchmarks.figures import row
from benchmarks.running_collector import RunningCollector
from demo.broker import Broker
from demo.prerequisites import java_home
from indoubt.resource_managers.kafka.connection import KafkaConnection

RECORDS = 250_000
"""What flink.sh produces for this run."""
OPERATOR = "benchmark-operator"
RESCUE_RESULT = "FLINK_RESCUE_RESULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run: records that a read_committed reader misses, or saw twice; ``rescue``: None without an order.

    ``advised_lost``: how many transactions ``indoubt advise`` said that the restore loses, before it.
    """

    lost: int
    duplicates: int
    rescue: Rescue | None
    advised_lost: int


def advised_lost(checkpoint: Path, *, is_waited_for: bool) -> int:
    """Return how many transactions a restore from a checkpoint loses, as ``indoubt advise`` says before it.

    ``is_waited_for``: the first answer that is not 0. Raises RuntimeError when none comes.
    """
    number = int(checkpoint.name.removeprefix("chk-"))
    told = advice(
        checkpoint.parent.name,
        lambda told: number in told and bool(told[number]["lost"] or not is_waited_for),
    )
    lost: int = told[number]["lost"]
    return lost


def run(
    peer: flink.Flink, connection: KafkaConnection, work: Path, given: argparse.Namespace, *, rescued: bool
) -> Outcome:
    """Run the failure once."""
    result = work / "rescue.json"
    result.unlink(missing_ok=True)
    command = f"{sys.executable} -m benchmarks.flink_rescue {'--rescue' if rescued else '--advise'}"
    # flink.sh reads its environment at its start, and the collector's address is known only later: a file hands it over.
    environment = {RESCUE_RESULT: str(result)}
    with peer.failure(connection, given.outage, given.timeout, command, environment) as failure:
        places = ["--flink-checkpoints", f"flink={failure.checkpoints}"]
        tokens = {"INDOUBT_OPERATOR_TOKEN": f"anna:{OPERATOR}"}
        with RunningCollector(connection.bootstrap_servers, work / "collector", tokens, places) as collector:
            result.with_suffix(".url").write_text(collector.url)
            lost, duplicates = failure.result()
    found = json.loads(result.read_text())
    saved = Rescue(**found["rescue"]) if rescued else None
    return Outcome(lost=lost, duplicates=duplicates, rescue=saved, advised_lost=found["advised_lost"])


def _after_the_kill(checkpoint: Path, *, rescued: bool) -> int:
    """What flink.sh runs then: BOOTSTRAP and the checkpoint's directory are its arguments."""
    result = Path(os.environ[RESCUE_RESULT])
    os.environ |= {"INDOUBT_COLLECTOR_URL": result.with_suffix(".url").read_text(), "INDOUBT_TOKEN": OPERATOR}
    saved = asdict(rescue(checkpoint)) if rescued else None
    lost = advised_lost(checkpoint, is_waited_for=not rescued)
    result.write_text(json.dumps({"rescue": saved, "advised_lost": lost}))
    return 0


def _without_an_operator(peer: flink.Flink, connection: KafkaConnection, work: Path, given: argparse.Namespace) -> int:
    """Run the rounds in which a standing order acts; return 0 when it did and nothing was lost or seen twice."""
    found: list[flink_standing.StandingOutcome] = []
    for number in range(given.rounds):
        outcome = flink_standing.run(peer, connection, work / str(number), given.outage, given.timeout)
        found.append(outcome)
        print(f"round {number}: {outcome}", file=sys.stderr)
    print(f"of {RECORDS:,} records, no operator; timeout {given.timeout} ms, outage {given.outage} s:")
    print(row("round", "lost", "twice", "transactions", "committed after", width=16, first=8))
    for number, outcome in enumerate(found):
        after = f"{outcome.committed_s:.2f} s" if outcome.committed_s is not None else "-"
        figures = (f"{outcome.lost:,}", f"{outcome.duplicates:,}", str(outcome.committed), after)
        print(row(str(number), *figures, width=16, first=8))
    print(machine.describe())
    if given.json:
        print(json.dumps({"standing": [asdict(outcome) for outcome in found]}))
    return 0 if all(outcome.lost == outcome.duplicates == 0 for outcome in found) else 1


def main() -> int:
    """Run the rounds, both sides in turns, and print them beside each other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flink", type=Path, metavar="DIR", help="directory of flink.sh")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outage", type=int, default=30, help="seconds between the kill and the restore")
    parser.add_argument("--timeout", type=int, default=15_000, help="transaction timeout in ms")
    parser.add_argument("--standing", action="store_true", help="no operator: a standing order commits")
    parser.add_argument("--sink", choices=("files", "s3", "iceberg"), help="another sink than Kafka's")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    for after_the_kill in ("--rescue", "--advise"):
        parser.add_argument(after_the_kill, nargs=2, metavar=("BOOTSTRAP", "CHECKPOINT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if called := given.rescue or given.advise:
        return _after_the_kill(Path(called[1]), rescued=bool(given.rescue))
    if given.sink is not None:
        # Imported here: what flink.sh runs right after the kill does not need it, and its start is measured.
        from benchmarks import flink_rescue_sinks

        return flink_rescue_sinks.measure(given.sink, is_json=given.json)
    if given.flink is None:
        print(f"Flink: {flink.NOT_MEASURED}")
        return 2
    os.environ["JAVA_HOME"] = java_home()
    peer = flink.Flink(given.flink)
    without: list[Outcome] = []
    with_order: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work, Broker(Path(work) / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        peer.build(connection, "flink_build")
        if given.standing:
            return _without_an_operator(peer, connection, Path(work), given)
        for number in range(given.rounds):
            for rescued in (False, True) if number % 2 == 0 else (True, False):
                outcome = run(peer, connection, Path(work), given, rescued=rescued)
                (with_order if rescued else without).append(outcome)
                print(f"round {number}: {'with' if rescued else 'without'} an order: {outcome}", file=sys.stderr)
    print(f"of {RECORDS:,} records; timeout {given.timeout} ms, outage {given.outage} s:")
    heads = ("lost without", "advised", "lost with", "advised", "twice with", "verdict after", "committed after")
    print(row("round", *heads, width=16, first=8))
    for number, (alone, saved) in enumerate(zip(without, with_order, strict=True)):
        assert saved.rescue is not None
        times = (f"{saved.rescue.verdict_s:.2f} s", f"{saved.rescue.committed_s:.2f} s")
        told = [f"{each.advised_lost} transactions" for each in (alone, saved)]
        figures = (f"{alone.lost:,}", told[0], f"{saved.lost:,}", told[1], f"{saved.duplicates:,}", *times)
        print(row(str(number), *figures, width=16, first=8))
    print(machine.describe())
    if given.json:
        answer = {
            "lost_without": [outcome.lost for outcome in without],
            "advised_lost": [
                [alone.advised_lost, saved.advised_lost] for alone, saved in zip(without, with_order, strict=True)
            ],
            "lost_rescued": [outcome.lost for outcome in with_order],
            "duplicates_rescued": [outcome.duplicates for outcome in with_order],
            "verdict_s": [round(outcome.rescue.verdict_s, 2) for outcome in with_order if outcome.rescue is not None],
        }
        print(json.dumps(answer))
    return 0 if all(outcome.lost == outcome.duplicates == 0 for outcome in with_order) else 1


if __name__ == "__main__":
    sys.exit(main())
