"""Where checkpoints of Flink are looked for, which of them are read, and what is said of those that cannot be."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from indoubt.collector.act.orders.flink_commit import listed_now
from indoubt.collector.observe import flink_checkpoint_store, flink_store_reader
from indoubt.collector.observe.flink_checkpoint_store import CHECKPOINTS_OF_A_JOB, Now, Read
from indoubt.collector.observe.flink_metadata_files import Place, filesystem_of, read_again
from indoubt.collector.records.formats.flink_records import FlinkKind
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import OrderRefused, ResourceManagerError
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import broker_record, only_view
from tests.unit.collector.observe.flink_checkpoint_files import (
    JOB,
    NOBODY_READS,
    RECORDING,
    listed,
    put,
    reader,
    seen_listings,
    told_by_rest,
)
from tests.unit.collector.records.flink_metadata_recordings import RECORDED

pytestmark = pytest.mark.usefixtures("patience")


def test_checkpoints_are_read_once_and_again_when_they_change(current: CurrentState, tmp_path: Path) -> None:
    where = put(tmp_path / "flink" / JOB / "chk-3")
    reading = reader(current, tmp_path / "flink")
    reading.read_new()
    (listing,) = seen_listings(current)
    assert (listing.job, listing.number, listing.kind, listing.error) == (JOB, 3, FlinkKind.CHECKPOINT, "")
    assert listing.committables == set(listed())
    assert listing.prefixes == {"orders-2.3-incrementing"}

    reading.read_new()
    assert reading.status.records == 1, "what was read is not read again"
    # A job that was set back takes the number again: a new directory of the same name.
    shutil.rmtree(where)
    put(where)
    os.utime(where / "_metadata", ns=(1_795_000_000_000_000_000, 1_795_000_000_000_000_000))
    os.utime(where)
    reading.read_new()
    (again,) = seen_listings(current)
    assert again.written_ms == 1_795_000_000_000
    assert reading.status.records == 2


def test_a_directory_is_listed_again_once_it_changes(
    current: CurrentState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_job, listed_jobs = flink_checkpoint_store._of_job, []

    def counting(filesystem: fs.FileSystem, uri: str, path: str, job_id: str) -> list[Place]:
        listed_jobs.append(job_id)
        return list_job(filesystem, uri, path, job_id)

    monkeypatch.setattr(flink_checkpoint_store, "_of_job", counting)
    put(tmp_path / JOB / "chk-3")
    changed(tmp_path / JOB, seconds_ago=-60)
    reading = reader(current, tmp_path)
    for _ in range(3):
        reading.read_new()
    assert len(listed_jobs) == 3, "it changed a moment ago"
    changed(tmp_path / JOB, seconds_ago=60)
    for _ in range(3):
        reading.read_new()
    assert len(listed_jobs) == 4, "it changed long ago, and all of it is read"
    (tmp_path / JOB / "chk-4").mkdir()
    for _ in range(2):
        reading.read_new()
    assert len(listed_jobs) == 6, "its new checkpoint is not read"
    shutil.copy(RECORDED / RECORDING / "_metadata", tmp_path / JOB / "chk-4")
    reading.read_new()
    assert max(listing.path for listing in seen_listings(current)).endswith("chk-4")


def changed(directory: Path, seconds_ago: float) -> None:
    at_ns = round(1e9 * (time.time() - seconds_ago))
    os.utime(directory, ns=(at_ns, at_ns))


@pytest.mark.parametrize(
    ("changed_ns", "quiet_s"), [(1_795_000_000_000_000_000, 2.0), (1_795_000_000_004_000_000, 0.1)]
)
def test_where_times_are_whole_seconds_more_changes_may_bear_the_same(changed_ns: int, quiet_s: float) -> None:
    assert flink_checkpoint_store._quiet_s(changed_ns) == quiet_s


@pytest.mark.parametrize(
    ("interval_s", "look_s", "rest_s"),
    [(0.5, 0.004, 0.5), (0.5, 0.02, 0.9), (0.5, 0.3, 1.0), (5.0, 0.02, 5.0), (0.0, 0.02, 0.0)],
    ids=["a short look", "a longer one", "a very long one", "in an object store", "none"],
)
def test_a_longer_look_is_followed_by_a_longer_rest(interval_s: float, look_s: float, rest_s: float) -> None:
    assert flink_store_reader.rest_s(interval_s, look_s) == pytest.approx(rest_s)


def test_a_file_that_is_still_being_written_is_read_again(current: CurrentState, tmp_path: Path) -> None:
    where = put(tmp_path / "flink" / JOB / "chk-3")
    whole = (where / "_metadata").read_bytes()
    reading = reader(current, tmp_path / "flink")
    (where / "_metadata").write_bytes(whole[:100])
    before = where.stat().st_mtime_ns
    reading.read_new()
    assert "1 checkpoint cannot be read" in reading.note
    (where / "_metadata").write_bytes(whole)
    assert where.stat().st_mtime_ns == before, "its directory does not tell"
    reading.read_new()
    assert reading.note == ""
    assert {listing.error for listing in seen_listings(current)} == {""}


@pytest.mark.parametrize("is_open", [True, False])
def test_a_settled_list_of_what_is_open_is_looked_at_in_every_poll(
    current: CurrentState, tmp_path: Path, is_open: bool
) -> None:
    where = put(tmp_path / "flink" / JOB / "chk-3")
    changed(where / "_metadata", 60)
    changed(where, 50)
    before = where.stat()
    open_ = listed()[0]
    named: dict[str, Any] = {"transaction": open_.transaction, "producer_id": open_.producer_id}
    if is_open:
        told_by_rest(current, broker_record(BrokerStatus.ONGOING, 0, epoch=open_.producer_epoch, **named))
    reading = reader(current, tmp_path / "flink")
    reading.read_new()
    assert len(seen_listings(current)) == 1
    (where / "_metadata").write_bytes((RECORDED / "2.3-savepoint" / "_metadata").read_bytes())
    changed(where / "_metadata", 55)
    os.utime(where, ns=(before.st_atime_ns, before.st_mtime_ns))
    reading.read_new()
    assert len(seen_listings(current)) == (0 if is_open else 1), "what was read once is no evidence for ever"


@pytest.mark.parametrize(
    ("age_s", "changed_ns", "looked_s_ago", "stands"),
    [
        pytest.param(60, 7, 0, True, id="settled, its directory the same"),
        pytest.param(60, 8, 0, False, id="another directory of that name"),
        pytest.param(1, 7, 0, False, id="written a moment ago"),
        pytest.param(60, None, 10, True, id="no directory tells, looked at a moment ago"),
        pytest.param(60, None, 61, False, id="no directory tells, looked at a minute ago"),
    ],
)
def test_a_settled_file_is_not_looked_at_in_every_poll(
    age_s: float, changed_ns: int | None, looked_s_ago: float, stands: bool
) -> None:
    read = Read(round((time.time() - age_s) * 1e9), 10, 7, time.monotonic() - looked_s_ago)
    place = Place(fs.LocalFileSystem(), "file:/c/chk-3", "/c/chk-3", JOB, 3, changed_ns)
    assert read.stands(place, Now.read()) is stands


def test_the_directory_of_a_checkpoint_that_rest_told_of_is_followed(current: CurrentState, tmp_path: Path) -> None:
    put(tmp_path / JOB / "chk-3")
    told_by_rest(current, job(), checkpoint(2, path=f"file:{tmp_path}/{JOB}/chk-2"))
    reader(current).read_new()
    (listing,) = seen_listings(current)
    assert listing.path == f"file:{tmp_path}/{JOB}/chk-3", "Flink wrote it and REST has not told of it yet"


def test_a_savepoint_is_read_where_rest_says(current: CurrentState, tmp_path: Path) -> None:
    put(tmp_path / "savepoint-aaaaaa-0123456789ab", "2.3-savepoint")
    told_by_rest(current, job(), checkpoint(4, path=f"file:{tmp_path}/savepoint-aaaaaa-0123456789ab"))
    reader(current).read_new()
    with current.reading() as state:
        (listing,) = state.flink.lists.listings(listed("2.3-savepoint")[0])
    assert listing.kind is FlinkKind.SAVEPOINT
    assert listing.job == JOB


def test_only_the_newest_checkpoints_of_a_job_are_read(current: CurrentState, tmp_path: Path) -> None:
    for number in range(CHECKPOINTS_OF_A_JOB + 5):
        put(tmp_path / JOB / f"chk-{number}")
    reading = reader(current, tmp_path)
    reading.read_new()
    assert reading.status.records == CHECKPOINTS_OF_A_JOB


def test_a_damaged_checkpoint_is_named_and_hides_no_other(current: CurrentState, tmp_path: Path) -> None:
    put(tmp_path / JOB / "chk-3")
    damaged = put(tmp_path / JOB / "chk-4") / "_metadata"
    damaged.write_bytes(damaged.read_bytes()[:100])
    reading = reader(current, tmp_path)
    reading.read_new()
    assert [listing.path.rpartition("/")[2] for listing in seen_listings(current)] == ["chk-3"]
    for _ in range(2):
        assert "1 checkpoint cannot" in reading.note
        assert "chk-4" in reading.note
        reading.read_new()
    shutil.rmtree(damaged.parent)
    reading.read_new()
    assert reading.note == ""


def test_a_state_file_that_is_gone_is_said(current: CurrentState, tmp_path: Path) -> None:
    with_files = put(tmp_path / JOB / "chk-3", "2.3-state-files")
    for state in with_files.iterdir():
        if state.name not in ("_metadata", "coordinator.json"):
            state.unlink()
    reading = reader(current, tmp_path)
    reading.read_new()
    assert "states of sinks were not read" in reading.note


def test_a_directory_that_is_not_there_yet_holds_nothing(current: CurrentState, tmp_path: Path) -> None:
    reading = reader(current, tmp_path / "later")
    reading.read_new()
    assert reading.status.records == 0


def test_a_store_that_cannot_be_opened_is_said(current: CurrentState, tmp_path: Path) -> None:
    told_by_rest(current, job(), checkpoint(3, path="oss://bucket/chk-3"))
    reading = reader(current)
    reading.read_new()
    assert "oss://bucket/chk-3" in reading.note
    with pytest.raises(ResourceManagerError, match="oss"):
        filesystem_of("oss://bucket/chk-3")


def test_what_is_out_of_reach_is_told_from_what_is_damaged(current: CurrentState, tmp_path: Path) -> None:
    put(tmp_path / JOB / "chk-2")
    unreachable, damaged = put(tmp_path / JOB / "chk-3"), put(tmp_path / JOB / "chk-4")
    (unreachable / "_metadata").unlink()
    (unreachable / "_metadata").symlink_to(NOBODY_READS)
    (damaged / "_metadata").write_bytes(b"damaged")
    reading = reader(current, tmp_path)
    reading.read_new()
    with current.reading() as state:
        assert "Permission denied" in state.flink.why_out_of_reach(CLUSTER, JOB, 3)
        assert state.flink.why_out_of_reach(CLUSTER, JOB, 2) == ""
        assert state.flink.why_out_of_reach(CLUSTER, JOB, 4) == ""
    (unreachable / "_metadata").unlink()
    reading.read_new()
    with current.reading() as state:
        assert state.flink.out_of_reach == {CLUSTER: {}}


def test_a_directory_of_the_settings_that_fails_puts_all_out_of_reach(current: CurrentState, tmp_path: Path) -> None:
    (tmp_path / "flink").symlink_to("flink")
    with pytest.raises(ResourceManagerError):
        reader(current, tmp_path / "flink").read_new()
    with current.reading() as state:
        assert state.flink.why_out_of_reach(CLUSTER, JOB, 3)


def test_an_order_reads_a_checkpoint_as_it_is_at_that_moment(current: CurrentState, tmp_path: Path) -> None:
    where = put(tmp_path / JOB / "chk-3")
    reader(current, tmp_path).read_new()
    (listing,) = seen_listings(current)
    now = read_again(listing)
    assert now is not None
    assert replace(now, read_ms=0) == replace(listing, read_ms=0)
    shutil.rmtree(where)
    assert read_again(listing) is None


def test_an_order_rests_on_the_list_that_its_verdict_rests_on(current: CurrentState, tmp_path: Path) -> None:
    where = put(tmp_path / JOB / "chk-3")
    open_ = listed()[0]
    named: dict[str, Any] = {"transaction": open_.transaction, "producer_id": open_.producer_id}
    view = only_view(broker_record(BrokerStatus.ONGOING, 0, epoch=open_.producer_epoch, **named))
    reader(current, tmp_path).read_new()
    assert listed_now(current, view) is not None
    # A copy under another job's id, which was read first, is not what the verdict rests on.
    whole, read = (where / "_metadata").read_bytes(), (where / "_metadata").stat()
    (where / "_metadata").write_bytes(whole)
    os.utime(where / "_metadata", ns=(read.st_atime_ns, read.st_mtime_ns + 1_000_000_000))
    with pytest.raises(OrderRefused, match="chk-3 is not as it was when it was read: look again"):
        listed_now(current, view)
    shutil.copytree(where, tmp_path / ("b" * 32) / "chk-9")
    reader(current, tmp_path).read_new()
    shutil.rmtree(where)
    with pytest.raises(OrderRefused, match="chk-3 is gone"):
        listed_now(current, view)


def test_of_too_many_jobs_the_last_ones_are_read_and_the_rest_is_said(
    current: CurrentState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flink_checkpoint_store, "JOBS_OF_A_DIRECTORY", 2)
    killed = put(tmp_path / "flink" / ("f" * 32) / "chk-3")
    for number in range(4):
        old = put(tmp_path / "flink" / f"{number:032x}" / f"chk-{50 + number}", "2.3-parallelism-1")
        os.utime(old.parent, (1_000 + number, 1_000 + number))
    (tmp_path / "flink" / "no job").mkdir()
    reading = reader(current, tmp_path / "flink")
    reading.read_new()
    assert [each.path for each in seen_listings(current)] == [str(killed)]
    assert reading.status.records == 2
    assert reading.note.startswith(
        f"3 directories of jobs below {tmp_path / 'flink'} that changed longest ago are not read"
    )
    shutil.rmtree(tmp_path / "flink" / f"{0:032x}")
    shutil.rmtree(tmp_path / "flink" / f"{1:032x}")
    reading.read_new()
    assert "1 directory of jobs" in reading.note
    assert "ago is not read" in reading.note


def test_a_checkpoint_that_is_deleted_is_no_evidence_until_it_is_back(
    current: CurrentState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = put(tmp_path / "flink" / JOB / "chk-3")
    reading = reader(current, tmp_path / "flink")

    def gone() -> list[bool]:
        reading.read_new()
        return [each.is_gone for each in seen_listings(current)]

    assert gone() == [False]
    shutil.move(where, tmp_path / "aside")
    assert gone() == gone() == [True]
    shutil.move(tmp_path / "aside", where)
    assert gone() == [False]
    put(tmp_path / "flink" / ("b" * 32) / "chk-4", "2.3-parallelism-1")
    monkeypatch.setattr(flink_checkpoint_store, "JOBS_OF_A_DIRECTORY", 0)
    assert gone() == [False], "it is only one too many to be read"
