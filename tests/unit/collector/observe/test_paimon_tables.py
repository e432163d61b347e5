"""Commits to Paimon tables as a real job left them: a table is found by its snapshots or the commit's file, and read."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indoubt.collector.observe import paimon_tables
from indoubt.collector.observe.flink_file_store import FileStore
from indoubt.collector.observe.paimon_tables import PaimonTables
from indoubt.collector.records.formats.pending_files import FileSeen, PaimonCommit, PendingFile, Standing
from indoubt.lifecycle.errors import ResourceManagerError

MISSES, VISIBLE = FileSeen(standing=Standing.HIDDEN), FileSeen(standing=Standing.VISIBLE)
USER, FILE = "user-1", "bucket-0/data-1-2.parquet"
COMMIT = PaimonCommit(user=USER, identifier=3, first_file=FILE, messages=1, files=1, rows=30)
MANIFEST = "manifest-5b8e1c7a-1d1f-4c7e-9f7e-0123456789ab-0"


def pending(commit: PaimonCommit = COMMIT) -> PendingFile:
    return PendingFile(target=commit.target, size=None, commit=commit)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return an empty table in a warehouse that has another one, and what is none."""
    for name in ("orders", "returns"):
        (tmp_path / "lake" / "db.db" / name / "schema").mkdir(parents=True)
    (tmp_path / "lake" / "notes").mkdir()
    (tmp_path / "lake" / "db.db" / "orders" / "bucket-0").mkdir()
    (tmp_path / "lake" / "db.db" / "orders" / FILE).touch()
    (tmp_path / "lake" / "readme").write_text("no table")
    return tmp_path / "lake" / "db.db" / "orders"


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    value, found = value << 1, b""
    while value >= 0x80:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def avro(*texts: str, codec: str = "zstandard") -> bytes:
    """Return a file with a block for each text."""
    head = (
        b"Obj\1" + number(1) + number(10) + b"avro.codec" + number(len(codec)) + codec.encode() + number(0) + bytes(16)
    )
    blocks = [
        pa.compress(text.encode(), "zstd", asbytes=True) if codec == "zstandard" else text.encode() for text in texts
    ]
    return head + b"".join(number(1) + number(len(block)) + block + bytes(16) for block in blocks)


def add(
    table: Path, id_: int, identifier: int, *files: str, user: str = USER, branch: str = "", codec: str = "zstandard"
) -> None:
    """Add a snapshot, whose manifest names files."""
    snapshots, manifests = (table / branch / "snapshot", table / "manifest")
    for directory in (snapshots, manifests):
        directory.mkdir(parents=True, exist_ok=True)
    own, listed = MANIFEST.replace("-0", f"-{id_}"), f"manifest-list-{branch.replace('/', '-')}{id_}"
    (manifests / own).write_bytes(avro("", *files, codec=codec))
    (manifests / listed).write_bytes(avro(f"..{own}..", codec=codec))
    told = {"id": id_, "commitUser": user, "commitIdentifier": identifier, "deltaManifestList": listed}
    (snapshots / f"snapshot-{id_}").write_text(json.dumps(told))
    (snapshots / "LATEST").write_text(str(id_))


@pytest.mark.parametrize("up", [0, 1, 2])
def test_a_table_is_found_by_its_users_snapshots_below_warehouse_database_or_itself(table: Path, up: int) -> None:
    add(table, 1, 2, "data-1-1.parquet")
    tables = PaimonTables([str([table, *table.parents][up])])
    assert tables.look(pending()) == MISSES
    add(table, 2, 3, "data-1-2.parquet", "data-2-2.parquet")
    assert tables.look(pending()) == VISIBLE


@pytest.mark.parametrize("codec", ["zstandard", "null"])
def test_a_snapshot_of_its_number_without_its_file_does_not_add_it(table: Path, codec: str) -> None:
    add(table, 1, 2, "data-1-1.parquet", codec=codec)
    add(table, 2, 3, "data-9-2.parquet", codec=codec)
    seen = PaimonTables([str(table)]).look(pending())
    assert (seen.standing, "bears number 3" in seen.why) == (Standing.HIDDEN, True)
    add(table, 2, 3, "data-1-2.parquet", codec=codec)
    assert PaimonTables([str(table)]).look(pending()) == VISIBLE


def test_a_table_without_a_snapshot_of_its_user_is_found_by_the_file_that_it_adds(table: Path) -> None:
    tables = PaimonTables([str(table.parent)])
    add(table, 1, 3, "data-9-2.parquet", user="another")
    assert tables.look(pending()) == MISSES


@pytest.mark.parametrize("is_there", ["elsewhere", "in a partition", "beside a branch"])
def test_where_no_table_is_found_nothing_is_claimed(table: Path, is_there: str) -> None:
    commit = COMMIT
    add(table, 1, 3, "data-9-2.parquet", user="another")
    if is_there == "elsewhere":
        (table / FILE).unlink()
    if is_there == "in a partition":
        commit = replace(COMMIT, first_file="data-1-2.parquet")
    if is_there == "beside a branch":
        (table / "branch" / "branch-b").mkdir(parents=True)
    tables = PaimonTables([str(table.parent)])
    with pytest.raises(
        ResourceManagerError, match=r"no table below .*db.db has a snapshot of commit user user-1, or .*1-2"
    ):
        tables.look(pending(commit))


def test_without_directories_the_setting_is_named() -> None:
    with pytest.raises(
        ResourceManagerError, match=r"no directory has .*: name its warehouse in INDOUBT_PAIMON_WAREHOUSES"
    ):
        FileStore().look(pending())


def test_a_commit_whose_file_was_removed_is_missing_where_its_place_is_known(table: Path) -> None:
    add(table, 1, 2)
    (table / FILE).unlink()
    tables = PaimonTables([str(table)])
    assert tables.look(pending()) == FileSeen(standing=Standing.MISSING)
    assert tables.look(pending(replace(COMMIT, first_file="data-1-2.parquet"))) == MISSES
    add(table, 2, 4)
    assert tables.look(pending()).standing is Standing.HIDDEN, "left out"


def test_a_branch_is_found_by_its_own_snapshots(table: Path) -> None:
    branch = "branch/branch-b"
    add(table, 1, 3, "data-9-2.parquet", user="another")
    add(table, 1, 2, "data-1-1.parquet", branch=branch)
    tables = PaimonTables([str(table)])
    assert tables.look(pending()) == MISSES
    add(table, 2, 3, "data-1-2.parquet", branch=branch)
    assert tables.look(pending()) == VISIBLE


def test_a_search_in_vain_is_repeated_later_only(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = PaimonTables([str(table)])
    (table / FILE).unlink()
    with pytest.raises(ResourceManagerError):
        tables.look(pending())
    (table / FILE).touch()
    add(table, 1, 2)
    with pytest.raises(ResourceManagerError):
        tables.look(pending())
    monkeypatch.setattr(paimon_tables, "SEARCHED_EVERY_S", 0.0)
    assert tables.look(pending()) == MISSES


def test_a_snapshot_whose_number_is_used_again_is_read_again(table: Path) -> None:
    tables = PaimonTables([str(table)])
    add(table, 1, 2)
    assert tables.look(pending()) == MISSES
    add(table, 1, 33, user="another-user")
    assert tables.look(pending()) == MISSES, "its snapshot is gone, and all that are there are kept"
    shutil.rmtree(table / "snapshot")
    add(table, 2, 33, user="another-user")
    assert tables.look(pending()).standing is Standing.UNCLEAR


@pytest.mark.parametrize(
    ("path", "data", "says"),
    [
        ("snapshot/snapshot-2", b"{}", "snapshot-2 is no snapshot of Paimon"),
        ("manifest/manifest-list-2", b"PAR1", "byte 0: this is no file of Avro"),
        ("manifest/manifest-list-2", avro("", codec="snappy"), "is compressed by snappy, which this program does not read"),
        ("manifest/manifest-list-2", avro("x")[:-1], "the mark between blocks has 16 bytes, and 15 are left"),
        ("manifest/manifest-list-2", avro() + number(1) + number(1) + b"x" + bytes(16), "cannot be decompressed"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(table: Path, path: str, data: bytes, says: str) -> None:
    add(table, 1, 2)
    add(table, 2, 3)
    (table / path).write_bytes(data)
    with pytest.raises(ResourceManagerError, match=says):
        PaimonTables([str(table)]).look(pending())


def test_a_manifest_that_expired_meanwhile_and_one_that_leads_elsewhere_are_not_read(table: Path) -> None:
    add(table, 1, 2)
    add(table, 2, 3)
    (table / "manifest" / "manifest-list-2").unlink()
    with pytest.raises(ResourceManagerError, match=r"the table of paimon:user-1@3/.* cannot be asked"):
        PaimonTables([str(table)]).look(pending())
    told: dict[str, Any] = {"id": 2, "commitUser": USER, "commitIdentifier": 3, "deltaManifestList": "../../x"}
    (table / "snapshot" / "snapshot-2").write_text(json.dumps(told))
    with pytest.raises(ResourceManagerError, match=r"\.\./\.\./x is no manifest's name"):
        PaimonTables([str(table)]).look(pending())


def test_no_order_touches_a_table(table: Path) -> None:
    store = FileStore([str(table)])
    with pytest.raises(ResourceManagerError, match="no order adds to a Paimon table"):
        store.make_visible(pending())
    with pytest.raises(ResourceManagerError, match="is not taken back"):
        store.remove(pending())
