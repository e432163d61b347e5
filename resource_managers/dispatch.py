"""Asks several resource managers at once, and gives each item the answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, Protocol, TypeVar

from indoubt.lifecycle.errors import IndoubtError, ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.outcomes import CommitOutcome, RetryLater, RollbackOutcome
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness, Settler


class Held(Protocol):
    """What names the resource manager that holds it."""

    @property
    def resource_manager(self) -> str:
        """Return the name that handles carry."""


S = TypeVar("S", bound=Settler)
R = TypeVar("R")
T = TypeVar("T")


class Settlers(Generic[S]):
    """Resource managers by the name that handles carry.

    What concerns several is sent to all of them at once. One that cannot be asked, or that is not known here, is answered
    for each of its transactions: RetryLater, not ready, an error text.
    """

    def __init__(self, managers: Mapping[str, S]) -> None:
        self._managers = dict(managers)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, in the order in which they were given."""
        return tuple(self._managers)

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether a commit would succeed now."""
        return self._ask(
            handles,
            lambda manager, own: manager.check([handles[i] for i in own]),
            lambda i, error: Readiness(handle=handles[i], ready=False, time_left_ms=0, reason=str(error)),
        )

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared transactions; one outcome per handle, in order. ``markers`` are the proofs inside them."""
        return self._ask(
            handles,
            lambda manager, own: manager.commit([handles[i] for i in own], [markers[i] for i in own], limit_s),
            lambda i, error: RetryLater(handle=handles[i], reason=str(error)),
        )

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Abort exactly these transactions; one outcome per handle, in order."""
        return self._ask(
            handles,
            lambda manager, own: manager.rollback([handles[i] for i in own], limit_s),
            lambda i, error: RetryLater(handle=handles[i], reason=str(error)),
        )

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Abort open transactions and shut out their writers; return an error text per transaction, empty = done."""
        return self._ask(
            transactions,
            lambda manager, own: manager.fence([transactions[i] for i in own], limit_s),
            lambda i, error: f"{transactions[i].transaction}: {error}",
        )

    def _ask(
        self,
        items: Sequence[Held],
        ask: Callable[[S, list[int]], Sequence[R]],
        unanswered: Callable[[int, IndoubtError], R],
    ) -> list[R]:
        """Return one answer per item, in order.

        ``ask`` takes a resource manager and the places of its own items, and returns an answer for each. ``unanswered``
        makes the answer at a place whose resource manager raised an IndoubtError or is not known here. Any other exception
        is raised.
        """
        groups: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(item.resource_manager, []).append(index)
        managers = self._managers
        known = {name: own for name, own in groups.items() if name in managers}
        answers = side_by_side({name: partial(ask, managers[name], own) for name, own in known.items()})
        found: dict[int, R] = {}
        for name, own in groups.items():
            answer = answers.get(name, self._unknown(name))
            if isinstance(answer, IndoubtError):
                found |= {index: unanswered(index, answer) for index in own}
            elif isinstance(answer, Exception):
                raise answer
            else:
                found |= dict(zip(own, answer, strict=True))
        return [found[index] for index in range(len(items))]

    def _unknown(self, name: str) -> ResourceManagerError:
        return ResourceManagerError(
            f"it is held by {name!r}, and no connection to that is configured here; there is one to: {', '.join(self.names)}"
        )


def side_by_side(calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
    """Return what each call returned or raised, when all have ended; they run at the same time."""
    if len(calls) < 2:
        return {name: _answer(call) for name, call in calls.items()}
    with ThreadPoolExecutor(len(calls), thread_name_prefix="branch") as pool:
        return dict(zip(calls, pool.map(_answer, calls.values()), strict=True))


def _answer(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:
        return error
