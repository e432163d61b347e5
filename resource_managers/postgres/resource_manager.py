"""PostgreSQL as a resource manager: prepared transactions."""

from __future__ import annotations

import logging

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import POSTGRES
from indoubt.resource_managers.database.markers import NAME, PROBE
from indoubt.resource_managers.database.own_tables import OwnTable
from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager
from indoubt.resource_managers.database.session import STATEMENT_LIMIT_S, DatabaseSession
from indoubt.resource_managers.postgres.session import PostgresSession

log = logging.getLogger(__name__)

MARKERS = OwnTable(
    name=NAME,
    create=(
        """\
create table if not exists indoubt_markers (
    checkpoint_id varchar(64) not null,
    slot integer not null,
    batch bigint not null,
    attempt bigint not null,
    branch varchar(160) not null,
    state varchar(10) not null,
    primary key (checkpoint_id, slot, batch, attempt)
)""",
        "create index if not exists indoubt_markers_branch on indoubt_markers (branch)",
    ),
    probe=PROBE,
)
"""The table of markers."""

LENDING_TRIED = 20
"""An idle pool lends another session at the second try; one that others use too may give the same one back for a while."""


class PostgresResourceManager(DatabaseResourceManager):
    """Branches are prepared transactions; they hold their rows until they are finished, across restarts of the server."""

    name = POSTGRES.name
    _own_tables = (MARKERS,)

    def _open(self, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S) -> PostgresSession:
        return PostgresSession(self._connection, lock_timeout_s=lock_timeout_s, limit_s=limit_s)

    def _verify_server(self, session: DatabaseSession) -> None:
        assert isinstance(session, PostgresSession), "as _open returns it"
        self._refuse_lent_sessions(session)
        allowed, fsync = session.query("select current_setting('max_prepared_transactions'), current_setting('fsync')")[
            0
        ]
        if int(allowed) == 0:
            raise SettingsError(
                f"{self._connection.address}: max_prepared_transactions is 0, so nothing can be prepared: set it in "
                "postgresql.conf to more than all pipelines' tasks together, and restart the server"
            )
        if fsync != "on":
            log.warning(
                "%s: fsync is %s: a power cut can lose what was prepared or committed, and the whole database with it",
                self._connection.address,
                fsync,
            )

    def _refuse_lent_sessions(self, session: PostgresSession) -> None:
        """Refuse a pooler that lends a session for one transaction: writers.py tells writers by their sessions, and ends these."""
        if session.is_direct:
            return
        with self._open(lock_timeout_s=self._lock_timeout_s) as other:
            mine: set[int] = set()
            others: set[int] = set()
            for _ in range(LENDING_TRIED):
                # Who has a transaction open keeps a session of the server, and gives it back at its end.
                mine.add(session.process)
                other.begin()
                others.add(other.process)
                if mine.isdisjoint(others):
                    session.begin()
                    mine.add(session.process)
                    session.undo()
                other.undo()
                if len(mine) > 1 or len(others) > 1 or not mine.isdisjoint(others):
                    raise SettingsError(
                        f"{self._connection.address}: a pooler lends one session of the server to several clients, so a writer "
                        "that was superseded could not be ended. Give the server's own address, or a pool that keeps a session "
                        "for each client (PgBouncer: pool_mode = session)"
                    )
