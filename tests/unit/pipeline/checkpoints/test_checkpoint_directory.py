"""The checkpoint id of a checkpoint directory, what Spark's files say, and errors that name the directory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.errors import CheckpointUnwritable, MalformedRecord, SettingsError
from indoubt.pipeline.checkpoints.checkpoint_directory import (
    FILE,
    LOCK,
    TAKE_OVER,
    CheckpointDirectory,
    CheckpointIdentity,
    SparkProgress,
    check_history,
)
from indoubt.pipeline.config.settings import PipelineSettings
from tests.unit.lifecycle.decision_records import decision, run
from tests.unit.lifecycle.ledgers import fold

CHECKPOINT_ID = CheckpointIdentity(
    checkpoint_id="L", prefix="p", sink="out", decisions="log", location="file:///a", sources={"in": ["i"]}
)


def directory(path: str) -> CheckpointDirectory:
    settings = {"job": "passthrough", "bootstrap_servers": "h:1", "checkpoint": path, "prefix": "p", "source": "in"}
    return CheckpointDirectory.open(PipelineSettings.read(settings | {"sink": "out"}))


def test_a_checkpoint_id_is_kept_as_it_was_made(tmp_path):
    first = directory(str(tmp_path / "c"))
    assert first.read() is None
    assert first.create(CHECKPOINT_ID)
    assert first.read() == CHECKPOINT_ID
    assert not first.replace(replace(CHECKPOINT_ID, prefix="q"), CHECKPOINT_ID)
    assert first.replace(CHECKPOINT_ID, replace(CHECKPOINT_ID, prefix="q"))
    assert directory(f"file://{tmp_path}/c").read() == replace(CHECKPOINT_ID, prefix="q")
    assert {file.name for file in (tmp_path / "c").iterdir()} == {FILE, LOCK}, "no drafts are left"


def at_once(deeds: list[Callable[[], object]]) -> list[object]:
    """Return what each of these returned; they all began at the same moment."""
    together = threading.Barrier(len(deeds))

    def run(deed: Callable[[], object]) -> object:
        together.wait(10)
        return deed()

    with ThreadPoolExecutor(len(deeds)) as pool:
        return [answer.result(10) for answer in [pool.submit(run, deed) for deed in deeds]]


def test_of_many_first_starts_at_once_one_makes_the_checkpoint_id(tmp_path):
    wanted = [replace(CHECKPOINT_ID, checkpoint_id=str(number)) for number in range(8)]
    made = at_once([partial(directory(str(tmp_path)).create, checkpoint_id) for checkpoint_id in wanted])
    assert [directory(str(tmp_path)).read()] == [
        checkpoint_id for checkpoint_id, done in zip(wanted, made, strict=True) if done
    ]


def test_of_many_who_replace_a_checkpoint_id_at_once_one_does(tmp_path):
    assert directory(str(tmp_path)).create(CHECKPOINT_ID)
    wanted = [replace(CHECKPOINT_ID, checkpoint_id=str(number)) for number in range(8)]
    made = at_once(
        [partial(directory(str(tmp_path)).replace, CHECKPOINT_ID, checkpoint_id) for checkpoint_id in wanted]
    )
    assert [directory(str(tmp_path)).read()] == [
        checkpoint_id for checkpoint_id, done in zip(wanted, made, strict=True) if done
    ]


def test_unwritable_directory_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointUnwritable, match=str(tmp_path / "file" / "c")):
        directory(str(tmp_path / "file" / "c"))


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"checkpoint_id": 1}'])
def test_a_damaged_checkpoint_id_file_is_refused_not_replaced(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(MalformedRecord, match=FILE):
        directory(str(tmp_path)).read()
    assert (tmp_path / FILE).read_text() == content


def test_a_directory_can_be_given_to_us_by_hand(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(TAKE_OVER))
    found = directory(str(tmp_path)).read()
    assert found is not None
    assert found.is_taken_over
    assert not CHECKPOINT_ID.is_taken_over


def test_unfinished_is_a_batch_that_is_planned_and_not_in_the_commit_log(tmp_path):
    mine = directory(str(tmp_path))
    assert mine.progress() == SparkProgress(planned=None, finished=None)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    assert mine.progress() == SparkProgress(planned=None, finished=None)
    for name in ("9", "10", ".11.tmp", ".10.crc"):
        (tmp_path / "offsets" / name).write_text("")
    (tmp_path / "commits" / "9").write_text("")
    assert mine.progress() == SparkProgress(planned=10, finished=9)
    assert mine.progress().unfinished == 10
    (tmp_path / "commits" / "10").write_text("")
    assert mine.progress().unfinished is None


def test_a_file_that_appears_between_two_polls_finishes_no_batch(tmp_path, monkeypatch):
    """Batch 3 is finished and 4 planned while Spark's files are read."""
    listed: list[str] = []
    monkeypatch.setattr(
        CheckpointDirectory,
        "numbers",
        lambda self, folder: listed.append(folder) or {"offsets": [3, 4]}.get(folder, [2]),
    )
    assert directory(str(tmp_path)).progress().unfinished == 4
    assert listed == ["commits", "offsets"]


def ledger_of(*batches: int) -> DecisionLedger:
    return fold(enumerate([run(), *(decision(0, batch=batch, handles=()) for batch in batches)]))


@pytest.mark.parametrize(
    ("planned", "finished", "decided"),
    [(None, None, ()), (0, None, ()), (4, 4, (3, 4)), (4, 3, (3, 4)), (5, 4, (3, 4)), (9, 9, (4,))],
)
def test_a_directory_at_or_ahead_of_its_log_goes_on(tmp_path, planned, finished, decided):
    location = directory(str(tmp_path)).location
    check_history(location, CHECKPOINT_ID, SparkProgress(planned=planned, finished=finished), ledger_of(*decided))


@pytest.mark.parametrize("planned", [None, 0, 3])
def test_a_directory_older_than_its_log_is_refused_with_the_batch(tmp_path, planned):
    progress = SparkProgress(planned=planned, finished=planned)
    with pytest.raises(
        SettingsError, match=r"batch 4 was decided.*planned in it is (none|0|3).*offsets/4 in it"
    ) as told:
        check_history(directory(str(tmp_path)).location, CHECKPOINT_ID, progress, ledger_of(3, 4))
    assert "A new directory would write every row of the source again" in str(told.value)


@pytest.mark.parametrize(("finished", "what"), [(4, "batch 4, the last one, is finished"), (3, "how much of batch 4")])
def test_a_log_that_does_not_know_a_used_directory_is_refused(tmp_path, finished, what):
    location = directory(str(tmp_path)).location
    with pytest.raises(SettingsError, match=rf"'log' does not know checkpoint directory .*{what}"):
        check_history(location, CHECKPOINT_ID, SparkProgress(planned=4, finished=finished), DecisionLedger())
    check_history(location, CHECKPOINT_ID, SparkProgress(planned=None, finished=None), DecisionLedger())
