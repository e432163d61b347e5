"""Recorded checkpoints of jobs with Iceberg's sinks list what no snapshot has."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from pyarrow import fs

from indoubt.collector.observe.flink_metadata_files import FILE, Place, read_place
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import read_checkpoint_metadata
from indoubt.collector.records.formats.flink_metadata.iceberg_sink_states import FILES_STATE, JOB_STATE
from indoubt.collector.records.formats.flink_metadata.sink_states import SinkKind
from indoubt.collector.records.formats.flink_records import ListedFile, SinkCommits
from indoubt.collector.records.formats.pending_files import IcebergCommit, IcebergManifest
from tests.unit.collector.records.flink_metadata_recordings import RECORDED, metadata_bytes, opener, read, read_damaged

OLDER = "2.1-iceberg-flink-sink"
ONE_TABLE = ["1.20-iceberg", "2.1-iceberg", "2.1-iceberg-upsert", OLDER]
DYNAMIC = ["1.20-iceberg-dynamic", "2.1-iceberg-dynamic"]


def tables(name: str) -> list[dict[str, Any]]:
    """Return what the tables had when the job had been killed."""
    found: list[dict[str, Any]] = json.loads((RECORDED / name / "store.json").read_text())["tables"]
    return found


def commits(name: str) -> list[IcebergCommit]:
    checkpoint = read(name)
    assert checkpoint.unread == ()
    return [each.commit for each in checkpoint.files if isinstance(each.commit, IcebergCommit)]


@pytest.mark.parametrize("name", [*ONE_TABLE, *DYNAMIC])
def test_names_exactly_the_manifests_that_no_snapshot_has(name: str) -> None:
    held = {
        IcebergManifest(
            path=f"{table['location']}/metadata/{row['name']}",
            size=row["size"],
            spec=row["spec"],
            files=row["files"],
            rows=row["rows"],
            holds_deletes=row["content"] == "deletes",
        )
        for table in tables(name)
        for row in table["uncommitted"]
    }
    named = [manifest for commit in commits(name) for manifest in commit.manifests]
    assert sorted(named) == sorted(held)
    assert {(each.checkpoint_id, each.size, each.is_understood) for each in read(name).files} == {(3, None, True)}


@pytest.mark.parametrize("name", [*ONE_TABLE, *DYNAMIC])
def test_names_the_commit_as_its_snapshot_will(name: str) -> None:
    for commit in commits(name):
        (table,) = (each for each in tables(name) if each["location"] == commit.location)
        earlier = [each for each in table["snapshots"] if each]
        assert {(each["job-id"], each["operator-id"]) for each in earlier} == {(commit.job, commit.operator)}
        assert all(int(each["max-committed-checkpoint-id"]) < commit.checkpoint_id for each in earlier)


@pytest.mark.parametrize("name", DYNAMIC)
def test_the_dynamic_sink_commits_once_to_each_branch_of_a_table(name: str) -> None:
    found = {(each.table, each.branch): len(each.manifests) for each in commits(name)}
    assert found == {("db.orders", "main"): 1, ("db.orders", "audit"): 1, ("db.returns", "main"): 2}
    assert len({each.target for each in commits(name)}) == 3


def test_a_checkpoint_for_which_no_row_came_commits_nothing() -> None:
    checkpoint = read("2.1-iceberg-empty")
    assert (checkpoint.files, checkpoint.unread, checkpoint.announced) == ((), (), ())
    assert tables("2.1-iceberg-empty")[0]["uncommitted"] == []


def test_a_commit_is_listed_as_the_files_of_a_file_sink_are() -> None:
    directory, local = RECORDED / "2.1-iceberg", fs.LocalFileSystem()
    place = Place(local, f"file:{directory}", str(directory), "a" * 32, 3)
    listed = read_place("flink", place, local.get_file_info(f"{directory}/{FILE}"))
    (commit,) = commits("2.1-iceberg")
    (file,) = listed.files
    assert (file.commit, file.target, file.checkpoint_id, file.sink) == (commit, commit.target, 3, "orders_iceberg")
    assert listed.committables == {ListedFile(commit.target)}
    assert (listed.sinks, listed.error) == ((SinkCommits("orders_iceberg", "iceberg", 1),), "")


@pytest.mark.parametrize("name", ["2.1-iceberg-upsert", "1.20-iceberg-dynamic", OLDER])
def test_a_damaged_file_is_an_error_or_another_list(name: str) -> None:
    for found in read_damaged(name):
        assert len(found.files) <= 4


def test_damaged_states_of_the_older_sink_are_named_as_unread() -> None:
    data = metadata_bytes(OLDER)
    at = data.index(struct.pack(">ii", 1, 0) + struct.pack(">i", 3))
    checkpoint = read_checkpoint_metadata(data[:at] + b"\xff" + data[at + 1 :], opener(OLDER))
    (unread,) = checkpoint.unread
    assert (checkpoint.files, unread.state) == ((), FILES_STATE)
    assert "how many checkpoints are to be committed" in unread.reason
    renamed = data.replace(JOB_STATE.encode(), JOB_STATE.upper().encode())
    (unread,) = read_checkpoint_metadata(renamed, opener(OLDER)).unread
    assert "there are 0 ids of a job" in unread.reason


@pytest.mark.parametrize(
    "name", ["2.3-unknown-sink", "2.3-two-sinks", "2.3-file-sink-pending", "1.20-jdbc-sink-postgres"]
)
def test_another_sink_is_not_taken_for_one_of_icebergs(name: str) -> None:
    assert SinkKind.ICEBERG not in {each.kind for each in read(name).announced}
    assert all(each.commit is None for each in read(name).files)
