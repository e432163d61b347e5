"""Marker rows: proof of a batch inside its own transaction, so that its outcome can be found out later, whatever happened.

The key is (checkpoint id, slot, batch, attempt). The attempt belongs to it, because a replay may swap rows between slots: the
same slot of the same batch is then written twice, rightly. A tombstone under the same key is proof of the opposite.

That a marker is missing proves something only in the database that the run wrote to: each run is noted there before it prepares
anything, under a slot that no task has.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from enum import Enum

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.database.errors import DuplicateKey
from indoubt.resource_managers.database.session import DatabaseSession

log = logging.getLogger(__name__)

PROBE = "select checkpoint_id, slot, batch, attempt, branch, state from indoubt_markers where checkpoint_id = ''"

NAME = "indoubt_markers"

KEPT_BATCHES = 16
"""Markers of so many batches before the newest stay in each slot. Only the last decided batch is ever asked about."""


RUNS = -1
"""The slot under which runs are noted."""
RUN = "run"


class MarkerState(Enum):
    """What a marker row says about the branch that it names."""

    COMMITTED = "committed"
    TOMBSTONE = "tombstone"


def insert(session: DatabaseSession, marker: Marker, branch: BranchId, state: MarkerState) -> None:
    """Insert the marker row of a branch. Raises DuplicateKey, and LockTimeout while an open branch holds its key."""
    session.change(
        "insert into indoubt_markers (checkpoint_id, slot, batch, attempt, branch, state) values (%s, %s, %s, %s, %s, %s)",
        (marker.checkpoint_id, branch.slot, marker.batch, marker.attempt, str(branch), state.value),
    )


def note_run(session: DatabaseSession, mine: Marker, newest_there: Marker | None) -> None:
    """Note that this run writes here, and forget runs of which nothing can be in doubt any more.

    ``newest_there`` is a slot's newest marker. A batch of its run was committed, so what earlier runs had decided was settled.
    """
    if newest_there is not None and newest_there.attempt == mine.attempt:
        return
    # Another slot's task may do so at this very moment.
    with contextlib.suppress(DuplicateKey):
        session.change(
            "insert into indoubt_markers (checkpoint_id, slot, batch, attempt, branch, state) values (%s, %s, 0, %s, '', %s)",
            (mine.checkpoint_id, RUNS, mine.attempt, RUN),
        )
    if newest_there is not None:
        session.change(
            "delete from indoubt_markers where checkpoint_id = %s and slot = %s and attempt < %s",
            (mine.checkpoint_id, RUNS, newest_there.attempt),
        )


def saw_run(session: DatabaseSession, marker: Marker) -> bool:
    """Say whether the run of this marker wrote to this database."""
    return bool(
        session.query(
            "select 1 from indoubt_markers where checkpoint_id = %s and slot = %s and batch = 0 and attempt = %s",
            (marker.checkpoint_id, RUNS, marker.attempt),
        )
    )


def newest(session: DatabaseSession, checkpoint_id: str, slot: int) -> Marker | None:
    """Return the highest (batch, attempt) that a slot of this checkpoint id has a row for, tombstones too; None without any."""
    found = session.query(
        "select batch, attempt from indoubt_markers where checkpoint_id = %s and slot = %s "
        "order by batch desc, attempt desc limit 1",
        (checkpoint_id, slot),
    )
    return Marker(batch=found[0][0], attempt=found[0][1], checkpoint_id=checkpoint_id) if found else None


def read(session: DatabaseSession, marker: Marker, slot: int) -> tuple[str, MarkerState] | None:
    """Return (branch, state) of one marker row, None when there is none."""
    found = session.query(
        "select branch, state from indoubt_markers where checkpoint_id = %s and slot = %s and batch = %s and attempt = %s",
        (marker.checkpoint_id, slot, marker.batch, marker.attempt),
    )
    return (found[0][0], MarkerState(found[0][1])) if found else None


def committed_attempts(session: DatabaseSession, mine: Marker, slot: int) -> list[int]:
    """Return the attempts at this batch that this slot has committed, in order."""
    found = session.query(
        "select attempt from indoubt_markers where checkpoint_id = %s and slot = %s and batch = %s and state = %s order by attempt",
        (mine.checkpoint_id, slot, mine.batch, MarkerState.COMMITTED.value),
    )
    return [int(attempt) for (attempt,) in found]


def is_committed(session: DatabaseSession, transaction: str) -> bool:
    """Say whether a marker proves that this branch was committed."""
    found = session.query(
        "select 1 from indoubt_markers where branch = %s and state = %s",
        (transaction, MarkerState.COMMITTED.value),
    )
    return bool(found)


def proofs(session: DatabaseSession, transactions: Sequence[str]) -> dict[str, MarkerState]:
    """Return what the markers say of these branches, by name; nothing for one that has no row. Only reads."""
    if not transactions:
        return {}
    places = ", ".join(["%s"] * len(transactions))
    found = session.query(f"select branch, state from indoubt_markers where branch in ({places})", transactions)  # noqa: S608 (placeholders)
    return {str(branch): MarkerState(state) for branch, state in found}


def may_be_pruned(newest_there: Marker | None, marker: Marker) -> bool:
    """Say whether a marker that is not there may have been, once."""
    return newest_there is not None and newest_there.batch - marker.batch > KEPT_BATCHES


def prune(session: DatabaseSession, newest_there: Marker, mine: Marker, slot: int) -> None:
    """Delete a slot's rows of batches that no run asks about any more, once in KEPT_BATCHES batches: growth is bounded.

    Never the newest, by which a zombie is recognized. That it fails is logged and no more: the next one does it too.
    """
    if newest_there.batch // KEPT_BATCHES == mine.batch // KEPT_BATCHES:
        return
    try:
        session.change(
            "delete from indoubt_markers where checkpoint_id = %s and slot = %s and batch < %s",
            (newest_there.checkpoint_id, slot, newest_there.batch - KEPT_BATCHES),
        )
    except Unreachable:
        raise
    except (ResourceManagerError, SettingsError) as error:
        log.warning("old markers of slot %d were not deleted: %s", slot, error)
