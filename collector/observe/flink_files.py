"""Looks for what checkpoints of Flink list and its sinks make visible once they are completed: files, commits to tables.

A file is told of only once it is still hidden some time after it was listed: a job that runs makes it visible at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from indoubt.collector.history.store import Store
from indoubt.collector.observe.flink_file_store import FileStore
from indoubt.collector.observe.pace import Pace
from indoubt.collector.observe.source import CountingObserver
from indoubt.collector.records.branches import BranchDetail, BranchFacts, DatabaseSnapshot
from indoubt.collector.records.formats.pending_files import (
    FileSeen,
    PendingFile,
    Standing,
    UnnamedFile,
    instance_of,
    named_commit,
    resource_manager_of,
)
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import ResourceManagerError

_PROOFS = {Standing.VISIBLE: BranchProof.COMMITTED, Standing.MISSING: BranchProof.MISSING}


LISTED_EVERY_S = 10.0
"""So often the directories of file sinks are looked through for what no checkpoint names."""


class FlinkFiles(CountingObserver):
    """``overdue_ms``: how long after it was listed a file that is still hidden is told of."""

    kind = ObserverKind.FLINK_FILES

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        cluster: str,
        *,
        interval_ms: int,
        remote_interval_ms: int,
        overdue_ms: int,
        paimon_warehouses: Sequence[str] = (),
        pace: Pace | None = None,
    ) -> None:
        super().__init__(current, store, cluster)
        self._cluster, self._listed_in, self._overdue_ms = cluster, instance_of(cluster), overdue_ms
        self._interval_s, self._remote_interval_s = interval_ms / 1000, remote_interval_ms / 1000
        self._pace = pace
        self._files = FileStore(paimon_warehouses)
        self._seen: dict[str, FileSeen] = {}
        """Target -> how it was at its last look; what is visible is not looked for again."""
        self._missed: frozenset[str] = frozenset()
        self._next_remote_s = self._next_listing_s = 0.0
        self._hidden: dict[str, UnnamedFile] = {}
        """What no checkpoint names, by its name once it would be visible."""
        self._first_seen_ms: dict[str, int] = {}
        """Temporary name or upload -> when it was seen first (epoch ms), of all that is hidden."""
        self._kept: dict[str, PendingFile] = {}
        """What was listed, or seen hidden, as long as its end was not seen: its list may be deleted before."""
        self._unasked: dict[str, str] = {}
        """Target -> why it could not be looked for at the last try."""

    @property
    def note(self) -> str:
        """Return what could not be looked for, or not be told."""
        unclear = {target: seen.why for target, seen in self._seen.items() if seen.standing is Standing.UNCLEAR}
        twice = {
            target: seen.why for target, seen in self._seen.items() if seen.standing is Standing.VISIBLE and seen.why
        }
        told = [(self._unasked, "cannot be looked for"), (unclear, "cannot be told"), (twice, "may be there twice")]
        return "; ".join(
            f"{counted(len(files), 'file')} {what}, the last of them {list(files)[-1]}: {list(files.values())[-1]}"
            for files, what in told
            if files
        )

    def observe(self) -> None:
        """Look until stopped."""
        self.repeat(self.look, self._interval_s, self._pace)

    def look(self) -> None:
        """Look once for every file that is listed, or was told of, and is not known to be visible."""
        listed, at_ms = self.current.flink.files_listed(self._cluster), now_ms()
        before = self.current.listed_branches(self._listed_in)
        unnamed = self._unnamed()
        self._kept |= {name: file for name, (file, _) in listed.items()}
        self._kept = {name: file for name, file in self._kept.items() if name in before}
        self._kept |= {name: each.file for name, each in unnamed.items() if name not in listed}
        unlisted = {name: (self._kept.get(name) or _by_name(name), at_ms) for name in before}
        looked = self._look({**unlisted, **listed})
        self._tell(listed, before, looked, at_ms)
        self.tell(self._listed(name, at_ms) for name in unnamed if name not in before and name not in listed)
        self.current.flink.see_files(self._cluster, dict(self._seen))
        error = next((self._unasked[name] for name in before if name in self._unasked), "")
        details = {branch.key: BranchDetail() for branch in self.current.listed_branches(self._listed_in).values()}
        self.current.see_branches(self._listed_in, DatabaseSnapshot(at_ms=at_ms, details=details, error=error))

    def _unnamed(self) -> dict[str, UnnamedFile]:
        """Return the hidden files that the last checkpoint of each job that writes there would name, and none on disk does."""
        if time.monotonic() < self._next_listing_s:
            return self._hidden
        self._next_listing_s = time.monotonic() + LISTED_EVERY_S
        named, found, at_ms = self.current.flink.files_named(), dict[str, UnnamedFile](), now_ms()
        first_seen_ms: dict[str, int] = {}
        for directory, until_ms in self.current.flink.file_directories(self._cluster).items():
            try:
                hidden = self._files.hidden_in(directory)
            except ResourceManagerError as error:
                self._unasked[directory] = str(error)
                continue
            for file in hidden:
                name = file.temporary or file.upload
                # Not every store tells when an upload was begun: it was by the time at which it is seen first.
                seen_ms = first_seen_ms[name] = self._first_seen_ms.get(name, at_ms)
                if until_ms is not None and seen_ms < until_ms and name not in named:
                    found[file.target] = UnnamedFile(file=file, directory=directory, opened_ms=seen_ms)
        self._first_seen_ms = first_seen_ms
        self._hidden = found
        self.current.flink.see_unnamed_files(self._cluster, dict(found))
        return found

    def _look(self, files: Mapping[str, tuple[PendingFile, int]]) -> dict[str, FileSeen]:
        is_remote_due = time.monotonic() >= self._next_remote_s
        if is_remote_due:
            self._next_remote_s = time.monotonic() + self._remote_interval_s
        self._seen = {target: seen for target, seen in self._seen.items() if target in files}
        self._unasked = {target: why for target, why in self._unasked.items() if target in files}
        looked: dict[str, FileSeen] = {}
        for target, (file, _) in files.items():
            known = self._seen.get(target)
            is_due = target.startswith("/") or is_remote_due
            if self.stopping.is_set() or not is_due or (known is not None and known.standing is Standing.VISIBLE):
                continue
            try:
                looked[target] = self._seen[target] = self._files.look(file)
                self._unasked.pop(target, None)
            except ResourceManagerError as error:
                self._unasked[target] = str(error)
        return looked

    def _tell(
        self,
        listed: Mapping[str, tuple[PendingFile, int]],
        before: Mapping[str, BranchFacts],
        looked: Mapping[str, FileSeen],
        at_ms: int,
    ) -> None:
        """Hand over which files are hidden for too long, and how those ended that were."""
        changes: list[BranchListed | BranchGone] = []
        missed = set()
        for target, seen in looked.items():
            if target not in before:
                is_overdue = target in listed and at_ms - listed[target][1] >= self._overdue_ms
                if seen.standing is Standing.HIDDEN and is_overdue:
                    changes.append(self._listed(target, at_ms))
                continue
            # A rename shows neither name for a moment on some file systems: two looks must miss it.
            if seen.standing is Standing.MISSING and target not in self._missed:
                missed.add(target)
            elif (proof := _PROOFS.get(seen.standing)) is not None:
                changes.append(self._gone(target, at_ms, proof))
        self._missed = frozenset(missed)
        self.tell(changes)

    def _listed(self, target: str, at_ms: int) -> BranchListed:
        return BranchListed(
            instance=self._listed_in, resource_manager=resource_manager_of(target), transaction=target, at_ms=at_ms
        )

    def _gone(self, target: str, at_ms: int, proof: BranchProof) -> BranchGone:
        return BranchGone(
            instance=self._listed_in,
            resource_manager=resource_manager_of(target),
            transaction=target,
            at_ms=at_ms,
            proof=proof,
        )


def _by_name(target: str) -> PendingFile:
    """Return what the target alone tells of one whose list was deleted before the collector's start."""
    return PendingFile(target=target, size=None, commit=named_commit(target))
