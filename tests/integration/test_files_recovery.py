"""Files under the pipeline's recovery, sweep and replay, without Spark: what a run left is committed once or removed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.identity import Marker
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration.protocol_run import (
    ProtocolRun,
    ProtocolSinks,
    Stopped,
    finish,
    protocol_sinks,
    rows,
    spark_checkpoint,
    stop_at,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def sinks(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


@pytest.fixture
def directory(tmp_path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def start(sinks: ProtocolSinks, directory: Path) -> Callable[..., ProtocolRun]:
    """Return what starts a run that writes to files."""

    def start(**changes: Any) -> ProtocolRun:
        return sinks.run(**{"sink": f"files:{directory}", **changes})

    return start


def seen(directory: Path) -> Counter[bytes]:
    if not [*directory.rglob("*.parquet")]:
        return Counter()
    found = duckdb.execute("select value from read_parquet($1)", [f"{directory}/**/*.parquet"]).fetchall()
    return Counter(value for (value,) in found)


def hidden(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "_indoubt/branches").iterdir())


@pytest.mark.parametrize("point", [CrashPoint.AFTER_PREPARE, CrashPoint.AFTER_DECISION])
def test_what_was_decided_is_committed_and_the_rest_removed_by_the_next_start(start, directory, monkeypatch, point):
    run = start()
    messages = [run.slot(slot, b"%d" % slot) for slot in range(2)]
    stop_at(monkeypatch, point)
    with pytest.raises(Stopped):
        run.commit(*messages)
    assert seen(directory) == Counter()
    assert len(hidden(directory)) == 4
    following = start()
    decided = point is CrashPoint.AFTER_DECISION
    assert (following.recovered.committed, following.recovered.rolled_back) == ((2, 0) if decided else (0, 2))
    assert seen(directory) == (Counter([b"0", b"1"]) if decided else Counter())
    assert hidden(directory) == []


def test_what_a_task_left_that_died_while_it_wrote_is_swept_while_the_run_goes_on(start, directory, sinks):
    run = start()
    managers = run.managers
    marker = Marker(batch=0, attempt=run.options.attempt, checkpoint_id=run.options.checkpoint_id)
    dead = managers.begin(SlotAttempt(prefix=sinks.prefix, slot=1, marker=marker))
    dead.write(rows(b"never"))
    assert run.recovery.sweep_unused(run.options.attempt) == 0, "it may be of the batch under way"
    finish(sinks, run, b"0", batch=0)
    assert len(hidden(directory)) == 1
    assert run.recovery.sweep_unused(run.options.attempt) == 1
    assert hidden(directory) == []
    assert seen(directory) == Counter([b"0"])


def test_a_sweep_after_the_end_removes_what_is_undecided(start, directory):
    run = start()
    run.slot(0, b"0")
    spark_checkpoint(Path(run.settings.checkpoint), planned=0, committed=-1)
    assert run.recovery.sweep() == 1
    assert (hidden(directory), seen(directory)) == ([], Counter())


def test_a_directory_that_was_made_again_is_refused(start, directory, sinks):
    finish(sinks, start(), b"0", batch=0)
    shutil.rmtree(directory)
    with pytest.raises(
        SettingsError, match=r"directory of sink .* is another one than before .*remove \"files\" from \"sinks\""
    ):
        start()


def test_a_directory_under_another_name_is_the_same_sink(start, directory, sinks):
    first = start()
    finish(sinks, first, b"0", batch=0)
    second = start(sink=f"files:file://{directory}/.")
    assert second.options.checkpoint_id == first.options.checkpoint_id
    finish(sinks, second, b"1", batch=1)
    assert seen(directory) == Counter([b"0", b"1"])


def test_another_sink_is_refused_while_files_are_decided_and_finishes_them_first(start, directory, sinks, monkeypatch):
    run = start()
    message = run.slot(0, b"0")
    stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(message)
    with pytest.raises(SettingsError, match="its last batch is unfinished"):
        start(sink=sinks.sinks.topic)
    start()
    assert seen(directory) == Counter([b"0"])


def test_what_only_the_topic_lost_is_replayed_only_into_the_topic(start, directory, sinks, monkeypatch):
    both = f"{sinks.sinks.topic},files:{directory}"
    run = start(sink=both)
    message = run.slot(0, b"0")
    stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(message)
    run.roll_back(*[handle for handle in message.handles if handle.resource_manager == "kafka"])
    following = start(sink=both)
    assert (following.recovered.committed, following.recovered.lost) == (1, 1)
    again = following.slot(0, b"0")
    assert [handle.resource_manager for handle in again.handles] == ["kafka"]
    following.commit(again)
    sinks.expect(b"0", pending=0)
    assert seen(directory) == Counter([b"0"])


def test_json_lines_are_what_the_settings_say(start, directory, sinks):
    finish(sinks, start(files_format="jsonl"), b"0", batch=0)
    (file,) = directory.glob("*.jsonl")
    assert file.read_text() == '{"value": "MA=="}\n'
