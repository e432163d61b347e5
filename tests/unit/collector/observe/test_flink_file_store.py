"""Files of a FileSink on this machine: how they stand, and what is done to them only while they are hidden."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indoubt.collector.observe import flink_file_store
from indoubt.collector.observe.flink_file_store import FileStore
from indoubt.collector.records.formats.pending_files import PendingFile, Standing
from indoubt.lifecycle.errors import ResourceManagerError

CONTENT = b"order 1\n"


def file_in(directory: Path, **fields: object) -> PendingFile:
    given = {"size": len(CONTENT), "temporary": f"{directory}/.part-1-0.inprogress.7", **fields}
    return PendingFile(target=f"{directory}/part-1-0", **given)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> PendingFile:
    """A file that is hidden."""
    hidden = file_in(tmp_path)
    Path(hidden.temporary).write_bytes(CONTENT)
    return hidden


def visible(file: PendingFile) -> None:
    os.rename(file.temporary, file.target)


def removed(file: PendingFile) -> None:
    os.unlink(file.temporary)


def with_more(file: PendingFile) -> None:
    Path(file.temporary).write_bytes(CONTENT + b"of a task that went on")


def linked(file: PendingFile) -> None:
    os.link(file.temporary, file.target)


def both(file: PendingFile) -> None:
    Path(file.target).write_bytes(CONTENT)


def cut(file: PendingFile) -> None:
    Path(file.temporary).write_bytes(CONTENT[:-1])


def overwritten(file: PendingFile) -> None:
    visible(file)
    Path(file.target).write_bytes(b"another")


def untouched(file: PendingFile) -> None:
    """Leave it."""


@pytest.mark.parametrize(
    ("became", "standing", "why"),
    [
        (untouched, Standing.HIDDEN, ""),
        (with_more, Standing.HIDDEN, ""),
        (visible, Standing.VISIBLE, ""),
        # A rename that ended between its two steps.
        (linked, Standing.VISIBLE, ""),
        (removed, Standing.MISSING, ""),
        (both, Standing.UNCLEAR, "visible and hidden"),
        (cut, Standing.UNCLEAR, "it is hidden with 7 bytes, and 8 were written"),
        (overwritten, Standing.UNCLEAR, "it is visible with 7 bytes, and 8 were written"),
    ],
)
def test_how_a_file_stands(
    file: PendingFile, became: Callable[[PendingFile], None], standing: Standing, why: str
) -> None:
    became(file)
    store = FileStore()
    seen = store.look(file)
    assert (seen.standing, why in seen.why) == (standing, True)
    if standing is Standing.HIDDEN:
        store.make_visible(file)
        assert Path(file.target).read_bytes() == CONTENT, "what was written behind it is cut off"
        assert not Path(file.temporary).exists()
    for act in (store.make_visible, store.remove):
        before = sorted(Path(file.target).parent.iterdir())
        with pytest.raises(ResourceManagerError, match=f"{file.target} is {store.look(file).standing.value} now"):
            act(file)
        assert sorted(Path(file.target).parent.iterdir()) == before


def test_a_hidden_file_is_removed(file: PendingFile) -> None:
    FileStore().remove(file)
    assert FileStore().look(file).standing is Standing.MISSING


def test_where_links_cannot_be_made_it_is_renamed(file: PendingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(flink_file_store.os, "link", refuse)
    FileStore().make_visible(file)
    assert Path(file.target).read_bytes() == CONTENT


def test_a_list_that_names_other_files_moves_none(tmp_path: Path) -> None:
    secret = tmp_path / "other" / "secret"
    secret.parent.mkdir()
    secret.write_bytes(CONTENT)
    for temporary in (str(secret), f"{tmp_path}/.part-1-0.inprogress.7/../other/secret", f"{tmp_path}/part-2-0"):
        named = file_in(tmp_path, temporary=temporary)
        assert "none of Flink's names" in FileStore().look(named).why
        with pytest.raises(ResourceManagerError):
            FileStore().make_visible(named)
    assert secret.read_bytes() == CONTENT


def test_what_is_no_plain_file_is_not_touched(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    Path(file.temporary).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResourceManagerError, match="is no regular file"):
        FileStore().look(file)


def test_a_directory_that_is_not_mounted_here_says_nothing_of_its_files(tmp_path: Path) -> None:
    with pytest.raises(ResourceManagerError, match="is it mounted here"):
        FileStore().look(file_in(tmp_path / "mount"))


def test_of_a_store_whose_way_is_not_known_only_what_is_visible_is_told(tmp_path: Path) -> None:
    file = file_in(tmp_path, temporary="")
    assert FileStore().look(file).why == "it is not visible, and what makes it so is not known here"
    Path(file.target).write_bytes(CONTENT)
    assert FileStore().look(file).standing is Standing.VISIBLE


def test_files_elsewhere_are_not_touched() -> None:
    file = PendingFile(target="hdfs://name/orders/part-1", size=1, temporary="hdfs://name/orders/.part-1.inprogress.1")
    for act in (FileStore().make_visible, FileStore().remove):
        with pytest.raises(ResourceManagerError, match="neither on this machine nor in S3"):
            act(file)
