"""What time it is at a transaction coordinator: no answer of Kafka's protocol says so, but one is filtered by its clock.

ListTransactions can be asked for what began more than so long ago (KIP-994, Kafka 3.8). A transactional id whose transaction began
at a known time of the coordinator's clock, whether it ended or not, is listed from a moment on: so the answer says whether the
clock has passed it. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.descriptions import TransactionDescription
from indoubt.resource_managers.kafka.wire import wire


class ClockNotTold(ResourceManagerError):
    """A broker has no answer that depends on its clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A transaction whose age its coordinator can be asked for. ``started_ms``: by the clock of that broker (epoch ms)."""

    node: int
    transaction: str
    producer_id: int
    started_ms: int


def witnesses(connection: KafkaConnection, ids: Sequence[str]) -> list[Witness]:
    """Return a transaction for each broker that coordinates one of these ids, the first that fits. Raises Unreachable."""
    nodes = wire(connection).transaction_coordinators(ids)
    described = wire(connection).describe_transactions(ids) if ids else {}
    found: dict[int, Witness] = {}
    for id_ in ids:
        node, row = nodes[id_], described[id_]
        if not isinstance(node, int) or not isinstance(row, TransactionDescription) or row.started_at_ms is None:
            continue
        found.setdefault(
            node, Witness(node=node, transaction=id_, producer_id=row.producer_id, started_ms=row.started_at_ms)
        )
    return list(found.values())


def has_passed(connection: KafkaConnection, witness: Witness, at_ms: int) -> bool | None:
    """Say whether the clock of the witness's coordinator has passed ``at_ms`` (epoch ms), or None where the answer says nothing.

    Raises ClockNotTold where the broker cannot be asked (before Kafka 3.8), Unreachable.
    """
    if at_ms <= witness.started_ms:
        return True
    asked = wire(connection).is_older(
        witness.node, witness.transaction, witness.producer_id, at_ms - witness.started_ms
    )
    if isinstance(asked, BrokerAnswer):
        if asked.kind is AnswerKind.UNSUPPORTED:
            raise ClockNotTold(f"broker {witness.node} does not filter transactions by age: {asked}")
        return None
    if asked:
        # One that the id began since would be younger still.
        return True
    row = wire(connection).describe_transactions([witness.transaction])[witness.transaction]
    is_same = isinstance(row, TransactionDescription) and row.started_at_ms == witness.started_ms
    return False if is_same else None
