"""How orders act on each resource manager: the one seam between an order and what is sent to a broker or database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from collector.facts import BrokerIdentity
from collector.orders import Action
from collector.transaction_view import TransactionView
from lifecycle.errors import IndoubtError
from lifecycle.identity import Handle, Marker
from lifecycle.outcomes import CommitOutcome, RetryLater, RollbackOutcome
from resource_managers.kafka import KafkaResourceManager
from resource_managers.protocol import OpenTransactionView, Readiness

T = TypeVar("T")
R = TypeVar("R")


class Actor(Protocol):
    """One resource manager as orders need it. Each method looks for itself: nothing rests on what was observed before."""

    def will(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return what is sent to end this transaction, in words."""

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether a commit would succeed now. Raises ResourceManagerError."""

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit exactly these; one outcome per handle, in order. The caller has found each in a decision that counts."""

    def complete(self, handle: Handle) -> None:
        """Add what is missing of the end of one that was seen committed. Raises ResourceManagerError."""

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions of ours; one outcome per handle, in order."""

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Return each of these (foreign) transactions as it is open now, in order; None: that very one is not open any more.

        Raises ResourceManagerError.
        """

    def fence(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort what ``find_open`` returned; one error text per transaction, in order, empty = done."""


class KafkaActor:
    """Transactions at Kafka's coordinators."""

    def __init__(self, broker: KafkaResourceManager) -> None:
        self._broker = broker

    def will(self, action: Action, target: Handle | OpenTransactionView) -> str:
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
        return self._broker.fence(targets, limit_s)


class Actors:
    """The resource managers that orders reach, by the name that handles carry.

    What concerns several is sent to all of them at once. One that fails is answered for each of its transactions
    (RetryLater, not ready, an error text); where it was the only one asked, its error is raised.
    """

    def __init__(self, by_name: Mapping[str, Actor]) -> None:
        self._by_name = dict(by_name)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the resource managers that orders reach."""
        return tuple(self._by_name)

    def will(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return what is sent to end this transaction, in words."""
        return self._by_name[target.resource_manager].will(action, target)

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether a commit would succeed now."""
        return self._dispatch(
            [handle.resource_manager for handle in handles],
            lambda actor, own: actor.check([handles[index] for index in own]),
            lambda index, why: Readiness(handle=handles[index], ready=False, time_left_ms=0, reason=why),
        )

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit exactly these; one outcome per handle, in order."""
        return self._dispatch(
            [handle.resource_manager for handle in handles],
            lambda actor, own: actor.commit([handles[i] for i in own], [markers[i] for i in own], limit_s),
            lambda index, why: RetryLater(handle=handles[index], reason=why),
        )

    def complete(self, handle: Handle) -> None:
        """Add what is missing of the end of one that was seen committed. Raises ResourceManagerError."""
        self._by_name[handle.resource_manager].complete(handle)

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions of ours; one outcome per handle, in order."""
        return self._dispatch(
            [handle.resource_manager for handle in handles],
            lambda actor, own: actor.rollback([handles[index] for index in own], limit_s),
            lambda index, why: RetryLater(handle=handles[index], reason=why),
        )

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Return each of these transactions as it is open now, in order; None: not open any more, or nobody answered."""
        return self._dispatch(
            [view.resource_manager for view in seen],
            lambda actor, own: actor.find_open([seen[index] for index in own]),
            lambda index, why: None,
        )

    def fence(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort what ``find_open`` returned; one error text per transaction, in order, empty = done."""
        return self._dispatch(
            [target.resource_manager for target in targets],
            lambda actor, own: actor.fence([targets[index] for index in own], limit_s),
            lambda index, why: f"{targets[index].transaction}: {why}",
        )

    def _dispatch(
        self, names: Sequence[str], ask: Callable[[Actor, list[int]], list[R]], failed: Callable[[int, str], R]
    ) -> list[R]:
        """Ask the actor of each place in ``names``; one answer per place, in order."""
        groups: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            groups.setdefault(name, []).append(index)
        calls = {name: partial(ask, self._by_name[name], own) for name, own in groups.items()}
        found: dict[int, R] = {}
        for name, answer in _side_by_side(calls).items():
            if isinstance(answer, IndoubtError):
                if len(groups) == 1:
                    raise answer
                found |= {index: failed(index, str(answer)) for index in groups[name]}
            elif isinstance(answer, Exception):
                raise answer
            else:
                found |= dict(zip(groups[name], answer, strict=True))
        return [found[index] for index in range(len(names))]


def _side_by_side(calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
    """Return what each call returned or raised, when all have ended; they run at the same time."""
    if len(calls) < 2:
        return {name: _answer(call) for name, call in calls.items()}
    with ThreadPoolExecutor(len(calls), thread_name_prefix="order") as pool:
        return dict(zip(calls, pool.map(_answer, calls.values()), strict=True))


def _answer(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:
        return error
