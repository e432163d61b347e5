"""Files as a resource manager: hidden while they are in doubt, renamed by a commit, removed by a rollback."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Self

import pyarrow as pa

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable, ZombieWriter
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.outcomes import CommitOutcome, RollbackOutcome
from indoubt.lifecycle.resource_manager_kinds import FILES
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.database.branches import BranchListing
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.session import PreparedBranch
from indoubt.resource_managers.database.settlement import each, retry_later, still_open
from indoubt.resource_managers.files import formats, names, settlement
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.directory import FoundBranch, SinkDirectory, newest_committed
from indoubt.resource_managers.files.transaction import PATIENCE_S, FilesOpenTransaction, PlainFiles, UncheckedFiles
from indoubt.resource_managers.protocol import OpenTransactionView, PlainWriter, Readiness, SlotAttempt, listed
from indoubt.resource_managers.storage import Storage, open_storage, patiently

log = logging.getLogger(__name__)

ORPHAN_LIMIT_S = 5.0
_PROBE = f"{names.HIDDEN}/probe"


class FilesResourceManager:
    """Branches are hidden files below one directory. Thread-safe: it keeps no state but its settings.

    ``directory``: path or URI, which begin, settle and all else needs.
    """

    name = FILES.name

    def __init__(self, directory: str, access: FilesAccess | None = None) -> None:
        self._where, self._access = directory, access or FilesAccess()
        self._server = ""

    def at(self, server: str) -> Self:
        """Return one that settles branches in this very directory (server_of); empty: in whichever is there."""
        bound = copy.copy(self)
        bound._server = server
        return bound

    def _open(self) -> SinkDirectory:
        """Return the directory. Raises SettingsError, Unreachable."""
        if not self._where:
            raise SettingsError(
                f"no directory is named for the sink {self.name!r}: write it as {self.name}:PATH or {self.name}:URI"
            )
        return SinkDirectory(_storage(self._where, self._access.to_json()))

    def _open_bound(self, _: float = 0.0) -> SinkDirectory:
        directory = self._open()
        if self._server and (found := server_of(directory)) != self._server:
            raise Unreachable(
                f"{directory.where}: it is {found} now, and {self._server} listed the branch: nothing was changed"
            )
        return directory

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return the names of all these columns, when files can be made of them here. Makes the directory.

        Raises SettingsError for what a restart will not mend, Unreachable.
        """
        formats.check(columns, self._access)
        directory = self._open()
        try:
            # A store may refuse for a while: that is no reason to start again.
            patiently(directory.make, PATIENCE_S)
            patiently(lambda: directory.storage.write(_PROBE, b""), PATIENCE_S)
            patiently(lambda: directory.storage.delete(_PROBE), PATIENCE_S)
        except Unreachable:
            raise
        except ResourceManagerError as error:
            raise SettingsError(f"sink {self.name}:{self._where} cannot be written to: {error}") from error
        return frozenset(name for name, _ in columns)

    def identity(self) -> str:
        """Return what the directory goes by, in a file of it, however it is spelled. Raises SettingsError, Unreachable."""
        return server_of(self._open())

    def begin(self, slot: SlotAttempt) -> FilesOpenTransaction:
        """Prove that this attempt was not superseded, remove what earlier ones left, and open a branch.

        Raises ZombieWriter when the slot's marker is at this (batch, attempt) or beyond, or a later attempt has begun to write,
        DecisionMissing when it has committed this batch and the log does not say so; SettingsError, ResourceManagerError.
        """
        mine = BranchId.new(prefix=slot.prefix, batch=slot.marker.batch, attempt=slot.marker.attempt, slot=slot.slot)
        directory = self._open()
        patiently(directory.id, PATIENCE_S)
        markers = patiently(lambda: directory.markers(slot.prefix, slot.slot), PATIENCE_S)
        newest = newest_committed(markers, slot.marker.checkpoint_id)
        if newest is not None and newest.covers(slot.marker):
            raise ZombieWriter(
                f"slot {slot.slot} of {slot.prefix!r} has a marker of batch {newest.batch}, attempt {newest.attempt}: this task "
                f"(batch {slot.marker.batch}, attempt {slot.marker.attempt}) was superseded"
            )
        for found in markers:
            if found.state is MarkerState.COMMITTED and _same_batch(found.marker, slot.marker):
                slot.require_decided(found.marker.attempt, self.name)
        # The sign first, then the list: of two who begin at once, one sees the other.
        sign = names.branch_file(mine, names.OPEN)
        patiently(lambda: directory.storage.write(sign, b""), PATIENCE_S)
        there = [found.branch for found in patiently(directory.branches, PATIENCE_S).values()]
        later = [other for other in there if other.prefix == mine.prefix and other.attempt > mine.attempt]
        if later:
            patiently(lambda: directory.storage.delete(sign), PATIENCE_S)
            raise ZombieWriter(f"{later[0]} is of a later attempt: this task ({mine}) was superseded")
        orphans = [str(other) for other in there if other.is_superseded_by(mine)]
        for orphan, error in zip(orphans, self._end(orphans, ORPHAN_LIMIT_S), strict=True):
            log.warning("%s, which an earlier attempt left: %s", orphan, error or "removed")
        directory.prune(markers, newest, slot.marker)
        return FilesOpenTransaction(directory, slot, mine, self._access)

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> PlainWriter:
        """Return a writer for at_least_once or none. Raises ResourceManagerError, SettingsError (none: never)."""
        if guarantee is DeliveryGuarantee.NONE:
            return UncheckedFiles(self._open, self._access)
        return PlainFiles(self._open, self._access)

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether its branch is prepared. Raises Unreachable, ResourceManagerError."""
        if not handles:
            return []
        directory = self._open()
        found = patiently(directory.branches, PATIENCE_S)
        prepared = {name for name, branch in found.items() if branch.prepared_ms is not None}
        return listed(handles, prepared, f"{directory.where}/{names.BRANCHES} does not list it: it was rolled back")

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Give the rows of prepared branches their names; one outcome per handle, in order. The manifest knows the marker."""
        return self.commit_listed(handles, limit_s)

    def commit_listed(self, handles: Sequence[Handle], limit_s: float) -> list[CommitOutcome]:
        """Do what ``commit`` does, which changes nothing about a branch that is not prepared here."""
        return each(handles, limit_s, self._open_bound, settlement.commit, retry_later, settlement.AT_ONCE)

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Remove exactly these branches; one outcome per handle, in order."""
        return each(handles, limit_s, self._open_bound, settlement.roll_back, retry_later, settlement.AT_ONCE)

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Remove branches, prepared or not, and shut out their writers; return an error text each, empty = done."""
        return self._end([view.transaction for view in transactions], limit_s)

    def commit_open(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit prepared branches of others; return an error text per transaction, empty = it is committed.

        The caller knows that their owner counts them as written.
        """
        return self._each_named([view.transaction for view in transactions], limit_s, settlement.commit_named)

    def _end(self, transactions: Sequence[str], limit_s: float) -> list[str]:
        return self._each_named(transactions, limit_s, settlement.fence)

    def _each_named(
        self, transactions: Sequence[str], limit_s: float, settle: Callable[[SinkDirectory, str], str]
    ) -> list[str]:
        return each(transactions, limit_s, self._open_bound, settle, still_open, settlement.AT_ONCE)

    def watch(self, limit_s: float) -> FilesWatch:
        """Return what looks at the directory's prepared branches and changes nothing. The storage's client has its own limits."""
        return FilesWatch(self._open)

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return what this prefix left prepared, or open by tasks that died, ids parsed whole."""
        return [_view(name, found) for name, found in self._open().branches().items() if found.branch.prefix == prefix]

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every branch of the directory, prepared or open."""
        return [_view(name, found) for name, found in self._open().branches().items()]


class FilesWatch:
    """Reads what is prepared, again and again, and changes nothing.

    The questions that are asked of a database's BranchWatch, answered by what stands below a directory.
    """

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


@functools.lru_cache(32)
def _storage(where: str, access: str) -> Storage:
    # Kept: a client of an object store takes longer to make than to ask.
    properties = FilesAccess.from_json(access).properties
    return open_storage(CheckpointLocation.read(where, properties, what="directory of the files sink"))


def _same_batch(found: Marker, mine: Marker) -> bool:
    return (found.checkpoint_id, found.batch) == (mine.checkpoint_id, mine.batch)


def _view(name: str, found: FoundBranch) -> OpenTransactionView:
    is_prepared = found.prepared_ms is not None
    return OpenTransactionView(
        resource_manager=FILES.name,
        transaction=name,
        state="Prepared" if is_prepared else "Open",
        started_at_ms=found.prepared_ms if is_prepared else found.began_ms,
    )
