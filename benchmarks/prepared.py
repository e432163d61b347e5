"""Prepared transactions of dead writers: processes prepare them with the sink's own code, then die.

``python -m benchmarks.prepared BOOTSTRAP TOPIC PREFIX CHECKPOINT_ID ATTEMPT FIRST END`` is such a process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from benchmarks.topics import value_of
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.resource_managers.fingerprint import RunningFingerprint
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.protocol import SlotAttempt

ROOT = Path(__file__).resolve().parent.parent
BATCH = 0
TIMEOUT_MS = 900_000
PER_PROCESS = 100
"""Transactions that one writer prepares: clients of a thousand slots do not fit into one process at once."""
AT_ONCE = 8
PREPARE_LIMIT_S = 300.0
TRIES = 4
"""Of each slot, as Spark tries a task: one answer that comes too late from a busy broker ends an attempt."""
ERROR_CHARACTERS = 2_000


def leave_prepared(
    connection: KafkaConnection, topic: str, *, prefix: str, checkpoint_id: str, attempt: int, count: int
) -> list[Handle]:
    """Leave ``count`` transactions of batch 0, one record each (serial number = slot); return their handles by slot.

    The writers end by SIGKILL. Raises RuntimeError if a writer ended before.
    """
    handles: list[Handle] = []
    for first in range(0, count, PER_PROCESS):
        slots = (str(first), str(min(first + PER_PROCESS, count)))
        command = [
            sys.executable,
            "-m",
            "benchmarks.prepared",
            connection.bootstrap_servers,
            topic,
            prefix,
            checkpoint_id,
        ]
        writer = subprocess.run(
            [*command, str(attempt), *slots],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PREPARE_LIMIT_S,
            preexec_fn=die_with_parent,
        )
        if writer.returncode != -signal.SIGKILL:
            raise RuntimeError(f"a writer ended with code {writer.returncode}: {writer.stderr[-ERROR_CHARACTERS:]}")
        handles += [Handle.from_json(json.loads(line)) for line in writer.stdout.splitlines()]
    return handles


def _prepared(manager: KafkaResourceManager, slot: SlotAttempt) -> Handle:
    for _ in range(TRIES - 1):
        try:
            return _prepare(manager, slot)
        except ResourceManagerError as error:
            print(f"slot {slot.slot} is tried again: {error}", file=sys.stderr, flush=True)
    return _prepare(manager, slot)


def _prepare(manager: KafkaResourceManager, slot: SlotAttempt) -> Handle:
    rows = pa.record_batch({"value": [value_of(slot.slot, time.time_ns() // 1000)]})
    fingerprint = RunningFingerprint()
    fingerprint.add_batch(rows)
    transaction = manager.begin(slot)
    transaction.write(rows)
    return transaction.prepare(fingerprint.value)


def main() -> int:
    """Prepare the slots FIRST to END - 1, print each handle on a line, and die like a killed worker."""
    bootstrap_servers, topic, prefix, checkpoint_id, attempt, first, end = sys.argv[1:]
    manager = KafkaResourceManager(KafkaConnection(bootstrap_servers), topic=topic, transaction_timeout_ms=TIMEOUT_MS)
    marker = Marker(batch=BATCH, attempt=int(attempt), checkpoint_id=checkpoint_id)
    slots = [SlotAttempt(prefix=prefix, slot=slot, marker=marker) for slot in range(int(first), int(end))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for handle in pool.map(lambda slot: _prepared(manager, slot), slots):
            print(json.dumps(handle.to_json()))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(main())
