"""What Flink's sinks write to: a broker and databases, with what a collector sees of them. Times are ms after T0."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.branches import branch_key
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats.flink_records import Committable, Listed
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchGone, BranchListed, Observation, OperatorOrder
from indoubt.collector.records.xids import as_listed
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.resource_manager_kinds import POSTGRES
from indoubt.resource_managers.mysql.xa_xid import XaXid
from tests.unit.collector.observations import T0, broker_record, only_view

INSTANCE = "shop"


def job_id(number: int) -> str:
    """Return the id of a job: the first six digits are its own, as a savepoint's name has them."""
    return f"{number:06x}{0:026x}"


@dataclass(eq=False, kw_only=True)
class Held:
    """One transaction or branch. ``owner``: the application that wrote it; ``by_hand``: a person committed it."""

    owner: str
    opened: int
    ended: int | None = None
    is_committed: bool = False
    by_hand: bool = False


@dataclass(eq=False, kw_only=True)
class KafkaTransaction(Held):
    """``epoch``: moved with every transaction of its id, as under transaction version 2."""

    id: str
    producer_id: int
    epoch: int

    @property
    def as_listed(self) -> Listed:
        return Committable(self.id, self.producer_id, self.epoch)

    @property
    def as_open(self) -> TransactionView:
        return only_view(self.record(BrokerStatus.ONGOING, self.opened))

    def record(self, status: BrokerStatus, at: int) -> Observation:
        named: dict[str, Any] = {"transaction": self.id, "producer_id": self.producer_id, "start": self.opened}
        epoch = self.epoch if status is BrokerStatus.ONGOING else self.epoch + 1
        return broker_record(status, at, epoch=epoch, version=2, **named)


@dataclass(eq=False, kw_only=True)
class Branch(Held):
    """``opened``: when it was prepared, which MySQL does not tell. ``seen``: when a collector saw it first."""

    xid: XaXid
    resource_manager: str
    seen: int | None = None
    is_told_gone: bool = False

    @property
    def as_listed(self) -> Listed:
        return as_listed(self.xid)

    @property
    def name(self) -> str:
        if self.resource_manager != POSTGRES.name:
            return str(self.xid)
        parts = (base64.b64encode(part).decode() for part in (self.xid.gtrid, self.xid.bqual))
        return "_".join([str(self.xid.format_id), *parts])

    @property
    def key(self) -> str:
        return branch_key(self.resource_manager, self.name, INSTANCE)

    @property
    def as_open(self) -> TransactionView:
        return only_view(self.record())

    def record(self) -> Observation:
        return BranchListed(
            instance=INSTANCE,
            resource_manager=self.resource_manager,
            transaction=self.name,
            at_ms=T0 + (self.seen or 0),
            prepared_ms=T0 + self.opened if self.resource_manager == POSTGRES.name else None,
        )


@dataclass
class World:
    """A broker and databases that several applications use, and what a collector saw so far."""

    clock: list[int] = field(default_factory=lambda: [0])
    jobs: int = 0
    transactions: list[KafkaTransaction] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    records: list[Observation] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    flink: FlinkState = field(default_factory=FlinkState)

    @property
    def left(self) -> list[KafkaTransaction | Branch]:
        """Return what is not committed, also what was aborted since: a collector may not have seen that yet."""
        seen: list[KafkaTransaction | Branch] = [
            *self.transactions,
            *(each for each in self.branches if each.seen is not None),
        ]
        return [each for each in seen if not each.is_committed]

    @property
    def at(self) -> int:
        return self.clock[0]

    @at.setter
    def at(self, at: int) -> None:
        self.clock[0] = at

    def other_kafka(self) -> World:
        """Return another Kafka cluster, which no collector watches. It numbers producers from 0 again."""
        return World(clock=self.clock)

    def new_job(self) -> str:
        self.jobs += 1
        return job_id(self.jobs)

    def take(self, id_: str) -> None:
        """Take an id: what is open under it is aborted."""
        self.end([held for held in self.transactions if held.id == id_], is_commit=False)
        self.at += 5
        self.epochs[id_] = self.epochs.get(id_, 0) + 2
        named: dict[str, Any] = {
            "transaction": id_,
            "producer_id": self._producer_id(id_),
            "epoch": self.epochs[id_],
        }
        self.records.append(broker_record(BrokerStatus.EMPTY, self.at, start=None, version=2, partitions=(), **named))

    def begin(self, owner: str, id_: str) -> KafkaTransaction:
        self.take(id_)
        self.at += 5
        held = KafkaTransaction(
            owner=owner, opened=self.at, id=id_, producer_id=self._producer_id(id_), epoch=self.epochs[id_]
        )
        self.transactions.append(held)
        self.records.append(held.record(BrokerStatus.ONGOING, self.at))
        return held

    def prepare(self, owner: str, resource_manager: str, gtrid: bytes) -> Branch:
        self.at += 5
        xid = XaXid(format_id=201, gtrid=gtrid, bqual=len(self.branches).to_bytes(4, "big"))
        held = Branch(owner=owner, opened=self.at, xid=xid, resource_manager=resource_manager)
        self.branches.append(held)
        return held

    def end(self, held: Iterable[Held], *, is_commit: bool) -> None:
        """End those that are open."""
        self.at += 5
        prepare, complete = (
            (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
            if is_commit
            else (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
        )
        for each in held:
            if each.ended is None:
                each.ended, each.is_committed = self.at, is_commit
                if isinstance(each, KafkaTransaction):
                    self.records += [each.record(status, self.at) for status in (prepare, complete)]

    def commit_by_hand(self, held: KafkaTransaction | Branch) -> None:
        """Carry out an order to commit one."""
        self.at += 100
        key = held.key if isinstance(held, Branch) else held.as_open.key
        ordered = OperatorOrder(key=key, action=Action.COMMIT.value, who="anna", at_ms=T0 + self.at, audit=1)
        self.records.append(ordered)
        held.by_hand = True
        self.end([held], is_commit=True)
        self.see_databases()

    def see_databases(self) -> None:
        """Have the databases list what is prepared."""
        for held in self.branches:
            if held.ended is None and held.seen is None:
                held.seen = self.at
                self.records.append(held.record())
            elif held.ended is not None and held.seen is not None and not held.is_told_gone:
                held.is_told_gone = True
                self.records.append(
                    BranchGone(
                        instance=INSTANCE,
                        resource_manager=held.resource_manager,
                        transaction=held.name,
                        at_ms=T0 + self.at,
                        proof=None,
                    )
                )

    def _producer_id(self, id_: str) -> int:
        """Return the number of an id among all, which keeps its producer id."""
        return list(self.epochs).index(id_)
