"""How orders act on what only Flink's checkpoints list: each is looked for again, and only what is hidden there is touched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.pending_files import LACKED, IcebergCommit, PendingFile, Standing
from indoubt.collector.views.current_flink import CurrentFlink
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.outcomes import CommitOutcome, RollbackOutcome, Unknown
from indoubt.resource_managers.protocol import OpenTransactionView, Readiness

if TYPE_CHECKING:
    from indoubt.collector.observe.flink_file_store import FileStore

NOT_OURS = "no pipeline of ours writes what only checkpoints of Flink list"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenFile(OpenTransactionView):
    """A file that its store holds hidden now, as the checkpoint that was read lists it."""

    file: PendingFile


class FileParticipant:
    """Files that checkpoints list. No decision of ours is ever about one."""

    def __init__(self, flink: CurrentFlink) -> None:
        self._flink = flink

    @functools.cached_property
    def _files(self) -> FileStore:
        # Imported here: its filesystems are loaded only where there is such a file.
        from indoubt.collector.observe.flink_file_store import FileStore

        return FileStore()

    def description(self, action: Action, target: Handle | OpenTransactionView) -> str:
        """Return what is done in words."""
        file = target.file if isinstance(target, HiddenFile) else PendingFile(target=target.transaction, size=None)
        if file.target.startswith(IcebergCommit.scheme):
            return f"a snapshot that adds {file.target.removeprefix(IcebergCommit.scheme)}"
        if action is not Action.COMMIT:
            return f"abort of the upload to {file.target}" if file.upload else f"removal of {file.temporary}"
        if file.upload:
            return f"completion of the upload to {file.target} ({len(file.parts)} parts, {file.size} bytes)"
        return f"rename of {file.temporary} to {file.target} ({file.size} bytes)"

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say that none is ready."""
        return [Readiness(handle=handle, ready=False, time_left_ms=0, reason=NOT_OURS) for handle in handles]

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Do nothing."""
        return [Unknown(handle=handle, reason=NOT_OURS) for handle in handles]

    def complete(self, handle: Handle) -> None:
        """Do nothing."""

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Do nothing."""
        return [Unknown(handle=handle, reason=NOT_OURS) for handle in handles]

    def find_open(self, seen: Sequence[TransactionView]) -> list[OpenTransactionView | None]:
        """Return each that is hidden in its store now. Raises ResourceManagerError."""
        return [self._hidden(view) for view in seen]

    def _hidden(self, view: TransactionView) -> HiddenFile | None:
        file = self._flink.file_listed(view.transaction) or self._flink.unnamed_file(view.transaction)
        if file is None:
            raise ResourceManagerError(
                f"no checkpoint that was read lists {view.transaction}, and none that would is known"
            )
        if self._files.look(file).standing is not Standing.HIDDEN:
            return None
        return HiddenFile(
            resource_manager=file.resource_manager,
            transaction=file.target,
            state="Prepared",
            file=file,
        )

    def commit_open(self, targets: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Make each visible, those of earlier checkpoints first; an error text each, empty: it is."""
        errors = dict.fromkeys(range(len(targets)), "")
        for at in sorted(errors, key=lambda at: _checkpoint(targets[at])):
            errors[at] = _done(self._make_visible, targets[at])
        return [*errors.values()]

    def _make_visible(self, file: PendingFile) -> None:
        before = self._flink.commits_before(file.commit) if isinstance(file.commit, IcebergCommit) else []
        for earlier in before:
            # A sink takes every checkpoint up to the last one in its table for added.
            if self._files.look(earlier) == LACKED:
                raise ResourceManagerError(
                    f"its table lacks {earlier.target}, of an earlier checkpoint: add that first, or a restored job leaves it out"
                )
        self._files.make_visible(file)

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Remove each; an error text each, empty: it is gone."""
        return [_done(self._files.remove, target) for target in transactions]


def _checkpoint(target: OpenTransactionView) -> int:
    commit = target.file.commit if isinstance(target, HiddenFile) else None
    return commit.checkpoint_id if isinstance(commit, IcebergCommit) else 0


def _done(act: Callable[[PendingFile], None], target: OpenTransactionView) -> str:
    if not isinstance(target, HiddenFile):
        return f"{target.transaction}: no store holds it hidden"
    try:
        act(target.file)
    except ResourceManagerError as error:
        return str(error)
    return ""
