"""Who writes for a pipeline at this moment, in MySQL and MariaDB.

A user-level lock for each slot tells the connection that holds it (IS_USED_LOCK), and a row tells the attempt that took
the slot last: the lock alone could not tell a zombie from its successor. No privilege is needed to end one's own sessions.
"""

from __future__ import annotations

import hashlib
import logging

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable, ZombieWriter
from indoubt.resource_managers.database.errors import LockTimeout
from indoubt.resource_managers.database.own_tables import OwnTable
from indoubt.resource_managers.database.session import DatabaseSession

log = logging.getLogger(__name__)

TABLE = OwnTable(
    name="indoubt_writers",
    create=(
        """\
create table if not exists indoubt_writers (
    prefix varchar(80) not null,
    slot int not null,
    attempt bigint not null,
    primary key (prefix, slot)
) engine = InnoDB character set ascii collate ascii_bin""",
    ),
    probe="select prefix, slot, attempt from indoubt_writers where prefix = ''",
)

CLOSING_S = 1
"""The server notices a closed connection a little later: one that holds its lock for longer than this is there still."""


def lock_name(database: str, prefix: str) -> str:
    """Return what the names of a prefix's locks begin with; the slot follows (64 characters at most in all).

    With the database in it, because locks are the whole server's.
    """
    return f"indoubt:{hashlib.sha256(f'{database}:{prefix}'.encode()).hexdigest()[:32]}:"


def take_slot(session: DatabaseSession, mine: BranchId, wait_s: int) -> None:
    """Note this attempt, end the sessions of writers that it supersedes, and take the slot's lock.

    Noted before the lock is taken, so that whoever sees it taken sees by which attempt; and after, because an older attempt
    may have noted itself in between. Raises ZombieWriter, LockTimeout.
    """
    name = lock_name(session.connection.database, mine.prefix)
    writers = session.query(
        "select slot, attempt, is_used_lock(concat(%s, slot)) from indoubt_writers "
        "where prefix = %s and (slot = %s or attempt < %s)",
        (name, mine.prefix, mine.slot, mine.attempt),
    )
    for slot, attempt, connection in writers:
        if slot == mine.slot and attempt > mine.attempt and connection is not None:
            raise _superseded(mine, attempt)
    _note(session, mine)
    for slot, attempt, connection in writers:
        if attempt < mine.attempt and connection is not None:
            _end(session, int(connection), f"{mine} ends the session of slot {slot}, attempt {attempt}")
    _lock(session, f"{name}{mine.slot}", mine, wait_s)
    _refuse_if_superseded(session, mine)
    _note(session, mine)


def _lock(session: DatabaseSession, name: str, mine: BranchId, wait_s: int) -> None:
    if _get_lock(session, name, CLOSING_S):
        return
    _refuse_if_superseded(session, mine)
    connection = session.query("select is_used_lock(%s)", (name,))[0][0]
    if connection is not None:
        _end(session, int(connection), f"{mine} ends the session of an earlier try of its task")
    if not _get_lock(session, name, wait_s):
        raise LockTimeout(f"{mine}: an earlier writer of this slot still holds it after {wait_s} s")


def _get_lock(session: DatabaseSession, name: str, wait_s: int) -> bool:
    return bool(session.query("select get_lock(%s, %s)", (name, wait_s))[0][0] == 1)


def _refuse_if_superseded(session: DatabaseSession, mine: BranchId) -> None:
    noted = _noted(session, mine)
    if noted is not None and noted > mine.attempt:
        raise _superseded(mine, noted)


def _superseded(mine: BranchId, attempt: int) -> ZombieWriter:
    return ZombieWriter(f"{mine} was superseded: attempt {attempt} writes in its slot already")


def _noted(session: DatabaseSession, mine: BranchId) -> int | None:
    found = session.query(
        "select attempt from indoubt_writers where prefix = %s and slot = %s", (mine.prefix, mine.slot)
    )
    return int(found[0][0]) if found else None


def _note(session: DatabaseSession, mine: BranchId) -> None:
    # Once a run and slot: a batch like the one before it writes nothing.
    if _noted(session, mine) != mine.attempt:
        session.query(
            "insert into indoubt_writers (prefix, slot, attempt) values (%s, %s, %s) "
            "on duplicate key update attempt = values(attempt)",
            (mine.prefix, mine.slot, mine.attempt),
        )


def _end(session: DatabaseSession, connection: int, why: str) -> None:
    log.warning("%s, which is connected still", why)
    try:
        session.query("kill %s", (connection,))
    except Unreachable:
        raise
    except ResourceManagerError as error:
        log.info("session %d had ended already: %s", connection, error)
