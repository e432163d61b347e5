"""Answers of a real Flink, recorded: Flink 2.3.0 with flink-connector-kafka 5.0.0-2.2 on Kafka 4.3.1, in flink_recorded/.

``first_*``: a job ``orders`` with the sink prefix ``orders-eu`` (naming strategy INCREMENTING, a checkpoint every second,
transaction timeout 8 s) whose checkpoint 5 was made to fail; it restarted from checkpoint 4. It was then killed 11 ms after
checkpoint 17 had been written, before its transactions were committed. ``restored_*``: the same job, restored from checkpoint 17
39 s later, when the broker had timed those transactions out. ``pooling_*``: naming strategy POOLING. ``savepoint_*``: a job that
was restarted twice and took a savepoint. ``transaction_state.json``:
key and value (hex) of __transaction_state for some of their transactional ids, in the order of time. Flink printed the same
"already fenced … data loss" for orders-eu-0-4 and -1-4, which were committed, as for -0-17 and -1-17, which were lost. Only the
directories of checkpoints and savepoints were given other names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indoubt.collector.observe.transaction_state_log import record_of
from indoubt.collector.records.formats.transaction_state import decode_value
from indoubt.collector.records.observations import BrokerRecord

DIRECTORY = Path(__file__).with_name("flink_recorded")
CLUSTER = "eu"
FIRST_JOB, RESTORED_JOB = "2a3c0fd9e1f8403779cb6c63b5e242f9", "242e39c197764553a4a7812f08730ba8"


def recorded(name: str) -> Any:
    """Return one recorded answer."""
    return json.loads((DIRECTORY / f"{name}.json").read_text())


def transaction_records(prefix: str) -> Iterator[BrokerRecord]:
    """Yield the records of the transaction log for the ids of a sink's prefix."""
    for transaction, value in recorded("transaction_state"):
        if transaction.startswith(f"{prefix}-"):
            yield record_of(transaction, decode_value(bytes.fromhex(value)), "__transaction_state")
