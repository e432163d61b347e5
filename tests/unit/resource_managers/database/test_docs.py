"""docs/databases.md shows the SQL that the program runs, and the limits that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.lifecycle.branch_id import XA_PREFIX_BYTES
from indoubt.resource_managers.database.markers import KEPT_BATCHES
from indoubt.resource_managers.database.own_tables import create_statements
from indoubt.resource_managers.database.resource_manager import LOCK_TIMEOUT_S
from indoubt.resource_managers.database.settlement import CONNECTIONS
from indoubt.resource_managers.mysql.resource_manager import MySqlResourceManager
from indoubt.resource_managers.postgres.resource_manager import PostgresResourceManager

PAGE = (Path(__file__).parents[4] / "docs" / "databases.md").read_text()


@pytest.mark.parametrize("manager", [MySqlResourceManager, PostgresResourceManager])
def test_the_tables_sql_is_the_programs(manager):
    assert f"```sql\n{create_statements(manager._own_tables)}\n```" in PAGE


def test_the_figures_are_the_programs():
    assert f"at most {XA_PREFIX_BYTES} characters" in PAGE
    assert f"its last {KEPT_BATCHES} to {2 * KEPT_BATCHES} batches" in PAGE
    assert f"waited for {LOCK_TIMEOUT_S:.0f} s" in PAGE
    assert "over four connections" in PAGE
    assert CONNECTIONS == 4
