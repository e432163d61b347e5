"""Who writes for a pipeline at this moment, in MySQL and MariaDB.

A user-level lock for each slot tells the connection that holds it (IS_USED_LOCK), and a row tells the newest attempt that
took the slot: the lock alone could not tell a zombie from its successor. No privilege is needed to end one's own sessions.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from lifecycle.branch_id import BranchId
from lifecycle.errors import ResourceManagerError, Unreachable, ZombieWriter
from resource_managers.database_errors import LockTimeout
from resource_managers.database_own_tables import OwnTable

if TYPE_CHECKING:
    from resource_managers.mysql_session import MySqlSession

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
    look="select prefix, slot, attempt from indoubt_writers where prefix = ''",
)


def lock_name(prefix: str) -> str:
    """Return what the names of a prefix's locks begin with; the slot follows (64 characters at most in all)."""
    return f"indoubt:{hashlib.sha256(prefix.encode()).hexdigest()[:32]}:"


def take_slot(session: MySqlSession, mine: BranchId, wait_s: int) -> None:
    """Write down this attempt, end the sessions of writers that it overtakes, and take the slot's lock.

    In this order: whoever sees another's lock sees its attempt, too. Raises ZombieWriter, LockTimeout.
    """
    _write_down(session, mine)
    name = lock_name(mine.prefix)
    writers = session.query(
        "select slot, attempt, is_used_lock(concat(%s, slot)) from indoubt_writers "
        "where prefix = %s and (slot = %s or attempt < %s)",
        (name, mine.prefix, mine.slot, mine.attempt),
    )
    for slot, attempt, _ in writers:
        if slot == mine.slot and attempt > mine.attempt:
            raise ZombieWriter(f"{mine} was overtaken: attempt {attempt} has taken its slot")
    for slot, attempt, connection in writers:
        if connection is not None:
            _end(session, int(connection))
            log.warning("%s ended the session of slot %s, attempt %s, which was connected still", mine, slot, attempt)
    taken = session.query("select get_lock(concat(%s, %s), %s)", (name, mine.slot, wait_s))[0][0]
    if taken != 1:
        raise LockTimeout(f"{mine}: an earlier writer of this slot still holds it after {wait_s} s")


def _write_down(session: MySqlSession, mine: BranchId) -> None:
    # Once a run and slot: a batch like the one before it writes nothing.
    key = (mine.prefix, mine.slot)
    found = session.query("select attempt from indoubt_writers where prefix = %s and slot = %s", key)
    if not found or found[0][0] < mine.attempt:
        session.query(
            "insert into indoubt_writers (prefix, slot, attempt) values (%s, %s, %s) "
            "on duplicate key update attempt = greatest(attempt, values(attempt))",
            (*key, mine.attempt),
        )


def _end(session: MySqlSession, connection: int) -> None:
    try:
        session.query("kill %s", (connection,))
    except Unreachable:
        raise
    except ResourceManagerError as error:
        log.info("session %d had ended already: %s", connection, error)
