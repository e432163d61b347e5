"""The broker's own view of transactions: how many were committed and aborted, and which are open now."""

from __future__ import annotations

from dataclasses import dataclass

from kafka.admin import KafkaAdminClient

from demo.readers import scan
from indoubt.collector.records.formats.transaction_state import BrokerStatus, decode_key, decode_value

TRANSACTION_LOG = "__transaction_state"
ADMIN_LIMIT_MS = 30_000
IN_DOUBT = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How many transactions of all applications were committed and aborted since the cluster was created."""

    committed: int
    aborted: int


def ended(bootstrap_servers: str) -> Ended:
    """Count the ended transactions in the coordinator's log, each once by id, producer id and start time."""
    committed: set[tuple[str, int, int]] = set()
    aborted: set[tuple[str, int, int]] = set()
    for record in scan(bootstrap_servers, TRANSACTION_LOG, committed_only=False):
        if record.value is None:
            continue
        value = decode_value(record.value)
        identity = (decode_key(record.key), value.producer_id, value.start_ms)
        if value.status is BrokerStatus.COMPLETE_COMMIT:
            committed.add(identity)
        elif value.status is BrokerStatus.COMPLETE_ABORT:
            aborted.add(identity)
    return Ended(committed=len(committed), aborted=len(aborted))


def open_transactions(bootstrap_servers: str) -> list[str]:
    """Return the transactional ids of all open transactions on the cluster, sorted."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=ADMIN_LIMIT_MS)
    try:
        listings = [listing for of_broker in admin.list_transactions().values() for listing in of_broker]
    finally:
        admin.close()
    return sorted(listing.transactional_id for listing in listings if listing.state.value in IN_DOUBT)
