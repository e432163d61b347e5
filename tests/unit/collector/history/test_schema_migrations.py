"""Schema migrations on real files: whatever version a file has, it ends with the schema of a fresh one, and keeps its rows."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from collector.history.observation_tables import TABLES, ObservationTable
from collector.history.schema_migrations import DIRECTORY, Migration, migrate, migrations, version_of
from collector.history.store import Store, StoreFailed
from collector.orders.plan import PlannedAction
from collector.records.application_ids import name_by_id

pytestmark = pytest.mark.slow
UUID = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab"


LANDED = {
    "0001_history.sql": "175a5f05b3d63772",
    "0002_flink.sql": "7b76f5a68c2b7084",
    "0003_prepared_branches.sql": "bf61f295483ad1c8",
    "0004_alerts.sql": "85b1cc145a2bc46c",
    "0005_orders.sql": "9f25243a8cc7318b",
    "0006_transaction_offsets.sql": "ec3564aa1bc8c311",
    "0007_source_epochs.sql": "fd2d29c1780c013c",
    "0008_rollups.sql": "9540776fd44a0922",
    "0009_flink_jobs_seen.sql": "5d6ad5cb74ec6a27",
    "0010_events_by_zstd.sql": "da73e8a2261175fc",
    "0011_transaction_lengths.sql": "7cb396cab3dc226e",
    "0012_decisions_that_count.sql": "b368a0abe01b94f7",
    "0013_quarantined.sql": "9dc6ba712d0ad482",
    "0014_plain_names.sql": "59c0ff697b1fb7bf",
    "0015_reader_waits.sql": "c4ee0051660944c5",
    "0016_counts_by_form.sql": "6158d267c3aaaf93",
    "0017_branch_servers.sql": "944480c486391ffe",
}
"""What has landed is never changed: files that were made with it are out there."""
STEPS = migrations()
Schema = tuple[list[tuple[object, ...]], ...]


def make_file(path: Path, version: int) -> None:
    """Write a file as the program of that version left it, with a row in two of its first tables."""
    with duckdb.connect(str(path)) as file:
        migrate(file, 1, STEPS[:version])
        file.execute("insert into audit values (7, 1, 'anna', 'abort', '[]', 'why', 'accepted', '', '[]')")
        file.execute("insert into source_offsets values ('topic', 0, 41)")


def schema_of(path: Path) -> Schema:
    """Return columns, constraints, indexes and views of a file."""
    with duckdb.connect(str(path), read_only=True) as file:
        return tuple(
            file.execute(query).fetchall()
            for query in (
                "select table_name, column_name, data_type, is_nullable, column_default from duckdb_columns() order by all",
                "select table_name, constraint_text from duckdb_constraints() order by all",
                "select table_name, index_name, sql from duckdb_indexes() order by all",
                "select view_name, sql from duckdb_views() where not internal order by all",
            )
        )


@pytest.mark.parametrize("version", range(1, len(STEPS) + 1))
def test_a_file_of_any_version_ends_like_a_fresh_one_and_keeps_its_rows(version: int, tmp_path: Path) -> None:
    fresh, old = tmp_path / "fresh.duckdb", tmp_path / "old.duckdb"
    Store(fresh).close()
    make_file(old, version)
    store = Store(old)
    assert store.next_offsets("topic") == {0: 41}
    assert store.append_audit((2, "ben", "commit", "[]", "why", "refused", "", "[]")) == 8
    store.close()
    assert schema_of(old) == schema_of(fresh)
    with duckdb.connect(str(old), read_only=True) as file:
        assert version_of(file) == len(STEPS)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_s_columns_are_those_of_its_list(table: ObservationTable) -> None:
    kinds = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.bool_(): "BOOLEAN"}
    kinds[pa.list_(pa.string())] = "VARCHAR[]"
    with duckdb.connect() as file:
        migrate(file, 1, STEPS)
        query = "select column_name, data_type from duckdb_columns() where table_name = ? order by column_index"
        found = file.execute(query, [table.name]).fetchall()
    assert found == [(column.name, kinds[column.type]) for column in table.schema]


def test_what_an_older_program_wrote_has_the_new_names(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    make_file(path, 13)
    step = '[{"key": "k", "will": "EndTxn(commit)", "target": {"about": {"batch": 4}}, "detail": ""}]'
    with duckdb.connect(str(path)) as file:
        file.execute("insert into order_intents values (1, 1, 'anna', 'commit', '', '[]', ?, '', '')", [step])
        file.execute("""insert into alerts values ('a', 'firing', 1, 1, 1, '{"about": {"pipeline": "p"}}')""")
        file.execute("insert into alert_groups values ('g', 1, '{}')")
    Store(path).close()
    with duckdb.connect(str(path), read_only=True) as file:
        (acts,) = file.execute("select acts from order_intents").fetchone() or ("",)
        (finding,) = file.execute("select finding from alerts").fetchone() or ("",)
        assert file.execute("select reported from alert_groups").fetchall() == [("{}",)]
    planned = PlannedAction.from_json(json.loads(acts)[0])
    assert (planned.description, planned.target) == ("EndTxn(commit)", {"batch_attempt": {"batch": 4}})
    assert json.loads(finding) == {"subject_labels": {"pipeline": "p"}}


def test_counts_of_an_older_program_keep_the_names_of_their_applications(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    make_file(path, 15)
    # What the ids of each application left there, and its name.
    names = {
        "orders": "orders", "orders-2": "orders-2", "job-1732200000": "job", "word_count": "word_count", "wc2": "wc2",
        "tx12": "tx", "shop-app-0_11": "shop-app", "bank-1f0a91b4": "bank", f"writer.{UUID}.4": "writer", "": "-0-0",
    }  # fmt: skip
    with duckdb.connect(str(path)) as file:
        file.execute("insert into lifecycle_events values ('topic', 0, 0, 'checkpoint.completed', 1, 'wc2', '{}')")
        for left in names:
            file.execute("insert into transaction_counts values (0, 60000, ?, 'committed', 1)", [left])
            file.execute("insert into transaction_lengths values (0, 60000, ?, 1000, false, 1, 1, 1, 'id')", [left])
    store = Store(path)
    for table in ("transaction_counts", "transaction_lengths"):
        found = [name_by_id(form) for (form,) in store.rows(f"select application from {table}")]  # noqa: S608
        assert sorted(found) == sorted(names.values())
    store.close()


def test_what_has_landed_is_not_changed() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in DIRECTORY.glob("*.sql")}
    assert found == LANDED, "a migration that landed may not be changed: add the next number, and its digest here"


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "newer.duckdb"
    Store(path).close()
    with duckdb.connect(str(path)) as file:
        file.execute("insert into schema_versions values (999, 1)")
        openings = file.execute("select * from openings").fetchall()
    with pytest.raises(StoreFailed, match=rf"schema version 999 and this program knows {len(STEPS)}"):
        Store(path)
    with duckdb.connect(str(path)) as file:
        assert file.execute("select * from openings").fetchall() == openings


def test_a_step_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    broken = tmp_path / "0002_broken.sql"
    broken.write_text("create table half (n integer); insert into nowhere values (1);")
    with duckdb.connect(str(tmp_path / "file.duckdb")) as file:
        with pytest.raises(duckdb.Error):
            migrate(file, 1, [STEPS[0], Migration(version=2, path=broken)])
        assert version_of(file) == 1
        assert file.execute("select * from duckdb_tables() where table_name = 'half'").fetchall() == []


def test_numbers_have_no_gap(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_b.sql"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"\[1, 3\]"):
        migrations(tmp_path)
