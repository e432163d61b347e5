"""What the snapshots of an Iceberg table say of a commit that a checkpoint of Flink lists. Pure.

Flink's sink adds the files of a checkpoint by a snapshot whose summary names job, operator and checkpoint. After a restore it looks
for the newest snapshot of its job and operator, and takes every checkpoint up to that number for added. Source:
SinkUtil.getMaxCommittedCheckpointId and IcebergCommitter of iceberg-flink 1.4 to 1.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from indoubt.collector.records.formats.pending_files import IcebergCommit

JOB, OPERATOR, CHECKPOINT = "flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"
MAIN, APPEND = "main", "append"


class Snapshot(NamedTuple):
    """A snapshot; ``at_ms``: epoch ms, the clock of who added it; ``operation``: append, overwrite, delete, replace."""

    id: int
    parent: int | None
    at_ms: int
    summary: Mapping[str, str]
    operation: str = ""

    @property
    def checkpoint(self) -> int:
        """Return the last checkpoint that it adds, -1 where it is none of Flink's sink."""
        number = self.summary.get(CHECKPOINT, "")
        return int(number) if number.isdecimal() else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """The snapshots that a table still has, by id, and the newest of each of its branches."""

    snapshots: Mapping[int, Snapshot]
    branches: Mapping[str, int]

    def line(self, branch: str) -> Iterator[Snapshot]:
        """Yield the snapshots of a branch that are kept, the newest first."""
        at: int | None = self.branches.get(branch)
        while at is not None and at in self.snapshots:
            yield self.snapshots[at]
            at = self.snapshots[at].parent

    def only_appends(self, operator: str) -> bool:
        """Say whether the snapshots of an operator of Flink show that it adds rows, and neither replaces nor deletes any."""
        own = {each.operation for each in self.snapshots.values() if each.summary.get(OPERATOR) == operator}
        return own == {APPEND}


class Place(Enum):
    """Where a commit stands in a table's history."""

    ADDED = "added"
    """A snapshot of this very number is part of a branch."""
    PASSED = "passed"
    """Of its job and operator there is a later number, and not this one: a later snapshot added it, or a restore would skip it."""
    ABSENT = "absent"
    """No snapshot adds it, and none did: the history is whole, or its sink's last snapshot has a lower number."""
    EXPIRED = "expired"
    """None that is kept adds it; older ones are not kept."""
    ROLLED_BACK = "rolled back"
    """A snapshot added it that is part of no branch any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a commit stands. ``snapshots``: those that say so; ``branch``: that its sink writes to, empty: not known."""

    place: Place
    snapshots: tuple[Snapshot, ...] = ()
    branch: str = ""


def place_of(commit: IcebergCommit, history: TableHistory) -> Placed:
    """Return where a commit stands in the history of its table."""
    branches = [commit.branch] if commit.branch else list(history.branches)
    by_branch = {branch: [each for each in history.line(branch) if _is_of(commit, each)] for branch in branches}
    for branch, own in by_branch.items():
        if added := tuple(each for each in own if each.checkpoint == commit.checkpoint_id):
            return Placed(place=Place.ADDED, snapshots=added, branch=branch)
    written = [branch for branch, own in by_branch.items() if own]
    branch = commit.branch or (written[0] if len(written) == 1 else "")
    if not branch and not written and branches in ([], [MAIN]):
        branch = MAIN
    for own in by_branch.values():
        if later := [each for each in own if each.checkpoint > commit.checkpoint_id]:
            return Placed(place=Place.PASSED, snapshots=(later[-1],), branch=branch)
    gone = tuple(
        each for each in history.snapshots.values() if _is_of(commit, each) and each.checkpoint == commit.checkpoint_id
    )
    if gone:
        return Placed(place=Place.ROLLED_BACK, snapshots=gone, branch=branch)
    is_known = bool(written) or all(_is_whole(history, branch) for branch in branches)
    return Placed(place=Place.ABSENT if is_known else Place.EXPIRED, branch=branch)


def _is_of(commit: IcebergCommit, snapshot: Snapshot) -> bool:
    """Say whether the sink of a commit added a snapshot, as the sink itself would; old versions name no operator."""
    summary = snapshot.summary
    return (
        snapshot.checkpoint >= 0
        and summary.get(JOB) == commit.job
        and summary.get(OPERATOR, commit.operator) == commit.operator
    )


def _is_whole(history: TableHistory, branch: str) -> bool:
    oldest = [*history.line(branch)][-1:]
    return all(each.parent is None for each in oldest)
