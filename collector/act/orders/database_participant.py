"""How orders act on branches in databases of one kind: always in the database that lists the branch at that moment.

A directory of files is a database here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.branches import BranchFacts
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    RetryLater,
    RollbackOutcome,
    RolledBack,
    Unknown,
)
from indoubt.lifecycle.resource_manager_kinds import KINDS
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.resource_manager import WATCH_LIMIT_S
from indoubt.resource_managers.database.servers import Silence, silence
from indoubt.resource_managers.database.session import PreparedBranch
from indoubt.resource_managers.database.settlement import outcome_of
from indoubt.resource_managers.database.watched import WatchedResourceManager
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness, listed

NOT_PROVEN = "no database that is watched here lists it, and no marker names it: its pipeline's next start finds out"
T = TypeVar("T")


class Place(NamedTuple):
    """A database by its name, and the server that answered there."""

    instance: str
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBranch(OpenTransactionView):
    """A listed branch and the database that lists it: two servers may have foreign branches of one name.

    ``server``: which server answered there (resource_managers/database/servers.py).
    """

    instance: str
    server: str


class DatabaseParticipant:
    """``managers``: the databases of one kind, by place. It writes no tombstone: that is left to the pipeline's recovery.

    A database that does not say within WATCH_LIMIT_S what it lists is left out of an order.
    """

    def __init__(self, kind: str, managers: Mapping[str, WatchedResourceManager]) -> None:
        self._kind, self._managers = kind, dict(managers)

    def description(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return the statement in words."""
        instance = f" in {target.instance}" if isinstance(target, PlacedBranch) else ""
        kind = KINDS[self._kind]
        statement = kind.commit_sends if action is Action.COMMIT else kind.abort_sends
        return f"{statement} {target.transaction}{instance}"

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say which of them are listed. Raises ResourceManagerError when none of the databases answers."""
        places, errors = self._places_of_prepared()
        if len(errors) == len(self._managers):
            raise ResourceManagerError("; ".join(errors))
        unlisted = f"no {KINDS[self._kind].listed_in} of {', '.join(self._managers)} lists it"
        return listed(handles, places, "; ".join([unlisted, *errors]))

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit what is listed; of the others say what a marker proves, in whatever database it stands."""
        found, left = self._where_listed(handles, lambda manager, own: manager.commit_listed(own, limit_s))
        proofs, errors = self._proofs(left, limit_s)
        return [found.get(h.key) or outcome_of(h, proofs.get(h.transaction), errors or NOT_PROVEN) for h in handles]

    def complete(self, handle: Handle) -> None:
        """Do nothing: a database ends a branch in one place."""

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Roll back what is listed; of the others say what a marker proves."""
        found, left = self._where_listed(handles, lambda manager, own: manager.rollback(own, limit_s))
        proofs, errors = self._proofs(left, limit_s)
        return [found.get(h.key) or _rollback_outcome(h, proofs.get(h.transaction), errors) for h in handles]

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Return each where the very server that listed it lists it still, with the prepared time that it had then.

        Raises Unreachable where another server answers: nothing then says that it is not open.
        """
        instances = {view.branch.instance for view in seen if view.branch is not None} & self._managers.keys()
        answers = {instance: self._listed(self._managers[instance]) for instance in sorted(instances)}
        return [self._open_now(view.branch, answers) if view.branch is not None else None for view in seen]

    def _open_now(
        self, branch: BranchFacts, answers: Mapping[str, tuple[str, list[PreparedBranch]]]
    ) -> PlacedBranch | None:
        server, branches = answers.get(branch.instance, ("", []))
        if silence(branch.server, server) is Silence.SAYS_NOTHING:
            raise Unreachable(
                f"{branch.instance}: {server} answers, and {branch.server} listed {branch.transaction}: nothing was sent"
            )
        if (branch.transaction, branch.prepared_ms) not in {(b.transaction, b.prepared_at_ms) for b in branches}:
            return None
        return PlacedBranch(
            resource_manager=self._kind,
            transaction=branch.transaction,
            state="Prepared",
            started_at_ms=branch.prepared_ms,
            instance=branch.instance,
            server=server,
        )

    def commit_open(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit each in the database that lists it."""
        return self._end_open(targets, lambda manager, own: manager.commit_open(own, limit_s))

    def fence(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Roll each back in the database that lists it."""
        return self._end_open(targets, lambda manager, own: manager.fence(own, limit_s))

    def _end_open(
        self,
        targets: Sequence[OpenTransactionView],
        end: Callable[[WatchedResourceManager, list[OpenTransactionView]], list[str]],
    ) -> list[str]:
        """Return an error text per target, empty = it is ended."""
        errors: dict[int, str] = {}
        at = {i: Place(t.instance, t.server) for i, t in enumerate(targets) if isinstance(t, PlacedBranch)}
        for place in sorted(set(at.values())):
            own = [i for i, there in at.items() if there == place]
            manager = self._managers[place.instance].at(place.server)
            errors |= dict(zip(own, end(manager, [targets[index] for index in own]), strict=True))
        return [
            errors.get(index, f"{target.transaction}: no database lists it") for index, target in enumerate(targets)
        ]

    def _where_listed(
        self, handles: Sequence[Handle], act: Callable[[WatchedResourceManager, list[Handle]], list[T]]
    ) -> tuple[dict[str, T | RetryLater], list[Handle]]:
        """Act on each handle at the server that lists it; return the answers by key, and the handles that none lists."""
        places, errors = self._places_of_prepared()
        found: dict[str, T | RetryLater] = {}
        for place in sorted({places[handle.transaction] for handle in handles if handle.transaction in places}):
            own = [handle for handle in handles if places.get(handle.transaction) == place]
            manager = self._managers[place.instance].at(place.server)
            found |= {handle.key: answer for handle, answer in zip(own, act(manager, own), strict=True)}
        left = [handle for handle in handles if handle.transaction not in places]
        if errors:
            # A database that does not answer may be the one that lists it.
            return found | {handle.key: RetryLater(handle=handle, reason="; ".join(errors)) for handle in left}, []
        return found, left

    def _places_of_prepared(self) -> tuple[dict[str, Place], list[str]]:
        """Return the place of every branch that is listed now, and the errors of the databases that could not be asked."""
        places: dict[str, Place] = {}
        errors: list[str] = []
        for instance, manager in self._managers.items():
            try:
                server, branches = self._listed(manager)
            except (ResourceManagerError, SettingsError) as error:
                errors.append(str(error))
                continue
            for branch in branches:
                places.setdefault(branch.transaction, Place(instance, server))
        return places, errors

    def _listed(self, manager: WatchedResourceManager) -> tuple[str, list[PreparedBranch]]:
        watch = manager.watch(WATCH_LIMIT_S)
        try:
            return watch.listing()
        finally:
            watch.close()

    def _proofs(self, handles: Sequence[Handle], limit_s: float) -> tuple[dict[str, MarkerState], str]:
        """Return what markers say of branches that no server lists, and the errors of the databases that could not be asked."""
        found: dict[str, MarkerState] = {}
        errors: list[str] = []
        for manager in self._managers.values() if handles else ():
            watch = manager.watch(limit_s)
            try:
                found |= watch.proofs([handle.transaction for handle in handles])
            except (ResourceManagerError, SettingsError) as error:
                errors.append(str(error))
            finally:
                watch.close()
        return found, "; ".join(errors)


def participants(managers: Mapping[str, WatchedResourceManager]) -> dict[str, DatabaseParticipant]:
    """Return what acts on the branches of each kind of database, by the name that handles carry."""
    kinds = {manager.name for manager in managers.values()}
    return {
        kind: DatabaseParticipant(
            kind, {instance: manager for instance, manager in managers.items() if manager.name == kind}
        )
        for kind in sorted(kinds)
    }


def _rollback_outcome(handle: Handle, proof: MarkerState | None, errors: str) -> RollbackOutcome:
    match proof:
        case MarkerState.COMMITTED:
            return AlreadyCommitted(handle=handle)
        case MarkerState.TOMBSTONE:
            return RolledBack(handle=handle)
        case None:
            return Unknown(handle=handle, reason=errors or NOT_PROVEN)
