"""A process of its own that prepares a transaction, tells its handle, and waits to be killed."""

from __future__ import annotations

import json
import sys
import time

from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration.kafka_fixtures import fingerprint_of, rows


def main() -> None:
    """Arguments: bootstrap servers, topic, prefix, batch, ``prepared`` or ``open``."""
    bootstrap_servers, topic, prefix, batch, until = sys.argv[1:]
    manager = KafkaResourceManager(KafkaConnection(bootstrap_servers), topic=topic, transaction_timeout_ms=60_000)
    marker = Marker(batch=int(batch), attempt=1, checkpoint_id="L")
    transaction = manager.begin(SlotAttempt(prefix=prefix, slot=0, marker=marker))
    transaction.write(rows(b"a", b"b", b"c"))
    if until == "open":
        transaction._sender.flush()
        print(json.dumps({}), flush=True)
    else:
        print(json.dumps(transaction.prepare(fingerprint_of(b"a", b"b", b"c")).to_json()), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
