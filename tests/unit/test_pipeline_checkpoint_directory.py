"""The life of a checkpoint directory, and errors that name the directory."""

from __future__ import annotations

import pytest

from lifecycle.errors import CheckpointUnwritable, SettingsError
from pipeline.checkpoint_directory import FILE, has_unfinished_batch, open_checkpoint


def test_life_is_made_once_and_kept(tmp_path):
    first, new = open_checkpoint(str(tmp_path / "c"), "p", "out", "decisions")
    again, new_again = open_checkpoint(str(tmp_path / "c"), "p", "out", "decisions")
    assert (new, new_again) == (True, False)
    assert first == again
    other, _ = open_checkpoint(str(tmp_path / "d"), "p", "out", "decisions")
    assert other.life != first.life


def test_unwritable_directory_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointUnwritable, match=str(tmp_path / "file" / "c")):
        open_checkpoint(str(tmp_path / "file" / "c"), "p", "out", "decisions")


def test_damaged_life_file_is_refused_not_replaced(tmp_path):
    (tmp_path / FILE).write_text("{")
    with pytest.raises(SettingsError, match="not an indoubt life file"):
        open_checkpoint(str(tmp_path), "p", "out", "decisions")
    assert (tmp_path / FILE).read_text() == "{"


def test_unfinished_batch_is_one_planned_and_not_in_the_commit_log(tmp_path):
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    assert not has_unfinished_batch(str(tmp_path))
    (tmp_path / "offsets" / "0").write_text("")
    (tmp_path / "offsets" / ".1.tmp").write_text("")
    assert has_unfinished_batch(str(tmp_path))
    (tmp_path / "commits" / "0").write_text("")
    assert not has_unfinished_batch(str(tmp_path))
