"""PostgreSQL as a resource manager: prepared transactions."""

from __future__ import annotations

from lifecycle.errors import SettingsError
from resource_managers import database_markers
from resource_managers.database_resource_manager import DatabaseResourceManager
from resource_managers.database_session import STATEMENT_LIMIT_S, DatabaseSession
from resource_managers.postgres_session import PostgresSession


class PostgresResourceManager(DatabaseResourceManager):
    """Branches are prepared transactions; they hold their rows until they are finished, across restarts of the server."""

    name = "postgres"
    _own_tables = (database_markers.TABLES["postgres"],)

    def _open(self, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S) -> PostgresSession:
        return PostgresSession(self._connection, lock_timeout_s=lock_timeout_s, limit_s=limit_s)

    def _verify_server(self, session: DatabaseSession) -> None:
        allowed = int(session.query("select current_setting('max_prepared_transactions')")[0][0])
        if allowed == 0:
            raise SettingsError(
                f"{self._connection.address}: max_prepared_transactions is 0, so nothing can be prepared: set it in "
                "postgresql.conf to more than all pipelines' tasks together, and restart the server"
            )
