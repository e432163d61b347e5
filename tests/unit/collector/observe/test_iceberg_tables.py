"""Commits to real Iceberg tables: found in a catalog or by a Hadoop table's hint, looked for, added once, refused otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, write_manifest
from pyiceberg.table import Table

from indoubt.collector.act.orders.file_participant import FileParticipant, HiddenFile
from indoubt.collector.observe import iceberg_tables
from indoubt.collector.observe.iceberg_catalogs import history_of
from indoubt.collector.observe.iceberg_tables import IcebergTables
from indoubt.collector.records.formats.flink_records import FlinkCommittables, ListedFile
from indoubt.collector.records.formats.pending_files import (
    FileSeen,
    IcebergCommit,
    IcebergManifest,
    PendingFile,
    Standing,
    named_commit,
)
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError

JOB, SINK = "a" * 32, "c" * 32
ROWS = pa.table({"id": ["order 1", "order 2"]})


def named(number: int) -> dict[str, str]:
    return {
        "flink.job-id": JOB,
        "flink.operator-id": SINK,
        "flink.max-committed-checkpoint-id": str(number),
    }


def pending(table: Table, number: int, *, rows: int = ROWS.num_rows) -> PendingFile:
    """Write a data file and a manifest as Flink's sink does at a checkpoint, and return the commit that it lists."""
    location = table.location().removeprefix("file://")
    made = len(list(Path(location).rglob("*")))
    name = f"{JOB}-{SINK}-{number}-{made}"
    scratch = table.catalog.create_table(f"db.made_{number}_{made}", ROWS.schema)
    scratch.append(ROWS)
    (data,) = [task.file for task in scratch.scan().plan_files()]
    path = f"{location}/metadata/{name}.avro"
    output = table.io.new_output(path)
    with write_manifest(2, table.spec(), table.schema(), output, 0, "deflate") as manifest:
        manifest.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=data, snapshot_id=None))
    assert isinstance(data, DataFile)
    listed = IcebergManifest(path=path, size=Path(path).stat().st_size, spec=0, files=1, rows=rows, holds_deletes=False)
    commit = IcebergCommit(job=JOB, operator=SINK, checkpoint_id=number, manifests=(listed,))
    return PendingFile(target=commit.target, size=None, commit=commit)


def add(table: Table, number: int, *files: PendingFile) -> None:
    """Add the files of commits by one snapshot, as Flink's sink does for checkpoint ``number``; without any: an empty one."""
    now = table.catalog.load_table("db.orders")
    with now.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=named(number))
        with update.fast_append() as append:
            for file in files:
                assert isinstance(file.commit, IcebergCommit)
                for entry in iceberg_tables._entries(table, file.commit.manifests):
                    append.append_data_file(entry.data_file)


def read(table: Table) -> list[str]:
    """Return the rows that an independent reader of the table sees."""
    rows: list[Any] = table.catalog.load_table("db.orders").scan().to_arrow()["id"].to_pylist()
    return sorted(rows)


def test_a_commit_that_the_table_lacks_is_hidden_and_added_once_by_an_order(orders: Table) -> None:
    orders.append(ROWS, snapshot_properties=named(2))
    file, tables = pending(orders, 3), IcebergTables()
    assert tables.look(file) == FileSeen(standing=Standing.HIDDEN)
    assert read(orders) == ["order 1", "order 2"]
    tables.add(file)
    assert read(orders) == ["order 1", "order 1", "order 2", "order 2"]
    assert tables.look(file) == FileSeen(standing=Standing.VISIBLE)
    snapshot = orders.catalog.load_table("db.orders").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties.items() >= named(3).items(), "a restored sink finds it"
    with pytest.raises(ResourceManagerError, match="is visible now"):
        tables.add(file)
    assert read(orders) == ["order 1", "order 1", "order 2", "order 2"]


def test_an_order_adds_no_checkpoint_before_an_earlier_one_of_the_sink(orders: Table, current: CurrentState) -> None:
    """Flink takes every checkpoint up to the last one in the table for added."""
    orders.append(ROWS, snapshot_properties=named(1))
    files = {number: pending(orders, number) for number in (3, 2)}
    listed = FlinkCommittables(
        cluster="shop", job=JOB, number=3, path=f"/c/{JOB}/chk-3", kind=None, written_ms=0, read_ms=0,
        committables=frozenset(ListedFile(file.target) for file in files.values()), files=tuple(files.values()),
    )  # fmt: skip
    current.flink.see_committables([listed])
    participant = FileParticipant(current.flink)
    third, second = (
        HiddenFile(
            resource_manager="iceberg", transaction=file.target, producer_id=None, producer_epoch=None,
            state="Prepared", started_at_ms=None, timeout_ms=None, file=file,
        )
        for file in files.values()
    )  # fmt: skip
    (refused,) = participant.commit_open([third], 1.0)
    assert f"its table lacks {files[2].target}, of an earlier checkpoint: add that first" in refused
    assert read(orders) == ["order 1", "order 2"]
    assert participant.commit_open([third, second], 1.0) == ["", ""]
    assert len(read(orders)) == 6
    added = sorted(history_of(orders.catalog.load_table("db.orders")).snapshots.values(), key=lambda each: each.at_ms)
    assert [each.checkpoint for each in added] == [1, 2, 3]


def test_what_the_sink_added_itself_is_visible(orders: Table) -> None:
    file, tables = pending(orders, 3), IcebergTables()
    add(orders, 3, file)
    assert tables.look(file).standing is Standing.VISIBLE
    assert isinstance(file.commit, IcebergCommit)
    # It removes its manifests then.
    Path(file.commit.manifests[0].path).unlink()
    assert tables.look(file).standing is Standing.VISIBLE


def test_files_that_the_snapshot_of_their_checkpoint_lacks_are_left_out(orders: Table) -> None:
    one, other = pending(orders, 3), pending(orders, 3)
    assert isinstance(one.commit, IcebergCommit)
    assert isinstance(other.commit, IcebergCommit)
    both = replace(one, commit=replace(one.commit, manifests=one.commit.manifests + other.commit.manifests))
    add(orders, 3, one)
    Path(one.commit.manifests[0].path).unlink()
    seen = IcebergTables().look(both)
    assert seen.standing is Standing.HIDDEN
    assert "names this checkpoint, without 1 file of its" in seen.why
    with pytest.raises(ResourceManagerError, match="is hidden now: snapshot"):
        IcebergTables().add(both)


def test_rows_that_two_snapshots_add_are_told_of(orders: Table) -> None:
    file = pending(orders, 3)
    for _ in range(2):
        add(orders, 3, file)
    seen = IcebergTables().look(file)
    assert (seen.standing, "may be there 2 times" in seen.why) == (Standing.VISIBLE, True)


def test_a_later_commit_of_the_sink_without_its_files_is_said_and_left_alone(orders: Table) -> None:
    file, tables = pending(orders, 3), IcebergTables()
    assert tables.look(file).standing is Standing.HIDDEN
    orders.append(ROWS, snapshot_properties=named(4))
    seen = tables.look(file)
    assert seen.standing is Standing.HIDDEN
    assert "names checkpoint 4 of the same job and sink, without its files" in seen.why
    with pytest.raises(ResourceManagerError, match=r"is hidden now: snapshot .* names checkpoint 4"):
        tables.add(file)
    assert isinstance(file.commit, IcebergCommit)
    Path(file.commit.manifests[0].path).unlink()
    gone = IcebergTables().look(file)
    assert gone.standing is Standing.UNCLEAR, "which files they were is not known any more"
    assert "whether it adds this one is not known" in gone.why


def test_one_whose_list_is_gone_is_known_by_its_name_and_its_end_seen(orders: Table) -> None:
    file, tables = pending(orders, 3), IcebergTables()
    by_name = PendingFile(target=file.target, size=None, commit=named_commit(file.target))
    assert tables.look(by_name) == FileSeen(
        standing=Standing.UNCLEAR, why="no checkpoint that is left lists it: its files are not known"
    )
    with pytest.raises(ResourceManagerError, match="is unclear now"):
        tables.add(by_name)
    add(orders, 3, file)
    assert tables.look(by_name).standing is Standing.VISIBLE


def test_a_later_commit_that_adds_its_files_has_it(orders: Table) -> None:
    file, tables = pending(orders, 3), IcebergTables()
    assert tables.look(file).standing is Standing.HIDDEN
    add(orders, 4, file)
    assert tables.look(file).standing is Standing.VISIBLE


def test_without_its_manifest_it_is_gone(orders: Table) -> None:
    file = pending(orders, 3)
    assert isinstance(file.commit, IcebergCommit)
    Path(file.commit.manifests[0].path).unlink()
    seen = IcebergTables().look(file)
    assert (seen.standing, seen.why) == (
        Standing.MISSING,
        "no snapshot adds it, and the manifests that Flink wrote are gone",
    )


def test_a_writer_in_between_stops_an_order(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    add(orders, 2)
    file, tables = pending(orders, 3), IcebergTables()
    look = IcebergTables._seen

    def flink_comes_first(self: IcebergTables, *given: Any) -> FileSeen:
        seen = look(self, *given)
        add(orders, 3, file)
        return seen

    monkeypatch.setattr(IcebergTables, "_seen", flink_comes_first)
    with pytest.raises(ResourceManagerError, match="CommitFailedException"):
        tables.add(file)
    assert read(orders) == ["order 1", "order 2"], "its rows are there once"


@pytest.mark.parametrize(
    ("change", "why"),
    [({"holds_deletes": True}, "it deletes rows besides"), ({"rows": 5}, "its manifests hold 1 file with 2 rows now")],
)
def test_what_an_order_would_not_do_right_is_refused(orders: Table, change: dict[str, Any], why: str) -> None:
    file = pending(orders, 3)
    assert isinstance(file.commit, IcebergCommit)
    manifest = file.commit.manifests[0]._replace(**change)
    commit = IcebergCommit(job=JOB, operator=SINK, checkpoint_id=3, manifests=(manifest,))
    add(orders, 2)
    with pytest.raises(ResourceManagerError, match=f"{why}.*restore the job from the checkpoint that lists it"):
        IcebergTables().add(PendingFile(target=commit.target, size=None, commit=commit))
    assert read(orders) == []


@pytest.mark.parametrize("replaces", [False, True])
def test_a_sink_that_may_replace_rows_gets_no_order(orders: Table, replaces: bool) -> None:
    file = pending(orders, 3)
    if replaces:
        add(orders, 1, pending(orders, 1))
        orders.catalog.load_table("db.orders").overwrite(ROWS, snapshot_properties=named(2))
    with pytest.raises(ResourceManagerError, match=r"no snapshot shows that its sink only adds rows.*restore the job"):
        IcebergTables().add(file)


def test_a_table_of_the_dynamic_sink_is_found_by_its_name(orders: Table) -> None:
    file = pending(orders, 3)
    assert isinstance(file.commit, IcebergCommit)
    commit = IcebergCommit(
        job=JOB, operator=SINK, checkpoint_id=3, manifests=file.commit.manifests, table="db.orders", branch="main"
    )
    assert IcebergTables().look(PendingFile(target=commit.target, size=None, commit=commit)).standing is Standing.HIDDEN


def test_a_table_that_no_catalog_has_cannot_be_asked(orders: Table) -> None:
    file = pending(orders, 3)
    orders.catalog.drop_table("db.orders")
    with pytest.raises(
        ResourceManagerError, match=r"no catalog of PyIceberg's configuration \(lake\) has a table at /"
    ):
        IcebergTables().look(file)


def test_a_hadoop_table_is_read_by_its_hint_and_not_written(orders: Table) -> None:
    orders.append(ROWS, snapshot_properties=named(2))
    file = pending(orders, 3)
    folder = Path(orders.location().removeprefix("file://")) / "metadata"
    newest = orders.catalog.load_table("db.orders").metadata_location.removeprefix("file://")
    for number in (1, 2):
        (folder / f"v{number}.metadata.json").write_bytes(Path(newest).read_bytes())
    # The hint is one behind, as while a commit is under way.
    (folder / "version-hint.text").write_text("1")
    orders.catalog.drop_table("db.orders")
    assert IcebergTables().look(file).standing is Standing.HIDDEN
    with pytest.raises(ResourceManagerError, match="no catalog that would refuse a second writer"):
        IcebergTables().add(file)
