"""MySQL and MariaDB as a resource manager: XA on InnoDB."""

from __future__ import annotations

import logging

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import MYSQL
from indoubt.resource_managers.database.markers import NAME, PROBE
from indoubt.resource_managers.database.own_tables import OwnTable
from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager
from indoubt.resource_managers.database.session import STATEMENT_LIMIT_S, DatabaseSession
from indoubt.resource_managers.mysql import writers
from indoubt.resource_managers.mysql.session import MySqlSession

log = logging.getLogger(__name__)

MARKERS = OwnTable(
    name=NAME,
    create=(
        """\
create table if not exists indoubt_markers (
    checkpoint_id varchar(64) not null,
    slot int not null,
    batch bigint not null,
    attempt bigint not null,
    branch varchar(160) not null,
    state varchar(10) not null,
    primary key (checkpoint_id, slot, batch, attempt),
    key (branch)
) engine = InnoDB character set ascii collate ascii_bin""",
    ),
    probe=PROBE,
)
"""The table of markers."""


class MySqlResourceManager(DatabaseResourceManager):
    """Branches are XA transactions; a prepared one holds its rows until it is finished, across restarts of the server."""

    name = MYSQL.name
    _own_tables = (MARKERS, writers.TABLE)

    def _open(self, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S) -> MySqlSession:
        return MySqlSession(self._connection, lock_timeout_s=lock_timeout_s, limit_s=limit_s)

    def _verify_server(self, session: DatabaseSession) -> None:
        # Asks for MySQL 8's privilege XA_RECOVER_ADMIN; MariaDB lets everybody ask.
        session.prepared()
        self._refuse_galera(session)
        (flushed,) = session.query("select @@global.innodb_flush_log_at_trx_commit")[0]
        if flushed != 1:
            log.warning(
                "%s: innodb_flush_log_at_trx_commit is %s: what was prepared or committed in the second before a power cut "
                "can be gone; 1 keeps it",
                self._connection.address,
                flushed,
            )

    def _refuse_galera(self, session: DatabaseSession) -> None:
        names = "('wsrep_on', 'wsrep_provider')"
        # No such variables on MySQL; on a MariaDB or Percona server by itself there is no provider.
        found = {
            str(name): str(value)
            for name, value in session.query(f"show global variables where variable_name in {names}")
        }
        if found.get("wsrep_on") == "ON" and found.get("wsrep_provider", "none") not in ("", "none"):
            raise SettingsError(
                f"{self._connection.address} is a node of a Galera cluster (wsrep_on is ON), which takes no XA transactions: "
                "nothing could be prepared there. Name a server outside the cluster, or leave this database out of the sink"
            )
