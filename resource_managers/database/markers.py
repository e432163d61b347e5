"""Marker rows: proof of a batch inside its own transaction, so that its outcome can be told later, whatever happened.

The key is (life, slot, batch, attempt). The attempt belongs to it, because a replay may swap rows between slots: the same
slot of the same batch is then written twice, rightly. A tombstone under the same key is proof of the opposite.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum

from lifecycle.branch_id import BranchId
from lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from lifecycle.identity import Marker
from resource_managers.database_own_tables import OwnTable
from resource_managers.database_session import DatabaseSession

log = logging.getLogger(__name__)

LOOK = "select life, slot, batch, attempt, branch, state from indoubt_markers where life = ''"

TABLES = {
    "mysql": OwnTable(
        name="indoubt_markers",
        create=(
            """\
create table if not exists indoubt_markers (
    life varchar(64) not null,
    slot int not null,
    batch bigint not null,
    attempt bigint not null,
    branch varchar(160) not null,
    state varchar(10) not null,
    primary key (life, slot, batch, attempt),
    key (branch)
) engine = InnoDB character set ascii collate ascii_bin""",
        ),
        look=LOOK,
    ),
    "postgres": OwnTable(
        name="indoubt_markers",
        create=(
            """\
create table if not exists indoubt_markers (
    life varchar(64) not null,
    slot integer not null,
    batch bigint not null,
    attempt bigint not null,
    branch varchar(160) not null,
    state varchar(10) not null,
    primary key (life, slot, batch, attempt)
)""",
            "create index if not exists indoubt_markers_branch on indoubt_markers (branch)",
        ),
        look=LOOK,
    ),
}

KEPT_BATCHES = 16
"""Markers of so many batches before the newest stay in each slot. Only the last decided batch is ever asked about."""


class MarkerState(Enum):
    """What a marker row says about the branch that it names."""

    COMMITTED = "committed"
    TOMBSTONE = "tombstone"


def insert(session: DatabaseSession, marker: Marker, branch: BranchId, state: MarkerState) -> None:
    """Insert the marker row of a branch. Raises DuplicateKey, and LockTimeout while an open branch holds its key."""
    session.query(
        "insert into indoubt_markers (life, slot, batch, attempt, branch, state) values (%s, %s, %s, %s, %s, %s)",
        (marker.life, branch.slot, marker.batch, marker.attempt, str(branch), state.value),
    )


def newest(session: DatabaseSession, life: str, slot: int) -> Marker | None:
    """Return the highest (batch, attempt) that a slot of this life has a row for, tombstones included; None without any."""
    found = session.query(
        "select batch, attempt from indoubt_markers where life = %s and slot = %s order by batch desc, attempt desc limit 1",
        (life, slot),
    )
    return Marker(batch=found[0][0], attempt=found[0][1], life=life) if found else None


def read(session: DatabaseSession, marker: Marker, slot: int) -> tuple[str, MarkerState] | None:
    """Return (branch, state) of one marker row, None when there is none."""
    found = session.query(
        "select branch, state from indoubt_markers where life = %s and slot = %s and batch = %s and attempt = %s",
        (marker.life, slot, marker.batch, marker.attempt),
    )
    return (found[0][0], MarkerState(found[0][1])) if found else None


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
    """Delete a slot's rows of batches that nobody asks about any more, once in KEPT_BATCHES batches: growth is bounded.

    Never the newest, which is what a zombie is told by. That it fails is logged and no more: the next one does it too.
    """
    if newest_there.batch // KEPT_BATCHES == mine.batch // KEPT_BATCHES:
        return
    try:
        session.query(
            "delete from indoubt_markers where life = %s and slot = %s and batch < %s",
            (newest_there.life, slot, newest_there.batch - KEPT_BATCHES),
        )
    except Unreachable:
        raise
    except (ResourceManagerError, SettingsError) as error:
        log.warning("old markers of slot %d were not deleted: %s", slot, error)
