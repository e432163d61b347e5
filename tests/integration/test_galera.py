"""A node of a Galera cluster as a sink: it takes no XA transactions, which is said at the start and by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from demo.mariadb_server import MariaDbServer
from demo.ports import free_port
from demo.prerequisites import find_galera
from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.mysql.resource_manager import MySqlResourceManager
from tests.integration.database_fixtures import COLUMNS, ask

pytestmark = pytest.mark.integration


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MariaDbServer]:
    """Return the only node of a cluster of its own."""
    library = find_galera()
    assert library is not None, "Galera is not installed: run 'make setup-tests', or install galera-4"
    settings = {
        "wsrep-on": "ON",
        "wsrep-provider": str(library),
        "wsrep-cluster-address": "gcomm://",
        "wsrep-provider-options": f"gmcast.listen_addr=tcp://127.0.0.1:{free_port()}",
        "binlog-format": "ROW",
        "innodb-autoinc-lock-mode": "2",
    }
    with MariaDbServer(tmp_path / "node", settings=settings) as running:
        yield running


def test_a_node_of_a_galera_cluster_is_refused_by_name(node):
    ask(node.connection, "create table counts (word varchar(50) primary key, count bigint)")
    manager = MySqlResourceManager(node.connection, table="counts")
    with pytest.raises(SettingsError, match=r"127\.0\.0\.1:\d+.* is a node of a Galera cluster .* no XA transactions"):
        manager.verify(COLUMNS)
    with pytest.raises(pymysql.MySQLError, match="XA transactions with Galera"):
        ask(node.connection, "xa start 'a', 'b', 1")
