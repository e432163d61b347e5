"""Claim: with 1,000 idle transactional ids the collector takes less than 2 % of a core and 200 MiB; with as many open, 10 %.

    python -m benchmarks.collector_idle [--ids 1000] [--open] [--seconds 60] [--json]

It starts its own broker and writes one transaction of each id into ``__transaction_state``. Then it measures the processor
time and the resident memory of a real collector that has read these records and has nothing to do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import coordinator_log, machine
from benchmarks.coordinator_log import STATE_TOPIC
from benchmarks.cpu import used_s
from benchmarks.running_collector import RunningCollector
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection

READ_LIMIT_S = 60.0
SETTLE_S = 5.0
"""The measurement starts after imports, warm-up and the first checkpoint of the history."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=1_000)
    parser.add_argument("--open", action="store_true", help="the transactions stay open: each is judged every second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    print(machine.describe())
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        coordinator_log.make_state_topic(connection)
        ended = coordinator_log.states(arguments.ids, arguments.ids)
        open_ = coordinator_log.open_states(arguments.ids, round(1000 * time.time()))
        records = coordinator_log.fill(connection, STATE_TOPIC, open_ if arguments.open else ended)
        with RunningCollector(broker.bootstrap_servers, Path(directory) / "collector") as collector:
            deadline = time.monotonic() + READ_LIMIT_S
            while int(collector.get("status")["events"]) < records:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the collector did not read {records} records within {READ_LIMIT_S:.0f} s")
                time.sleep(0.1)
            time.sleep(SETTLE_S)
            before_s, started = used_s(collector.pid), time.monotonic()
            time.sleep(arguments.seconds)
            share = (used_s(collector.pid) - before_s) / (time.monotonic() - started)
            memory_mib = machine.resident_mib(collector.pid)
    what = "open transactions" if arguments.open else "transactional ids"
    print(f"idle with {arguments.ids:,} {what}: {100 * share:.2f} % of a core, {memory_mib:.0f} MiB resident")
    if arguments.json:
        figures = {
            "cpu_percent": round(100 * share, 2),
            "resident_mib": round(memory_mib),
            "ids": arguments.ids,
            "open": arguments.open,
        }
        print(json.dumps({**figures, "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
