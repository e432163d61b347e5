"""What the snapshots of a Paimon table say of a commit that a checkpoint of Flink lists. Pure.

Flink's sink adds the files of a checkpoint by a snapshot that bears its commit user and the checkpoint's number. After a restore it
looks for the newest snapshot of its user, and takes every number up to that one's for added. Source: FileStoreCommitImpl
(filterCommitted), SnapshotManager (latestSnapshotOfUser) of paimon-core 1.3 to 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS
from indoubt.collector.records.formats.pending_files import FileSeen, PaimonCommit, Standing
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.errors import MalformedRecord

FIRST = 1
"""The number of a table's first snapshot."""


class Snapshot(NamedTuple):
    """A snapshot; ``at_ms``: epoch ms, the clock of who added it."""

    id: int
    user: str
    identifier: int
    at_ms: int


def read_snapshot(data: bytes, name: str) -> Snapshot:
    """Return what a file ``snapshot-N`` says. Raises MalformedRecord."""
    try:
        found = json.loads(data)
        fields = [found["id"], found["commitUser"], found["commitIdentifier"], found["timeMillis"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise MalformedRecord(f"{name} is no snapshot of Paimon") from None
    if [type(field) for field in fields] != [int, str, int, int]:
        raise MalformedRecord(f"{name} is no snapshot of Paimon")
    return Snapshot(*fields)


def seen_in(snapshots: Sequence[Snapshot], commit: PaimonCommit, listed_ms: int) -> FileSeen:
    """Return the standing of a commit in its table. ``snapshots``: all that are kept; ``listed_ms``: PendingFile.listed_ms."""
    by_id = sorted(snapshots)
    own = [each for each in by_id if each.user == commit.user]
    same = [each for each in own if each.identifier == commit.identifier]
    if any(each.at_ms >= listed_ms - CLOCK_SKEW_MS for each in same):
        return FileSeen(standing=Standing.VISIBLE)
    if same:
        why = (
            f"snapshot {same[-1].id} bears its commit user and number, and is older than the checkpoint that lists it: of work "
            "that was set back since, it seems"
        )
        return FileSeen(standing=Standing.UNCLEAR, why=why)
    is_whole = not by_id or by_id[0].id == FIRST
    earlier = [each for each in own if each.identifier < commit.identifier]
    if not earlier and not is_whole:
        return FileSeen(standing=Standing.UNCLEAR, why="no snapshot that is kept adds it, and older ones are not kept")
    if not own or own[-1].identifier < commit.identifier:
        return FileSeen(standing=Standing.HIDDEN)
    last = own[-1]
    why = (
        f"snapshot {last.id} bears its commit user and the later number {last.identifier}, and none that is kept adds "
        f"{counted(commit.files, 'file')} with {counted(commit.rows, 'row')} of checkpoint {commit.identifier}"
    )
    return FileSeen(standing=Standing.HIDDEN, why=why)
