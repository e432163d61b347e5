"""Reads the prepared branches of one directory, again and again; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from indoubt.lifecycle.branch_id import BranchId
from indoubt.resource_managers.database.branches import BranchListing
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.session import PreparedBranch
from indoubt.resource_managers.files.directory import SinkDirectory


class FilesWatch:
    """The questions that are asked of a database's BranchWatch, answered by what stands below a directory."""

    def __init__(self, open_directory: Callable[[], SinkDirectory]) -> None:
        self._open_directory = open_directory

    def list_branches(self) -> BranchListing:
        """Return what is prepared now. Raises Unreachable, SettingsError, ResourceManagerError."""
        server, branches = self.listing()
        return BranchListing(server=server, branches=tuple(branches))

    def listing(self) -> tuple[str, list[PreparedBranch]]:
        """Return which directory it is, and what is prepared there. Raises as ``list_branches`` does."""
        directory = self._open_directory()
        server = server_of(directory)
        branches = [
            PreparedBranch(transaction=name, prepared_at_ms=found.prepared_ms, database=directory.where)
            for name, found in directory.branches().items()
            if found.prepared_ms is not None
        ]
        return server, branches

    def clock_ms(self) -> None:
        """Return None: a storage tells its time by what is written to it."""
        return None

    def proofs(self, transactions: Sequence[str]) -> dict[str, MarkerState]:
        """Return what the markers say of these branches, by name; nothing for one that has none."""
        directory = self._open_directory()
        found = {name: directory.state(branch) for name in transactions if (branch := BranchId.parse(name)) is not None}
        return {name: state for name, state in found.items() if state is not None}

    def close(self) -> None:
        """Do nothing: no connection is kept."""


def server_of(directory: SinkDirectory) -> str:
    """Return what the directory goes by where a database would name its server (database/servers.py)."""
    return f"directory {directory.id()}"
