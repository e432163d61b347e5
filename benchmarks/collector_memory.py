"""Claim: 1,000,000 transactional ids take less than 1 GiB, and settled transactions leave memory.

    python -m benchmarks.collector_memory [--ids 1000000] [--json]

It needs no broker: it puts states as the coordinator writes them into current state and history, in batches like the
observer's. First each id has a transaction that ends, then a transaction that stays open. It measures the resident memory of
the process after each step.
"""

from __future__ import annotations

import indoubt.collector.runtime.lean_process  # noqa: F401 (as the collector does)

# isort: split
import argparse
import itertools
import json
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import machine
from benchmarks.coordinator_log import COMPLETE_COMMIT, FIRST_MS, ONGOING, PREPARE_COMMIT, STATE_TOPIC, state
from indoubt.collector.history.store import Store
from indoubt.collector.records.broker_record_batch import records_of
from indoubt.collector.records.formats.transaction_state_batch import StateDecoder
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState

BATCH = 10_000
FLUSH_LIMIT_S = 60.0


def states(ids: int, start_ms: int, *, ended: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value): one transaction of each id."""
    for number in range(ids):
        name = f"payments-{number:07}-17".encode()
        key, at_ms = struct.pack(">hh", 0, len(name)) + name, start_ms + number
        partitions = (number % 16, (number + 5) % 16)
        yield key, state(number, 0, ONGOING, at_ms, at_ms, partitions)
        if ended:
            yield key, state(number, 1, PREPARE_COMMIT, at_ms + 900, at_ms, partitions)
            yield key, state(number, 1, COMPLETE_COMMIT, at_ms + 905, at_ms)


def feed(current: CurrentState, records: Iterator[tuple[bytes, bytes]], offset: int) -> int:
    """Hand records over in batches; return how many there were."""
    decoder, first = StateDecoder(), offset
    while batch := list(itertools.islice(records, BATCH)):
        decoded, ordinary = decoder.decode([key for key, _ in batch], [value for _, value in batch])
        assert ordinary.all()
        offsets = np.arange(offset, offset + len(batch))
        offset += len(batch)
        found = records_of(STATE_TOPIC, np.zeros(len(batch), np.int64), offsets, decoded)
        current.observe_records(found, [], {(STATE_TOPIC, 0): offset})
    return offset - first


def main() -> int:
    """Measure and print; exit code 1 when it takes 1 GiB or more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    print(machine.describe())
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory) / "history.duckdb")
        current = CurrentState(store, settled_kept=10_000, checkpoints_kept=2_000, limits=Limits())
        empty_mib, started = machine.resident_mib(), time.monotonic()
        records = feed(current, states(arguments.ids, FIRST_MS, ended=True), 0)
        store.flushed(FLUSH_LIMIT_S)
        settled_mib, in_memory = machine.resident_mib(), len(current.transactions.judged(settled=True))
        records += feed(current, states(arguments.ids, FIRST_MS + 10**9, ended=False), records)
        store.flushed(FLUSH_LIMIT_S)
        took_s, open_mib = time.monotonic() - started, machine.resident_mib()
        store.close()
    print(f"  empty                           {empty_mib:6.0f} MiB")
    print(f"  {arguments.ids:,} ids, settled           {settled_mib:6.0f} MiB, {in_memory:,} transactions in memory")
    print(f"  {arguments.ids:,} ids, one open each     {open_mib:6.0f} MiB")
    print(f"  {records / took_s:,.0f} records/s, generated in the same process")
    if arguments.json:
        figures = {"empty_mib": empty_mib, "settled_mib": settled_mib, "open_mib": open_mib}
        print(json.dumps({**{name: round(value) for name, value in figures.items()}, "ids": arguments.ids}))
    return 0 if max(settled_mib, open_mib) < 1024 else 1


if __name__ == "__main__":
    sys.exit(main())
