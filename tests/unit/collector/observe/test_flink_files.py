"""Which files are told of as hidden, how their ends are seen, and what is said of those that cannot be looked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.act.orders.file_participant import FileParticipant
from indoubt.collector.history.store import Store
from indoubt.collector.observe import flink_files
from indoubt.collector.observe.flink_file_store import FileStore
from indoubt.collector.observe.flink_files import FlinkFiles
from indoubt.collector.records.flink_job_facts import PATH_SKEW_MS
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkStatus, ListedFile, SinkCommits
from indoubt.collector.records.formats.pending_files import FileSeen, PendingFile, Standing
from indoubt.collector.records.observations import Observed, Position
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api import partition_metrics
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER

JOB, OVERDUE_MS = "a" * 32, 1_500
CONTENT = "order 1\n"


class Watched:
    """A collector's state, the observer of its files, and a directory that a FileSink writes to."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.current = CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.files = FlinkFiles(
            self.current, store, CLUSTER, interval_ms=0, remote_interval_ms=0, overdue_ms=OVERDUE_MS
        )

    def file(self, number: int = 0, *, hidden: bool = True) -> PendingFile:
        """Return a file of the sink, which is hidden or visible."""
        name = f"part-1-{number}"
        file = PendingFile(
            target=f"{self.directory}/{name}", size=len(CONTENT), temporary=f"{self.directory}/.{name}.inprogress.7",
            checkpoint_id=3, sink="files",
        )  # fmt: skip
        Path(file.temporary if hidden else file.target).write_text(CONTENT)
        return file

    def list(self, *files: PendingFile, ago_ms: int = OVERDUE_MS, number: int = 3, **fields: Any) -> None:
        """Have a checkpoint list them, whose list was read so long ago."""
        read_ms = now_ms() - ago_ms
        listed = FlinkCommittables(
            cluster=CLUSTER, job=JOB, number=number, path=f"/c/{JOB}/chk-{number}", kind=None, written_ms=read_ms,
            read_ms=read_ms, committables=frozenset(ListedFile(file.target) for file in files), files=files,
            sinks=(SinkCommits("files", "files", len(files)),),
        )  # fmt: skip
        self.current.flink.see_committables([replace(listed, **fields)])

    def seen(self, file: PendingFile) -> Judged | None:
        """Return what is known of a file after a look."""
        self.files.look()
        return self.current.transactions.find(f"file_sink:{file.target}@{CLUSTER}-file_sink")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        yield Watched(store, tmp_path / "orders")


def test_a_file_that_stays_hidden_is_told_of_and_one_that_is_made_visible_at_once_is_not(watched: Watched) -> None:
    hidden, visible, young = watched.file(0), watched.file(1, hidden=False), watched.file(2)
    watched.list(hidden, visible)
    watched.list(young, ago_ms=0, number=4)
    found = watched.seen(hidden)
    assert found is not None
    assert (found.view.state, found.view.flink_checkpoint) == (TransactionState.PREPARED, 3)
    assert watched.seen(visible) is None
    assert watched.seen(young) is None, "its job may be at it"
    (row,) = watched.current.flink.commits_of_sinks()[JOB, 3]
    assert (row.commits, row.visible, row.hidden, row.missing) == (2, 1, 1, 0)
    assert watched.files.status.records == 1, "it is told of once"
    (metrics,) = partition_metrics.see_databases(watched.current)
    assert (metrics.instance, metrics.prepared) == (f"{CLUSTER}-file_sink", 1)


def test_its_end_is_seen(watched: Watched) -> None:
    made, lost = watched.file(0), watched.file(1)
    watched.list(made, lost)
    assert watched.seen(made)
    Path(made.temporary).rename(made.target)
    Path(lost.temporary).unlink()
    found = watched.seen(made)
    assert found is not None
    assert found.view.state is TransactionState.COMMITTED
    found = watched.current.transactions.find(f"file_sink:{lost.target}@{CLUSTER}-file_sink")
    assert found is not None
    assert found.view.state is TransactionState.PREPARED, "two looks must miss it"
    found = watched.seen(lost)
    assert found is not None
    assert found.view.state is TransactionState.ABORTED


def test_a_file_that_was_never_seen_is_not_told_of(watched: Watched) -> None:
    missing = watched.file()
    Path(missing.temporary).unlink()
    watched.list(missing)
    for _ in range(3):
        assert watched.seen(missing) is None
    (row,) = watched.current.flink.commits_of_sinks()[JOB, 3]
    assert (row.visible, row.hidden, row.missing) == (0, 0, 1)


def test_what_cannot_be_looked_for_is_said_and_stays_as_it_was(watched: Watched) -> None:
    hidden = watched.file()
    watched.list(hidden)
    assert watched.seen(hidden)
    shutil.rmtree(watched.directory)
    found = watched.seen(hidden)
    assert found is not None
    assert "is it mounted here" in found.view.not_asked
    assert found.view.state is TransactionState.PREPARED
    assert "1 file cannot be looked for, the last of them" in watched.files.note


def test_what_is_unclear_is_said(watched: Watched) -> None:
    cut = watched.file()
    watched.list(replace(cut, size=99))
    assert watched.seen(cut) is None
    assert "cannot be told, the last of them" in watched.files.note
    assert "it is hidden with 8 bytes, and 99 were written" in watched.files.note


def test_a_commit_that_two_snapshots_add_is_said(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    once, twice = watched.file(), watched.file(1)
    answers = {once.target: "", twice.target: "snapshots 7, 8 add it"}
    monkeypatch.setattr(
        FileStore, "look", lambda _, file: FileSeen(standing=Standing.VISIBLE, why=answers[file.target])
    )
    watched.list(once, twice)
    watched.files.look()
    assert watched.files.note == f"1 file may be there twice, the last of them {twice.target}: snapshots 7, 8 add it"


def test_one_whose_list_is_forgotten_is_still_seen_visible(watched: Watched) -> None:
    hidden = watched.file()
    watched.list(hidden)
    assert watched.seen(hidden)
    watched.current.flink.see_gone(CLUSTER, [f"/c/{JOB}/chk-3"])
    found = watched.seen(hidden)
    assert found is not None
    assert found.view.state is TransactionState.PREPARED
    Path(hidden.temporary).rename(hidden.target)
    found = watched.seen(hidden)
    assert found is not None
    assert found.view.state is TransactionState.COMMITTED


def test_an_order_finds_only_what_is_hidden_now_and_acts_on_that_alone(watched: Watched) -> None:
    hidden = watched.file()
    watched.list(hidden)
    found = watched.seen(hidden)
    assert found is not None
    participant = FileParticipant(watched.current.flink)
    (target,) = participant.find_open([found.view])
    assert target is not None
    assert (
        participant.description(Action.COMMIT, target) == f"rename of {hidden.temporary} to {hidden.target} (8 bytes)"
    )
    assert participant.description(Action.ABORT, target) == f"removal of {hidden.temporary}"
    assert participant.commit_open([target], 1.0) == [""]
    assert Path(hidden.target).read_text() == CONTENT
    assert participant.find_open([found.view]) == [None]
    for act in (participant.commit_open, participant.fence):
        (error,) = act([target], 1.0)
        assert f"{hidden.target} is {Standing.VISIBLE.value} now" in error

    other = watched.file(1)
    watched.list(other)
    found = watched.seen(other)
    assert found is not None
    (target,) = participant.find_open([found.view])
    assert target is not None
    assert participant.fence([target], 1.0) == [""]
    assert not Path(other.temporary).exists()


def test_what_no_checkpoint_names_is_told_of_and_removed_by_an_order(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flink_files, "LISTED_EVERY_S", 0.0)
    left, buckets = watched.file(0), frozenset({str(watched.directory)})
    watched.list(ago_ms=500, buckets=buckets)
    assert watched.seen(left) is None, "no completed checkpoint tells"
    open_ = watched.file(1)
    # As if the next checkpoint was taken 31 s after the first was seen.
    at_ms = now_ms() + PATH_SKEW_MS + 1_000
    path = f"/c/{JOB}/chk-4"
    done = checkpoint(4, FlinkStatus.COMPLETED, job=JOB, path=path, triggered_ms=at_ms - 500, ended_ms=at_ms)
    told = [job(JOB), done]
    positions = [Position(source="flink", partition=0, offset=offset) for offset in range(len(told))]
    watched.files.arrived(
        [Observed(position=place, observation=seen) for place, seen in zip(positions, told, strict=True)]
    )
    monkeypatch.setattr(flink_files, "now_ms", lambda: at_ms)
    watched.list(number=4, buckets=buckets, written_ms=at_ms - 100)
    found = watched.seen(left)
    assert found is not None
    assert (found.judgement.rule, found.judgement.verdict, found.judgement.may_abort) == (38, Verdict.ABORT_IT, True)
    assert watched.seen(open_) is None, "it was begun since"

    participant = FileParticipant(watched.current.flink)
    (target,) = participant.find_open([found.view])
    assert target is not None
    assert "no checkpoint says how many bytes" in participant.commit_open([target], 1.0)[0]
    assert participant.fence([target], 1.0) == [""]
    assert not Path(left.temporary).exists()
    for _ in range(2):
        found = watched.seen(left)
    assert found is not None
    assert found.view.state is TransactionState.ABORTED


def test_one_that_no_list_names_is_not_acted_on(watched: Watched) -> None:
    hidden = watched.file()
    watched.list(hidden)
    found = watched.seen(hidden)
    assert found is not None
    forgotten = CurrentState(watched.files.current._store, settled_kept=1, checkpoints_kept=1, limits=Limits())
    with pytest.raises(ResourceManagerError, match="no checkpoint that was read lists"):
        FileParticipant(forgotten.flink).find_open([found.view])
