"""Checkpoint directories followed on any filesystem: what is new is found with bounded work, what is broken is read again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from indoubt.collector.observe import checkpoint_directory
from indoubt.collector.observe.checkpoint_directory import CheckpointFolder
from indoubt.collector.observe.flink_metadata_files import filesystem_of
from indoubt.collector.observe.spark_checkpoint import CheckpointLog
from indoubt.collector.records.observations import CheckpointFile, CheckpointFileKind, Quarantined
from indoubt.lifecycle.errors import ResourceManagerError

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795000005000}\n{"t":{"0":1}}'


class Asked(fs.FileSystemHandler):
    """A filesystem that counts what it is asked, over another one."""

    def __init__(self, inner: fs.FileSystem, clock: Clock) -> None:
        self.inner, self.counts, self.clock = inner, Counter[str](), clock
        self.listing_s = 0.0
        self.broken: set[str] = set()

    def get_type_name(self) -> str:
        return "asked"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        self.counts["names"] += len(paths)
        return self.inner.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.counts["listings"] += 1
        self.clock.now_s += self.listing_s
        return self.inner.get_file_info(selector)

    def open_input_stream(self, path: str) -> Any:
        self.counts["reads"] += 1
        if path in self.broken:
            raise OSError(f"connection reset while reading {path}")
        return self.inner.open_input_stream(path)

    def _refused(self, *_: Any) -> Any:
        raise NotImplementedError("a checkpoint directory is only read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refused
    move = copy_file = open_input_file = open_output_stream = open_append_stream = _refused


class Clock:
    """Seconds that pass when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Directory:
    """A folder of checkpoint files on a local disk, followed through a counting filesystem."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.offsets = root / "offsets"
        self.offsets.mkdir(parents=True)
        self.clock = Clock()
        self.asked = Asked(fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()), self.clock)
        self.log = self.follow()

    def follow(
        self, known: tuple[tuple[int, int], ...] = (), quarantined_before: tuple[int, ...] = ()
    ) -> CheckpointLog:
        folder = CheckpointFolder(fs.PyFileSystem(self.asked), "offsets", known, self.clock)
        return CheckpointLog("q", "spark checkpoint q", CheckpointFileKind.OFFSETS, folder, set(quarantined_before))

    def write(self, *numbers: int, text: str = OFFSETS) -> None:
        for number in numbers:
            (self.offsets / str(number)).write_text(text)

    def reported(self) -> list[int]:
        """Return the numbers of the checkpoint files that a look tells, in order."""
        return sorted(one.observation.number for one in self.log.poll() if isinstance(one.observation, CheckpointFile))

    def quarantined(self) -> list[str]:
        """Return the errors of what a look quarantines."""
        return [one.observation.error for one in self.log.poll() if isinstance(one.observation, Quarantined)]


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "checkpoint")


def test_what_is_new_is_reported_once(directory: Directory) -> None:
    assert directory.reported() == []
    directory.write(0, 1)
    (directory.offsets / ".2.crc").write_text("no batch")
    (directory.offsets / "3.tmp").write_text("no batch")
    assert directory.reported() == [0, 1]
    directory.write(2)
    assert directory.reported() == [2]
    assert directory.reported() == []


def test_a_poll_costs_the_same_however_many_files_there_are(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_directory, "MAX_BACKLOG", 10)
    directory.asked.listing_s = 1.0
    directory.write(*range(2_000))
    assert directory.reported() == list(range(1_990, 2_000))
    directory.asked.counts.clear()
    for number in range(2_000, 2_020):
        directory.write(number)
        assert directory.reported() == [number]
    counts = directory.asked.counts
    assert (counts["listings"], counts["reads"]) == (0, 20)
    assert counts["names"] <= 20 * (1 + 2 + 1 + 4)


def test_many_new_files_are_found_in_one_poll_and_read_in_several(directory: Directory) -> None:
    directory.asked.listing_s = 1.0
    directory.write(0)
    directory.reported()
    directory.asked.counts.clear()
    directory.write(*range(1, 121))
    reported = directory.reported()
    while more := directory.reported():
        reported += more
    assert sorted(reported) == list(range(1, 121))
    assert directory.asked.counts["listings"] == 0


def test_the_past_is_read_newest_first_and_bounded_per_poll(directory: Directory) -> None:
    directory.write(*range(250))
    assert directory.reported() == list(range(150, 250))
    assert directory.reported() == list(range(50, 150))
    assert directory.reported() == list(range(50))


def test_what_comes_behind_a_gap_is_seen_at_once(directory: Directory) -> None:
    directory.write(0)
    directory.reported()
    directory.write(50)
    assert directory.reported() == [50]


def test_a_folder_that_is_slow_to_list_is_listed_a_small_part_of_the_time(directory: Directory) -> None:
    directory.asked.listing_s = 1.0
    directory.write(0)
    directory.reported()
    directory.write(50)
    assert directory.reported() == []
    directory.clock.now_s += 1.0 / checkpoint_directory.LISTING_SHARE
    assert directory.reported() == [50]


def test_files_that_spark_has_deleted_are_no_news(directory: Directory) -> None:
    directory.write(*range(5))
    directory.reported()
    for number in range(3):
        (directory.offsets / str(number)).unlink()
    assert directory.reported() == []
    directory.write(5)
    assert directory.reported() == [5]


def test_a_recreated_directory_is_read_from_its_start(directory: Directory) -> None:
    directory.write(*range(5))
    directory.reported()
    shutil.rmtree(directory.offsets)
    assert directory.reported() == []
    directory.offsets.mkdir()
    directory.write(0, 1)
    assert directory.reported() == [0, 1]
    directory.write(2)
    assert directory.reported() == [2]


def test_a_new_directory_that_has_come_as_far_is_noticed(directory: Directory) -> None:
    directory.write(*range(3))
    directory.reported()
    shutil.rmtree(directory.offsets)
    directory.offsets.mkdir()
    directory.write(*range(4), text=OFFSETS.replace("5000", "9999"))
    assert directory.reported() == [0, 1, 2, 3]


def test_after_a_restart_only_what_is_not_in_history_is_reported(directory: Directory) -> None:
    directory.write(*range(4))
    known = tuple((number, (directory.offsets / str(number)).stat().st_mtime_ns) for number in range(3))
    directory.log = directory.follow(known)
    assert directory.reported() == [3]


def test_a_half_written_file_is_read_again_and_never_quarantined(directory: Directory) -> None:
    directory.write(0, text=OFFSETS[:20])
    assert directory.log.poll() == []
    directory.write(0)
    assert directory.reported() == [0]
    assert directory.quarantined() == []


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is empty"), ("v9\n{}", "version v9"), ("v1\n{half", "not JSON"), ("v1\n[]", "not a JSON object")],
)
def test_a_malformed_file_is_quarantined_once_and_read_when_it_changes(
    directory: Directory, text: str, says: str
) -> None:
    directory.write(0, 1, text=text)
    directory.write(2)
    assert directory.reported() == [2]
    first, second = directory.quarantined()
    assert says in first
    assert says in second
    assert directory.quarantined() == []
    directory.write(0)
    directory.write(1, text=f"{text} still")
    assert directory.reported() == [0]
    assert directory.quarantined() == []
    directory.write(1)
    assert directory.reported() == [1]


def test_a_file_that_is_missing_at_two_polls_is_told_once(directory: Directory) -> None:
    directory.write(0, 1, 3)
    directory.reported()
    assert directory.log.missing([0, 1, 2]) == []
    (told,) = directory.log.missing([0, 1, 2])
    assert isinstance(told.observation, Quarantined)
    assert (told.position.partition, told.position.offset) == (0, 2)
    assert "offsets/2 is missing: Spark cannot start" in told.observation.error
    assert directory.log.missing([0, 1, 2]) == []


def test_a_file_that_is_seen_late_is_never_missing(directory: Directory) -> None:
    directory.write(0, 1, 3)
    directory.reported()
    assert directory.log.missing([0, 1, 2]) == []
    directory.write(2)
    assert directory.reported() == [2]
    assert directory.log.missing([0, 1, 2]) == []


def test_what_an_earlier_run_quarantined_is_not_quarantined_again(directory: Directory) -> None:
    directory.write(0, text="v9\n{}")
    directory.log = directory.follow(quarantined_before=(0,))
    assert directory.log.poll() + directory.log.poll() == []
    directory.write(0)
    assert directory.reported() == [0]


def test_a_file_that_cannot_be_read_is_tried_again(directory: Directory) -> None:
    directory.write(0, 1)
    directory.asked.broken.add("offsets/0")
    assert directory.reported() == [1]
    directory.asked.broken.clear()
    assert directory.reported() == [0]
    assert directory.quarantined() == []


def test_a_file_that_never_can_be_read_is_quarantined_once_with_the_reason(directory: Directory) -> None:
    directory.write(0)
    directory.asked.broken.add("offsets/0")
    assert directory.quarantined() == []
    (error,) = directory.quarantined()
    assert "offsets/0 cannot be read: connection reset" in error
    assert directory.quarantined() == []
    directory.asked.broken.clear()
    assert directory.reported() == [0]


def test_many_malformed_files_have_their_turn(directory: Directory) -> None:
    directory.write(*range(50), text="v9\n{}")
    assert directory.reported() == []
    assert len(directory.quarantined()) == 50
    directory.write(*range(50))
    reported: list[int] = []
    for _ in range(3):
        reported += directory.reported()
    assert sorted(reported) == list(range(50))


def test_pyarrows_mock_filesystem_which_has_one_time_for_all_files() -> None:
    filesystem = fs._MockFileSystem(datetime(2026, 1, 1, tzinfo=UTC))
    filesystem.create_dir("q/offsets")
    log = CheckpointLog("q", "s", CheckpointFileKind.OFFSETS, CheckpointFolder(filesystem, "q/offsets"), set())
    for number in range(3):
        with filesystem.open_output_stream(f"q/offsets/{number}") as stream:
            stream.write(OFFSETS.encode())
        (seen,) = log.poll()
        assert isinstance(seen.observation, CheckpointFile)
        assert (seen.observation.number, seen.position.offset) == (number, number)


@pytest.mark.parametrize("uri", [str, lambda path: path.as_uri()], ids=["path", "file URI"])
def test_locations_on_this_machine(tmp_path: Path, uri: Callable[[Path], str]) -> None:
    (tmp_path / "a b" / "offsets").mkdir(parents=True)
    (tmp_path / "a b" / "offsets" / "7").write_text(OFFSETS)
    filesystem, path = filesystem_of(uri(tmp_path / "a b"))
    assert [file.number for file in CheckpointFolder(filesystem, f"{path}/offsets").new_files(10)] == [7]


def test_a_location_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ResourceManagerError, match="nope://bucket/path"):
        filesystem_of("nope://bucket/path")
