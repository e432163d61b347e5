"""A single checkpoint of Flink that cannot be read is alerted with its path and the reason, until it matters no more."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import Finding
from indoubt.collector.assess.rules.sources import unread_checkpoints
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.observe import flink_committables, flink_store_reader
from indoubt.collector.observe.flink_checkpoint_store import CheckpointStore
from indoubt.collector.observe.flink_committables import FlinkCommittablesReader
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import METADATA_LIMIT
from indoubt.collector.records.formats.flink_records import UnreadCheckpoint
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError
from tests.unit.collector.assessments import look, situation_at
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.notify.test_evaluator import status
from tests.unit.collector.observations import observe
from tests.unit.collector.records.flink_metadata_recordings import RECORDED

JOB = "a" * 32
LIMIT_S = 30.0
NOBODY_READS = "/proc/sys/vm/compact_memory"
"""A file that Linux lets nobody read, root neither."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a poll wait for whatever answers at all."""
    monkeypatch.setattr(flink_committables, "PATIENCE_S", LIMIT_S)


def reader(current: CurrentState, *directories: Path) -> FlinkCommittablesReader:
    places = map(str, directories)
    return FlinkCommittablesReader(current, CLUSTER, places, interval_ms=0, remote_interval_ms=0)


def found(current: CurrentState, reading: FlinkCommittablesReader) -> list[Finding]:
    reading.polled()
    snapshot = situation_at(current, [reading.status], AlertSettings(), now_ms())
    return [each for each in rules.findings(snapshot) if each.rule == "A15"]


def put(directory: Path, written_s: int) -> Path:
    """Lay a recorded checkpoint where a job keeps its own, written at a time."""
    shutil.copytree(RECORDED / "2.3-incrementing", directory)
    os.utime(directory / "_metadata", (written_s, written_s))
    os.utime(directory, (written_s, written_s))
    return directory


def denied(file: Path) -> str:
    file.unlink()
    file.symlink_to(NOBODY_READS)
    return "Permission denied"


def damaged(file: Path) -> str:
    file.write_bytes(file.read_bytes()[:200])
    return "_metadata"


def too_large(file: Path) -> str:
    os.truncate(file, METADATA_LIMIT + 1)
    return "more than this program reads"


@pytest.mark.parametrize("harm", [denied, damaged, too_large])
def test_one_that_cannot_be_read_is_found_until_it_is(
    current: CurrentState, tmp_path: Path, harm: Callable[[Path], str]
) -> None:
    where = put(tmp_path / "flink" / JOB / "chk-3", 100)
    reading = reader(current, tmp_path / "flink")
    reading.read_new()
    assert found(current, reading) == []
    why = harm(where / "_metadata")
    os.utime(where, (101, 101))
    reading.read_new()
    (finding,) = found(current, reading)
    (evidence,) = finding.evidence
    assert evidence.fact.startswith(f"{where}: ")
    assert why in evidence.fact
    shutil.rmtree(where)
    put(where, 102)
    reading.read_new()
    assert found(current, reading) == []


@pytest.mark.parametrize("harm", [denied, damaged])
def test_one_that_was_deleted_or_replaced_matters_no_more(
    current: CurrentState, tmp_path: Path, harm: Callable[[Path], str]
) -> None:
    lost, kept = put(tmp_path / JOB / "chk-1", 100), put(tmp_path / JOB / "chk-2", 200)
    for each in (lost, kept):
        harm(each / "_metadata")
        os.utime(each, (200, 200))
    reading = reader(current, tmp_path)
    reading.read_new()
    (finding,) = found(current, reading)
    assert [each.fact.partition(":")[0] for each in finding.evidence] == [str(kept), str(lost)]
    shutil.rmtree(lost)
    reading.read_new()
    assert [len(each.evidence) for each in found(current, reading)] == [1]
    put(tmp_path / JOB / "chk-3", now_ms() // 1000 + 1)
    reading.read_new()
    assert found(current, reading) == []


def test_it_is_named_by_its_job_where_that_is_known(current: CurrentState, tmp_path: Path) -> None:
    denied(put(tmp_path / JOB / "chk-3", 100) / "_metadata")
    reading = reader(current, tmp_path)
    reading.read_new()
    (finding,) = found(current, reading)
    assert "pipeline" not in finding.labels
    observe(current, job(JOB))
    (named,) = found(current, reading)
    assert named.labels["pipeline"] == f"{CLUSTER}/orders"
    assert named.key == finding.key


def test_what_was_unread_stays_so_while_its_directory_cannot_be_listed(current: CurrentState, tmp_path: Path) -> None:
    directory = tmp_path / "flink"
    damaged(put(directory / JOB / "chk-3", 100) / "_metadata")
    reading = reader(current, directory)
    reading.read_new()
    directory.rename(tmp_path / "away")
    directory.symlink_to("flink")
    with pytest.raises(ResourceManagerError):
        reading.read_new()
    assert len(found(current, reading)) == 1


def test_a_directory_that_rest_reported_and_that_cannot_be_reached_is_found(current: CurrentState) -> None:
    observe(current, job(JOB), checkpoint(3, job=JOB, path=f"oss://bucket/{JOB}/chk-3"))
    reading = reader(current)
    reading.read_new()
    (finding,) = found(current, reading)
    assert "oss" in finding.evidence[0].fact


def test_a_directory_that_rest_reported_and_that_hangs_is_found(
    current: CurrentState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = put(tmp_path / JOB / "chk-3", 100)
    observe(current, job(JOB), checkpoint(3, job=JOB, path=str(where)))
    goes_on = threading.Event()
    read_new = CheckpointStore.read_new

    def hangs(self: CheckpointStore, reported: object) -> object:
        goes_on.wait(LIMIT_S)
        return read_new(self, reported)  # type: ignore[arg-type]

    monkeypatch.setattr(CheckpointStore, "read_new", hangs)
    monkeypatch.setattr(flink_store_reader, "SLOW_AFTER_S", 0.0)
    monkeypatch.setattr(flink_committables, "PATIENCE_S", 0.0)
    reading = reader(current)
    reading.read_new()
    (finding,) = found(current, reading)
    assert "has not answered" in finding.evidence[0].fact
    goes_on.set()
    monkeypatch.setattr(flink_committables, "PATIENCE_S", LIMIT_S)
    (of_job,) = reading._readers.values()
    assert of_job._idle.wait(LIMIT_S)
    reading.read_new()
    assert found(current, reading) == []


def test_unread_ones_stand_by_their_directory_under_who_reads_it(current: CurrentState) -> None:
    """A savepoint's directory has no job in its path; REST's observer of the same cluster reads none."""
    first, second = "a" * 32, "b" * 32
    unread = [
        UnreadCheckpoint(f"s3://flink/{first}/chk-3/", first, 3, "denied"),
        UnreadCheckpoint(f"s3://flink/{first}/chk-4", first, 4, "denied"),
        UnreadCheckpoint("s3://flink/savepoints/one", first, 5, "denied"),
        UnreadCheckpoint("s3://flink/savepoints/two", second, 5, "denied"),
    ]
    current.flink.see_out_of_reach(CLUSTER, {}, unread)
    observe(current, job(first), job(second, name="bills"))
    asks = status(f"{ObserverKind.FLINK.value} {CLUSTER}")
    reads = replace(asks, kind=ObserverKind.FLINK_CHECKPOINTS)
    found = unread_checkpoints(look(0, current=current, observers=[asks, reads]))
    assert [(one.observer, one.directory, one.pipeline, len(one.unread)) for one in found] == [
        (reads.name, f"s3://flink/{first}", f"{CLUSTER}/orders", 2),
        (reads.name, "s3://flink/savepoints", "", 2),
    ]
