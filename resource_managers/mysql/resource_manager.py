"""MySQL and MariaDB as a resource manager: XA on InnoDB."""

from __future__ import annotations

import logging

from resource_managers import database_markers, mysql_writers
from resource_managers.database_resource_manager import DatabaseResourceManager
from resource_managers.database_session import STATEMENT_LIMIT_S, DatabaseSession
from resource_managers.mysql_session import MySqlSession

log = logging.getLogger(__name__)


class MySqlResourceManager(DatabaseResourceManager):
    """Branches are XA transactions; a prepared one holds its rows until it is finished, across restarts of the server."""

    name = "mysql"
    _own_tables = (database_markers.TABLES["mysql"], mysql_writers.TABLE)

    def _open(self, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S) -> MySqlSession:
        return MySqlSession(self._connection, lock_timeout_s=lock_timeout_s, limit_s=limit_s)

    def _verify_server(self, session: DatabaseSession) -> None:
        # Asks for MySQL 8's privilege XA_RECOVER_ADMIN; MariaDB lets everybody ask.
        session.prepared()
        (flushed,) = session.query("select @@global.innodb_flush_log_at_trx_commit")[0]
        if flushed != 1:
            log.warning(
                "%s: innodb_flush_log_at_trx_commit is %s: what was prepared or committed in the second before a power cut "
                "can be gone; 1 keeps it",
                self._connection.address,
                flushed,
            )
