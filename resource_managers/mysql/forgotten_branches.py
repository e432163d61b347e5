"""Branches that MariaDB forgot: it answered OK to their XA COMMIT or XA ROLLBACK and carried out nothing.

When a connection ends, the server hands its prepared branch to others (``trans_xa_detach``) before InnoDB has let go of it
(``trx_disconnect_prepared``). A commit between the two finds nothing in InnoDB, is answered OK all the same (what InnoDB
says is passed over), and the name is taken from the list. Its rows stay locked and unseen until the server starts again:
0.3 to 0.5 % of commits that were sent while the connection was closing, on MariaDB 10.11.
"""

from __future__ import annotations

import logging
import time

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.resource_managers.database.errors import LockTimeout
from indoubt.resource_managers.database.session import DatabaseSession

log = logging.getLogger(__name__)

HELD = "select 1 from indoubt_markers where branch = %s lock in share mode nowait"
SOME_ROW = "select prefix, slot, attempt from indoubt_writers limit 1"
THE_ROW_AGAIN = "insert ignore into indoubt_writers (prefix, slot, attempt) values (%s, %s, %s)"
SESSION = "select 1 from information_schema.processlist where id = %s"
CLOSING_S = 1.0
CHECK_EVERY_S = 0.005


def is_held(session: DatabaseSession, branch: BranchId) -> bool:
    """Say whether a session has this branch's marker row locked: a branch that was finished has let go of it."""
    try:
        session.query(HELD, (str(branch),))
    except LockTimeout:
        return True
    return False


def list_again(session: DatabaseSession, branch: BranchId) -> None:
    """Have XA RECOVER list a forgotten branch again, so that it can be committed or rolled back as any other.

    A second branch of the same name is prepared, which the server lists, and in which InnoDB has nothing to keep: it counts
    as one that wrote, for it sent a row that is there already. When ``session`` closes, what is left under the name is the
    forgotten one. Raises BranchBusy while the server has one of that name after all, ResourceManagerError.
    """
    rows = session.query(SOME_ROW)
    if not rows:
        # A branch that sent nothing is rolled back when its session ends, and with its name the forgotten one.
        raise ResourceManagerError(
            f"{branch} is not listed and its marker is held; indoubt_writers is empty, so it cannot be listed again: restart "
            "the server, which lists it then"
        )
    session.start(branch)
    session.query(THE_ROW_AGAIN, rows[0])
    session.prepare()
    log.warning(
        "%s was not listed, and its marker is held: the server forgot it. It is listed again, to be finished", branch
    )


def wait_until_closed(session: DatabaseSession, connection: int) -> None:
    """Return when a connection has ended that was closed: until then no other can finish its branch. After 1 s in any case."""
    deadline = time.monotonic() + CLOSING_S
    while session.query(SESSION, (connection,)) and time.monotonic() < deadline:
        time.sleep(CHECK_EVERY_S)
