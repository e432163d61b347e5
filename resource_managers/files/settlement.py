"""Ends branches: the marker first, then the rows get their names or go. Each step can be repeated by whoever comes next.

No storage here writes on a condition, so that of two who end one branch in opposite ways at the same moment both could go on. The
decision log keeps them apart: a rollback follows its reading, a commit a decision in it.
"""

from __future__ import annotations

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Lost,
    RollbackOutcome,
    RolledBack,
    Unknown,
)
from indoubt.resource_managers.database.markers import MarkerState
from indoubt.resource_managers.files import names
from indoubt.resource_managers.files.directory import Manifest, SinkDirectory

AT_ONCE = 8
"""Branches that are ended side by side: on an object store that is mostly waiting."""
ROLLED_BACK = "it was rolled back, its marker says"


def commit(directory: SinkDirectory, handle: Handle) -> CommitOutcome:
    """Give the rows of a decided branch their names, or say what became of them."""
    branch = BranchId.parse(handle.transaction)
    if branch is None:
        return Unknown(handle=handle, reason=f"{handle.transaction!r} is not a branch of ours, so it has no marker")
    manifest = directory.manifest(branch)
    state = directory.state(branch)
    match state:
        case MarkerState.TOMBSTONE:
            _remove(directory, branch)
            return Lost(handle=handle, reason=ROLLED_BACK)
        case MarkerState.COMMITTED if manifest is None:
            return AlreadyCommitted(handle=handle)
    if manifest is None:
        directory.id()
        return Unknown(
            handle=handle,
            reason=f"{directory.where} has neither its manifest nor its marker below {names.HIDDEN}: somebody removed them, or "
            "it is long ago",
        )
    gone = _finish_commit(directory, branch, manifest)
    if gone:
        return Unknown(
            handle=handle,
            reason=f"rows of it are neither hidden nor where they belong ({directory.where}/{gone[0]}): somebody removed them, "
            "before they were committed or after it",
        )
    return Committed(handle=handle)


def commit_named(directory: SinkDirectory, transaction: str) -> str:
    """Commit one prepared branch whose owner counts it as written; return an error text, empty: it is committed."""
    branch = BranchId.parse(transaction)
    manifest = directory.manifest(branch) if branch is not None else None
    if branch is None or manifest is None or directory.state(branch) is MarkerState.TOMBSTONE:
        return f"{transaction}: {directory.where} has it prepared no more: its owner knows how it ended"
    gone = _finish_commit(directory, branch, manifest)
    return f"{transaction}: its rows were removed: {directory.where}/{gone[0]}" if gone else ""


def _finish_commit(directory: SinkDirectory, branch: BranchId, manifest: Manifest) -> list[str]:
    """Commit; return where rows should be that are not. Then the manifest stays."""
    directory.mark(branch, manifest.checkpoint_id, MarkerState.COMMITTED)
    storage = directory.storage
    gone = [
        file.target
        for file in manifest.files
        if not storage.move(names.branch_file(branch, file.number), file.target) and not storage.exists(file.target)
    ]
    if not gone:
        storage.delete(names.branch_file(branch, names.PREPARED))
        storage.delete(names.branch_file(branch, names.OPEN))
    return gone


def roll_back(directory: SinkDirectory, handle: Handle) -> RollbackOutcome:
    """Remove one branch, prepared or not; one that was committed stays, and is committed in whole."""
    branch = BranchId.parse(handle.transaction)
    if branch is None:
        return Unknown(handle=handle, reason=f"{handle.transaction!r} is not a branch of ours")
    return AlreadyCommitted(handle=handle) if _end(directory, branch) else RolledBack(handle=handle)


def fence(directory: SinkDirectory, transaction: str) -> str:
    """Remove one branch, so that its writer cannot prepare it any more; return an error text, empty when it is gone."""
    branch = BranchId.parse(transaction)
    if branch is None:
        return f"{transaction}: not a branch in {directory.where}"
    return f"{transaction}: it was committed meanwhile" if _end(directory, branch) else ""


def _end(directory: SinkDirectory, branch: BranchId) -> bool:
    """Roll a branch back; True: it is committed."""
    directory.id()
    # Its writer first: what it prepares at this moment it takes back.
    directory.storage.delete(names.branch_file(branch, names.OPEN))
    manifest = directory.manifest(branch)
    state = directory.state(branch)
    if state is MarkerState.COMMITTED:
        if manifest is not None:
            _finish_commit(directory, branch, manifest)
        return True
    if manifest is not None and state is None:
        directory.mark(branch, manifest.checkpoint_id, MarkerState.TOMBSTONE)
    _remove(directory, branch)
    return False


def _remove(directory: SinkDirectory, branch: BranchId) -> None:
    found = directory.branches().get(str(branch))
    if found is not None:
        directory.remove(found.files)
