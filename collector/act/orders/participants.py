"""How orders act on each resource manager: the one seam between an order and what is sent to a broker or database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import BrokerIdentity
from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.outcomes import CommitOutcome, RollbackOutcome
from indoubt.resource_managers.dispatch import Settlers
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness, Settler


class Participant(Settler, Protocol):
    """One resource manager as orders need it. Each method asks it again: nothing rests on what was observed before.

    ``commit``: the caller has found each handle in a decision that counts. ``fence`` takes what ``find_open`` returned.
    """

    def description(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return what is sent to end this transaction, in words."""

    def complete(self, handle: Handle) -> None:
        """Add what is missing of the end of one that was seen committed. Raises ResourceManagerError."""

    def commit_open(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit what ``find_open`` returned, which its owner is proven to count as written; an error text each, empty: done."""

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Return each of these (foreign) transactions as it is open now, in order; None: that very one is not open any more.

        Raises ResourceManagerError.
        """


class KafkaParticipant:
    """Transactions at Kafka's coordinators."""

    def __init__(self, broker: KafkaResourceManager) -> None:
        self._broker = broker

    def description(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return the request in words."""
        return f"EndTxn({action.value}) for producer {target.producer_id}, epoch {target.producer_epoch}"

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Ask the coordinators."""
        return self._broker.check(handles)

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """EndTxn(commit)."""
        return self._broker.commit(handles, markers, limit_s)

    def complete(self, handle: Handle) -> None:
        """Write the end markers that its coordinator has passed by."""
        self._broker.complete([handle])

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """EndTxn(abort) with the very producer id and epoch."""
        return self._broker.rollback(handles, limit_s)

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Find the same id, producer and start time among what is Ongoing: a later transaction of the id is another one."""
        listed = self._broker.list_transactions()
        ongoing = {
            BrokerIdentity(t.transaction, t.producer_id, t.started_at_ms): t
            for t in listed
            if t.state == "Ongoing" and t.producer_id is not None and t.started_at_ms is not None
        }
        return [ongoing.get(view.broker.identity) if view.broker is not None else None for view in seen]

    def fence(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """End them and shut out their writers."""
        return self._broker.abort_open(targets, limit_s)

    def commit_open(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """EndTxn(commit) for transactions of others; an error text each, empty: it is committed."""
        return self._broker.commit_open(targets, limit_s)


class Participants(Settlers[Participant]):
    """The resource managers that orders reach."""

    def take(self, participants: Mapping[str, Participant]) -> None:
        """Reach these from now on; what is being asked is asked of those that it began with."""
        self._managers = dict(participants)

    def description(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return what is sent to end this transaction, in words."""
        return self._managers[target.resource_manager].description(action, target)

    def complete(self, handle: Handle) -> None:
        """Add what is missing of the end of one that was seen committed. Raises ResourceManagerError."""
        self._managers[handle.resource_manager].complete(handle)

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Return each of these transactions as it is open now, in order; None: it is not open any more.

        Raises ResourceManagerError when one of the resource managers cannot be asked: nothing then says that it is not open.
        """

        def fail(_: int, error: IndoubtError) -> OpenTransactionView | None:
            raise error

        return self._ask(seen, lambda participant, own: participant.find_open([seen[i] for i in own]), fail)

    def commit_open(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit transactions of others; return an error text per transaction, empty = it is committed."""
        return self._ask(
            targets,
            lambda participant, own: participant.commit_open([targets[i] for i in own], limit_s),
            lambda i, error: f"{targets[i].transaction}: {error}",
        )
