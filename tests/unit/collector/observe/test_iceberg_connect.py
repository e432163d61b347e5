"""Which snapshots of real Iceberg tables add which files, read once each."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from indoubt.collector.observe.iceberg_connect import ConnectTables
from indoubt.lifecycle.errors import ResourceManagerError

ROWS = pa.table({"id": ["order 1", "order 2"]})


def test_a_file_that_two_snapshots_add_is_told_with_both(orders: Table) -> None:
    orders.append(ROWS)
    (first,) = [task.file for task in orders.scan().plan_files()]
    tables, polled = ConnectTables(lambda: polled.append(1)), list[int]()
    assert len(tables.seen("db.orders", 0).adding([first.file_path])) == 1
    orders.append(ROWS)
    with orders.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(first)
    assert orders.catalog.load_table("db.orders").scan().to_arrow().num_rows == 6, "a reader has its rows twice"
    seen = tables.seen("db.orders", 0)
    ids = [each.snapshot_id for each in orders.metadata.snapshots]
    assert [each.id for each in seen.adding([first.file_path])] == [ids[0], ids[2]]
    assert (seen.uuid, len(polled)) == (str(orders.metadata.table_uuid), 3)


def test_what_a_later_snapshot_takes_away_was_added_once(orders: Table) -> None:
    orders.append(ROWS)
    (first,) = [task.file for task in orders.scan().plan_files()]
    orders.overwrite(ROWS)
    seen = ConnectTables(lambda: None).seen("db.orders", 0)
    assert [each.id for each in seen.adding([first.file_path])] == [orders.metadata.snapshots[0].snapshot_id]


def test_only_snapshots_since_then_are_read(orders: Table) -> None:
    orders.append(ROWS)
    (first,) = [task.file for task in orders.scan().plan_files()]
    since = orders.metadata.snapshots[0].timestamp_ms
    assert ConnectTables(lambda: None).seen("db.orders", since).adding([first.file_path])
    assert not ConnectTables(lambda: None).seen("db.orders", since + 1).adding([first.file_path])


def test_a_table_that_cannot_be_read_is_named(orders: Table) -> None:
    with pytest.raises(ResourceManagerError, match=r"no catalog .*\(lake\) has a table at db\.others"):
        ConnectTables(lambda: None).seen("db.others", 0)
    orders.append(ROWS)
    for path in Path(orders.location().removeprefix("file://")).glob("metadata/snap-*.avro"):
        path.unlink()
    with pytest.raises(ResourceManagerError, match=r"table db\.orders cannot be asked"):
        ConnectTables(lambda: None).seen("db.orders", 0)
