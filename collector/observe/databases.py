"""Observes one database, or directory of files: its prepared branches, and the markers of those that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import CountingObserver
from indoubt.collector.records.branches import BranchDetail, BranchFacts, DatabaseSnapshot, branch_key
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import CLOCK, now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from indoubt.resource_managers.database.branches import BranchListing
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.database.resource_manager import WATCH_LIMIT_S
from indoubt.resource_managers.database.servers import Silence, silence
from indoubt.resource_managers.database.session import BranchLocks
from indoubt.resource_managers.database.watched import WatchedResourceManager

MAX_ASKED = 500
"""So many markers are asked for at one poll; the others at the next."""
UNNAMED = (
    "which server answers is not known (PostgreSQL: pg_control_system and pg_walfile_name tell), so no end of a branch is certain "
    "without its marker"
)
_PROOFS = {MarkerState.COMMITTED: BranchProof.COMMITTED, MarkerState.TOMBSTONE: BranchProof.TOMBSTONE}
Change = BranchListed | BranchGone


class Databases(CountingObserver):
    """Polls one database, over one connection, and changes nothing there.

    ``instance`` is the name it was given; without ``lists`` only markers are read: another instance reads the server's list.
    """

    kind = ObserverKind.DATABASE

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        instance: str,
        manager: WatchedResourceManager,
        *,
        lists: bool,
        interval_ms: int,
    ) -> None:
        super().__init__(current, store, instance)
        self._instance, self._kind, self._lists = instance, manager.name, lists
        self._interval_s = interval_ms / 1000
        self._watch = manager.watch(WATCH_LIMIT_S)
        self._missing: frozenset[str] = frozenset()
        self._seen = DatabaseSnapshot(at_ms=None)
        self._of_others = 0
        self._elsewhere: Mapping[str, int] = {}
        self._unread = ""

    @property
    def note(self) -> str:
        """Return what cannot be seen from here."""
        notes = (
            [
                f"markers cannot be read ({self._unread}): how branches ended is known from outcomes in the decision log only"
            ]
            if self._unread
            else []
        )
        if self._of_others:
            notes.append(
                f"{self._seen.server} answers, and another server had listed {counted(self._of_others, 'branch', 'branches')}: "
                "what this one does not list has not ended"
            )
        if self._lists and self._seen.at_ms is not None and not self._seen.server:
            notes.append(UNNAMED)
        if self._elsewhere:
            where = ", ".join(f"{count} in {database}" for database, count in self._elsewhere.items())
            notes.append(f"the server has more prepared transactions, {where}: give these databases too")
        return "; ".join(notes)

    def observe(self) -> None:
        """Poll until stopped. Raises Unreachable, SettingsError, ResourceManagerError, MalformedRecord."""
        try:
            self.repeat(self._poll, self._interval_s)
        finally:
            self._watch.close()

    def _poll(self) -> None:
        asked_ms = CLOCK.steady_ms()
        if (clock_ms := self._watch.clock_ms()) is not None:
            self.current.clocks.saw(self.name, clock_ms, after_ms=asked_ms, before_ms=CLOCK.steady_ms())
        listing = self._watch.list_branches() if self._lists else BranchListing(server="", branches=())
        at_ms = now_ms()
        listed = {branch.transaction for branch in listing.branches}
        before = self.current.listed_branches(self._instance)
        unlisted = sorted(before.keys() - listed)
        missing = [n for n in unlisted if silence(before[n].server, listing.server) is not Silence.SAYS_NOTHING]
        others = [name for name in self.current.unproven_branches(self._kind) if name not in listed]
        # Those that are gone first; all that were not asked about stay as they are until the next poll.
        asked = [name for name in dict.fromkeys([*unlisted, *others]) if BranchId.parse(name) is not None][:MAX_ASKED]
        proofs = self._proofs(asked)
        gone = [name for name in missing if BranchId.parse(name) is None or name in asked]
        changes: list[Change] = [
            BranchListed(
                instance=self._instance,
                resource_manager=self._kind,
                transaction=branch.transaction,
                at_ms=at_ms,
                prepared_ms=branch.prepared_at_ms,
                owner=branch.owner,
                database=branch.database,
                server=listing.server,
            )
            for branch in listing.branches
            if is_new(before.get(branch.transaction), branch.prepared_at_ms, listing.server)
        ]
        changes += self._gone(gone, proofs, at_ms, listing.server)
        self.tell(changes)
        self._elsewhere, self._of_others = listing.elsewhere, len(unlisted) - len(missing)
        if self._lists:
            self._see(DatabaseSnapshot(at_ms=at_ms, details=self._details(listing), server=listing.server))

    def failed(self, error: Exception) -> None:
        """Say with each branch why it is not known whether it is still there."""
        if self._lists:
            self._see(replace(self._seen, error=str(error)))

    def _see(self, snapshot: DatabaseSnapshot) -> None:
        self._seen = snapshot
        self.current.see_branches(self._instance, snapshot)

    def _gone(self, missing: Sequence[str], proofs: Mapping[str, BranchProof], at_ms: int, server: str) -> list[Change]:
        ends, self._missing = ends_known(missing, self._missing, proofs, are_read=not self._unread)
        return [
            BranchGone(
                instance=self._instance,
                resource_manager=self._kind,
                transaction=name,
                at_ms=at_ms,
                proof=proof,
                server=server,
            )
            for name, proof in ends.items()
        ]

    def _proofs(self, asked: Sequence[str]) -> dict[str, BranchProof]:
        """Return what the markers say of these branches of ours. Markers that cannot be read are noted."""
        try:
            found = self._watch.proofs(asked)
        except Unreachable:
            raise
        except (ResourceManagerError, SettingsError) as error:
            self._unread = str(error)
            return {}
        if asked:
            self._unread = ""
        return {name: _PROOFS[state] for name, state in found.items()}

    def _details(self, listing: BranchListing) -> dict[str, BranchDetail]:
        return {
            branch_key(self._kind, branch.transaction, self._instance): BranchDetail(
                transaction_age=branch.transaction_age, locks=listing.locks.get(branch.transaction, BranchLocks())
            )
            for branch in listing.branches
        }


def ends_known(
    missing: Sequence[str], missed_before: Set[str], proofs: Mapping[str, BranchProof], *, are_read: bool
) -> tuple[dict[str, BranchProof | None], frozenset[str]]:
    """Return the branches whose end is known now, with its proof (None: foreign), and those that a next poll must miss too.

    A marker is proof at once. Without one two polls must miss a branch: servers hide it for a moment while it changes hands.
    """
    without = BranchProof.NO_MARKER if are_read else BranchProof.NOT_READ
    ends: dict[str, BranchProof | None] = dict(proofs)
    for name in missing:
        if name in missed_before and name not in ends:
            ends[name] = without if BranchId.parse(name) is not None else None
    return ends, frozenset(missing) - ends.keys()


def is_new(known: BranchFacts | None, prepared_ms: int | None, server: str) -> bool:
    """Say whether a listed branch is another one than what is known under its name, or another server lists it.

    Foreign names may be used again.
    """
    if known is None or prepared_ms != known.prepared_ms:
        return True
    return bool(server) and server != known.server
