"""Who writes for a pipeline at this moment, in PostgreSQL: each writer's session carries its branch as application_name."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ZombieWriter
from indoubt.resource_managers.database.session import DatabaseSession

log = logging.getLogger(__name__)

LONGEST_PREFIX = 20
"""The server cuts an application_name at 63 bytes; batch, attempt, slot and nonce want up to 43 of them."""


def writer_name(branch: BranchId) -> BranchId:
    """Return the branch as its session is named: a long prefix is replaced by its digest."""
    if len(branch.prefix) <= LONGEST_PREFIX:
        return branch
    return replace(branch, prefix=hashlib.sha256(branch.prefix.encode()).hexdigest()[:LONGEST_PREFIX])


def take_slot(session: DatabaseSession, mine: BranchId) -> None:
    """Name this session, then end the sessions of writers that ``mine`` supersedes.

    In this order: of two attempts that begin at once, the older sees the newer. Raises ZombieWriter.
    """
    me = writer_name(mine)
    session.query("select set_config('application_name', %s, false)", (str(me),))
    others = session.query(
        "select pid, application_name from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() and application_name <> ''"
    )
    for pid, name in others:
        other = BranchId.parse(name)
        if other is None or other.prefix != me.prefix:
            continue
        if other.attempt > me.attempt:
            raise ZombieWriter(f"{mine} was superseded: attempt {other.attempt} writes already ({name})")
        if other.is_superseded_by(me):
            # By name, too: the process id may belong to another session by now.
            session.query(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and application_name = %s",
                (pid, name),
            )
            # Of this attempt it is most often the session of the batch before, which the server is closing.
            level = logging.WARNING if other.attempt < me.attempt else logging.INFO
            log.log(level, "%s ended the session of %s, which was connected still", mine, name)
