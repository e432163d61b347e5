"""The schema of history: one number in the file, and no file of another number is touched."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from indoubt.collector.history import database_file
from indoubt.collector.history.database_file import SCHEMA, SCHEMA_VERSION
from indoubt.collector.history.observation_tables import TABLES, ObservationTable
from indoubt.collector.history.store import Store, StoreFailed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_s_columns_are_those_of_its_list(table: ObservationTable) -> None:
    kinds = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.bool_(): "BOOLEAN"}
    kinds[pa.list_(pa.string())] = "VARCHAR[]"
    with duckdb.connect() as file:
        file.execute(SCHEMA.read_text())
        query = "select column_name, data_type from duckdb_columns() where table_name = ? order by column_index"
        found = file.execute(query, [table.name]).fetchall()
    assert found == [(column.name, kinds[column.type]) for column in table.schema]


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, 999])
def test_a_file_of_another_schema_version_is_refused_and_stays(version: int, tmp_path: Path) -> None:
    path = tmp_path / "history.duckdb"
    Store(path).close()
    with duckdb.connect(str(path)) as file:
        file.execute("update schema_version set version = ?", [version])
    content = path.read_bytes()
    with pytest.raises(
        StoreFailed, match=rf"schema version {version} and this program knows {SCHEMA_VERSION}.*move the file"
    ):
        Store(path)
    assert path.read_bytes() == content
    assert not list(tmp_path.glob("*.damaged-*"))


def test_a_schema_that_fails_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, broken = tmp_path / "history.duckdb", tmp_path / "broken.sql"
    broken.write_text("create table half (n integer); insert into nowhere values (1);")
    monkeypatch.setattr(database_file, "SCHEMA", broken)
    with pytest.raises(StoreFailed, match="cannot be made ready"):
        Store(path)
    monkeypatch.undo()
    store = Store(path)
    assert store.rows("select version from schema_version") == [(SCHEMA_VERSION,)]
    assert store.rows("select * from duckdb_tables() where table_name = 'half'") == []
    store.close()
