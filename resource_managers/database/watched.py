"""What who is no part of their pipeline asks and orders about prepared branches, in databases and in directories of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import CommitOutcome, RollbackOutcome
from indoubt.resource_managers.database.branches import BranchListing
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.session import PreparedBranch
from indoubt.resource_managers.protocol import OpenTransactionView


class Watch(Protocol):
    """Looks at prepared branches and changes nothing. Each method raises Unreachable, SettingsError, ResourceManagerError."""

    def list_branches(self) -> BranchListing:
        """Return what is prepared now, with locks."""

    def listing(self) -> tuple[str, list[PreparedBranch]]:
        """Return which server answers, and what is prepared there now, without locks."""

    def proofs(self, transactions: Sequence[str]) -> dict[str, MarkerState]:
        """Return what the markers say of these branches of ours, by name."""

    def clock_ms(self) -> int | None:
        """Return the server's time (epoch ms), None where it tells none."""

    def close(self) -> None:
        """Free what is kept open; the next question opens it again."""


class WatchedResourceManager(Protocol):
    """A resource manager as the collector needs it."""

    name: str

    def at(self, server: str) -> Self:
        """Return one that settles branches at this very server (servers.py), whichever the address leads to."""

    def watch(self, limit_s: float) -> Watch:
        """Return what looks at the prepared branches."""

    def commit_listed(self, handles: Sequence[Handle], limit_s: float) -> list[CommitOutcome]:
        """Commit those of these decided branches that are there; of the others say what their markers prove."""

    def commit_open(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit prepared branches of others; return an error text per transaction, empty = it is committed."""

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Roll back exactly these branches."""

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Roll back prepared branches, ours or foreign; return an error text per transaction, empty = done."""
