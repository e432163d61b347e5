"""The name of the application that a transactional id, or an order's key, belongs to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.state import State
from indoubt.collector.records.facts import KAFKA, HandleIdentity
from indoubt.collector.records.xids import owner_of
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.orders import HANGING_KEY, PIPELINE_KEY

if TYPE_CHECKING:
    # These ask brokers: to load history needs none of it, nor the time to import it.
    from indoubt.collector.verdicts.hanging_transactions import Suspect
    from indoubt.collector.verdicts.partition_state import Blocked
    from indoubt.resource_managers.kafka.partitions import Partition

_KAFKA_KEY = re.compile(r"kafka:(?P<id>.*):-?[0-9]+:-?[0-9]+(@-?[0-9]+)?", re.DOTALL)
_HANGING_KEY = re.compile(rf"{HANGING_KEY}.*:(?P<producer_id>[0-9]+):-?[0-9]+:[0-9]+", re.DOTALL)
_BATCH_KEY = re.compile(r"(?P<prefix>[^/]+)/[^/]+/[0-9]+/[0-9]+")


def name_of_id(state: State, transaction: str) -> str:
    """Return the name of a Kafka transactional id's application. Call it under the state's lock."""
    return application_of_id(state, transaction).name


def application_of_id(state: State, transaction: str) -> Application:
    """Return the application of a Kafka transactional id. Call it under the state's lock."""
    own = transaction_join.our_id(state, HandleIdentity(transaction, 0, 0))
    return transaction_join.application(state, KAFKA, transaction, own)


def applications_of_hanging(state: State, suspects: Iterable[Suspect]) -> Mapping[str, Application]:
    """Return the application of each hanging transaction, by its key. Call it under the state's lock.

    One whose transactional id is not known goes by its producer.
    """
    return {
        suspect.key: _application(state, suspect.doubt.transaction, suspect.producer.producer_id)
        for suspect in suspects
    }


def applications_of_holders(state: State, blocked: Iterable[Blocked]) -> Mapping[Partition, Application]:
    """Return the application of each transaction that holds a partition back, by partition. Call it under the state's lock."""
    return {
        each.snapshot.partition: _application(state, each.holder.transaction, each.holder.producer.producer_id)
        for each in blocked
        if each.holder is not None
    }


def _application(state: State, transaction: str, producer_id: int) -> Application:
    if transaction:
        return application_of_id(state, transaction)
    return Application(kind=ApplicationKind.OTHER, name=f"producer {producer_id}")


def producer_of_key(key: str) -> int | None:
    """Return the producer id of a hanging transaction's key; another key has no use for it."""
    found = _HANGING_KEY.fullmatch(key)
    return int(found["producer_id"]) if found is not None else None


def name_of_key(state: State, key: str, past_ids: Mapping[int, Collection[str]]) -> str:
    """Return the application that an order's key names, '' where it names none. Call it under the state's lock.

    ``past_ids``: the transactional ids that history has of producers, for hanging transactions whose producer has left memory.
    """
    if key.startswith(PIPELINE_KEY):
        return key.removeprefix(PIPELINE_KEY)
    if found := _KAFKA_KEY.fullmatch(key):
        return name_of_id(state, found["id"])
    if (producer_id := producer_of_key(key)) is not None:
        return _name_of_producer(state, producer_id, past_ids.get(producer_id, ()))
    prefixes = state.ledger.prefixes()
    if (found := _BATCH_KEY.fullmatch(key)) and found["prefix"] in prefixes:
        return found["prefix"]
    branch = BranchId.parse(key.partition(":")[2])
    if branch is not None:
        return branch.prefix if branch.prefix in prefixes else ""
    return _name_of_foreign_branch(state, key)


def _name_of_foreign_branch(state: State, key: str) -> str:
    listed = state.branches.get(key)
    if listed is not None:
        return transaction_join.view_of(state, listed).pipeline
    resource_manager = key.partition(":")[0]
    # The name of one that has left memory: with its database behind it, or without.
    names = (name for name in transaction_join.branch_names(key) if owner_of(resource_manager, name) is not None)
    name = next(names, "")
    return transaction_join.application(state, resource_manager, name, None).name if name else ""


def _name_of_producer(state: State, producer_id: int, past_ids: Collection[str]) -> str:
    """Return the application of a producer id, '' where none or more than one is known."""
    ids = {identity.transaction for identity in state.broker if identity.producer_id == producer_id}
    ids.update(past_ids)
    names = {name_of_id(state, id_) for id_ in ids}
    return names.pop() if len(names) == 1 else ""
