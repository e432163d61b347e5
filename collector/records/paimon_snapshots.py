"""What the snapshots of a Paimon table say of a commit that a checkpoint of Flink lists. Pure.

Flink's sink adds the files of a checkpoint by a snapshot that bears its commit user and the checkpoint's number. After a restore it
looks for the newest snapshot of its user, and takes every number up to that one's for added. A job that was set back uses a number
again: which files a snapshot adds, only its manifests tell. Source: FileStoreCommitImpl
(filterCommitted), SnapshotManager (latestSnapshotOfUser) of paimon-core 1.3 to 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from indoubt.collector.records.formats.pending_files import FileSeen, PaimonCommit, Standing
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import MalformedRecord

FIRST = 1
"""The number of a table's first snapshot."""


class Snapshot(NamedTuple):
    """A snapshot; ``manifests``: the file that names the manifests of what it adds."""

    id: int
    user: str
    identifier: int
    manifests: str


def read_snapshot(data: bytes, name: str) -> Snapshot:
    """Return what a file ``snapshot-N`` says. Raises MalformedRecord."""
    try:
        found = json.loads(data)
        fields = [found["id"], found["commitUser"], found["commitIdentifier"], found["deltaManifestList"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise MalformedRecord(f"{name} is no snapshot of Paimon") from None
    if [type(field) for field in fields] != [int, str, int, str]:
        raise MalformedRecord(f"{name} is no snapshot of Paimon")
    return Snapshot(*fields)


def numbered(snapshots: Sequence[Snapshot], commit: PaimonCommit) -> list[Snapshot]:
    """Return the snapshots that bear a commit's user and number: one of them adds its files, or none."""
    return [each for each in snapshots if (each.user, each.identifier) == (commit.user, commit.identifier)]


def seen_in(snapshots: Sequence[Snapshot], commit: PaimonCommit, *, is_added: bool) -> FileSeen:
    """Return the standing of a commit in its table.

    ``snapshots``: all that are kept; ``is_added``: one of those that bear its user and number (numbered) adds its files.
    """
    if is_added:
        return FileSeen(Standing.VISIBLE)
    by_id = sorted(snapshots)
    own = [each for each in by_id if each.user == commit.user]
    is_whole = not by_id or by_id[0].id == FIRST
    if not is_whole and all(each.identifier >= commit.identifier for each in own):
        return FileSeen(Standing.UNCLEAR, "no snapshot that is kept adds it, and older ones are not kept")
    if not own or own[-1].identifier < commit.identifier:
        return FileSeen(Standing.HIDDEN)
    why = (
        f"snapshot {own[-1].id}, the newest of its commit user, bears number {own[-1].identifier}, and none that is kept adds the "
        f"{counted(commit.files, 'file')} with {counted(commit.rows, 'row')} of number {commit.identifier}"
    )
    return FileSeen(Standing.HIDDEN, why)
