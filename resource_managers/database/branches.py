"""Reads the prepared branches of a server, again and again, over one connection that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from indoubt.lifecycle.errors import IndoubtError
from indoubt.resource_managers.database import markers
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.session import BranchLocks, DatabaseSession, PreparedBranch

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchListing:
    """What a server lists. ``elsewhere``: how many branches the server has that cannot be reached from here, by database.

    ``server``: which server it was, as servers.py names it.
    """

    server: str
    branches: tuple[PreparedBranch, ...]
    locks: Mapping[str, BranchLocks] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)


class BranchWatch:
    """One connection, opened when it is needed and closed when it fails. For one thread at a time."""

    def __init__(self, open_session: Callable[[], DatabaseSession]) -> None:
        self._open_session = open_session
        self._session: DatabaseSession | None = None

    def list_branches(self) -> BranchListing:
        """Return what is prepared now. Raises Unreachable, SettingsError, ResourceManagerError, MalformedRecord."""
        return self._ask(_list_branches)

    def clock_ms(self) -> int:
        """Return the server's time (epoch ms). Raises as ``list_branches`` does."""
        return self._ask(lambda session: session.clock_ms())

    def listing(self) -> tuple[str, list[PreparedBranch]]:
        """Return which server answers, and what is prepared there now, without locks. Raises as ``list_branches`` does."""
        return self._ask(lambda session: session.listing())

    def proofs(self, transactions: Sequence[str]) -> dict[str, MarkerState]:
        """Return what the markers say of these branches of ours, by name. Raises as ``list_branches`` does."""
        return self._ask(lambda session: markers.proofs(session, transactions))

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def _ask(self, question: Callable[[DatabaseSession], T]) -> T:
        try:
            self._session = self._session or self._open_session()
            return question(self._session)
        except IndoubtError:
            self.close()
            raise


def _list_branches(session: DatabaseSession) -> BranchListing:
    server, branches = session.listing()
    locks = session.branch_locks() if branches else {}
    return BranchListing(server=server, branches=tuple(branches), locks=locks, elsewhere=session.prepared_elsewhere())
