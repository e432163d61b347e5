"""A store of Flink's checkpoints that hangs or fails holds up no other."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.observe import flink_committables, flink_store_reader
from indoubt.collector.observe.flink_committables import FlinkCommittablesReader
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.notify.http_receiver import wait_until
from tests.unit.collector.observe.flink_checkpoint_files import JOB, LIMIT_S, put, reader, seen_listings, told_by_rest

pytestmark = pytest.mark.usefixtures("patience")


class Hanging:
    """A checkpoint whose state file is a FIFO: whoever opens it waits until somebody writes."""

    def __init__(self, directory: Path) -> None:
        put(directory, "2.3-state-files")
        self._state = next(
            state for state in sorted(directory.iterdir()) if state.name not in ("_metadata", "coordinator.json")
        )
        self._state.unlink()
        os.mkfifo(self._state)

    def go_on(self) -> None:
        """Let the one that waits go on, if there is one."""
        with contextlib.suppress(OSError):
            os.close(os.open(self._state, os.O_WRONLY | os.O_NONBLOCK))


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    monkeypatch.setattr(flink_committables, "PATIENCE_S", 0.05)
    monkeypatch.setattr(flink_store_reader, "SLOW_AFTER_S", 0.5)
    made = Hanging(tmp_path / "slow" / JOB / "chk-3")
    yield made
    made.go_on()


def polled(reading: FlinkCommittablesReader) -> str:
    """Poll once and return what a poll that fails says."""
    try:
        reading.read_new()
    except ResourceManagerError as error:
        return str(error)
    return ""


def test_a_directory_that_hangs_holds_up_no_other(current: CurrentState, tmp_path: Path, hanging: Hanging) -> None:
    reading = reader(current, tmp_path / "slow", tmp_path / "flink")

    def newest_read() -> str:
        polled(reading)
        return max((listing.path.rpartition("/")[2] for listing in seen_listings(current)), default="")

    put(tmp_path / "flink" / JOB / "chk-4")
    wait_until("chk-4", lambda: newest_read() == "chk-4", LIMIT_S)
    said = wait_until("what is wrong", lambda: polled(reading), LIMIT_S)
    assert re.match(rf"{tmp_path}/slow has not answered since [0-9-]+ [0-9:.]+ UTC", said)
    put(tmp_path / "flink" / JOB / "chk-5")
    wait_until("chk-5", lambda: newest_read() == "chk-5", LIMIT_S)
    hanging.go_on()
    wait_until("the directory's answer", lambda: not polled(reading), LIMIT_S)


def test_a_store_of_one_job_that_hangs_holds_up_no_other_job(
    current: CurrentState, tmp_path: Path, hanging: Hanging
) -> None:
    other = "b" * 32
    put(tmp_path / "flink" / other / "chk-3")
    told_by_rest(
        current,
        job(),
        checkpoint(3, path=f"file:{tmp_path}/slow/{JOB}/chk-3"),
        job(other),
        checkpoint(3, job=other, path=f"file:{tmp_path}/flink/{other}/chk-3"),
    )
    reading = reader(current)

    def is_said() -> bool:
        assert polled(reading) == "", "no directory of the settings fails"
        return "slow has not answered" in reading.note

    wait_until("a note", is_said, LIMIT_S)
    assert [listing.job for listing in seen_listings(current)] == [other]
    with current.reading() as state:
        assert "has not answered" in state.flink.why_out_of_reach(CLUSTER, JOB, 3)
        assert state.flink.why_out_of_reach(CLUSTER, other, 3) == ""


def test_a_directory_that_cannot_be_listed_holds_up_no_other(current: CurrentState, tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("gone")
    put(tmp_path / "flink" / JOB / "chk-3")
    assert "gone" in polled(reader(current, tmp_path / "gone", tmp_path / "flink"))
    assert [listing.number for listing in seen_listings(current)] == [3]


def test_stores_beyond_so_many_share_a_reader(
    current: CurrentState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flink_committables, "MOST_READERS", 2)
    for number in range(5):
        put(tmp_path / f"store-{number}" / JOB / f"chk-{number}")
        told_by_rest(current, job(), checkpoint(number, path=f"file:{tmp_path}/store-{number}/{JOB}/chk-{number}"))
    reading = reader(current)

    def count() -> int:
        reading.read_new()
        return reading.status.records

    wait_until("five checkpoints", lambda: count() == 5, LIMIT_S)
    assert len(reading._readers) == 3
