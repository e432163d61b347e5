"""What both kinds of storage do with files of a directory; the one for others' filesystems over this machine's."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyarrow import fs

from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from indoubt.resource_managers.storage import LocalStorage, RemoteStorage, Storage, patiently


@pytest.fixture(params=["local", "remote"])
def storage(request, tmp_path) -> Storage:
    if request.param == "local":
        return LocalStorage(tmp_path / "orders")
    return RemoteStorage(fs.LocalFileSystem(), f"{tmp_path}/orders", where="remote")


def test_a_file_is_written_whole_and_over_what_was_there(storage):
    assert (storage.read("a/b"), storage.exists("a/b"), storage.files("a")) == (None, False, [])
    for content in (b"first", b"second", b""):
        storage.write("a/b", content)
        assert (storage.read("a/b"), storage.exists("a/b")) == (content, True)
    storage.write("a/c", b"123")
    assert sorted((file.name, file.size) for file in storage.files("a")) == [("b", 0), ("c", 3)]
    assert storage.files("") == [], "folders are no files"


def test_a_file_gets_another_name_once(storage):
    storage.write("_hidden/0", b"rows")
    assert storage.move("_hidden/0", "day=1/part-0")
    assert not storage.move("_hidden/0", "day=1/part-0")
    assert (storage.read("day=1/part-0"), storage.files("_hidden")) == (b"rows", [])


def test_gone_is_gone(storage):
    storage.write("a", b"")
    storage.delete("a")
    storage.delete("a")
    assert not storage.exists("a")


def test_what_the_filesystem_refuses_names_directory_and_file(storage, tmp_path):
    (tmp_path / "orders").write_bytes(b"a file, no directory")
    with pytest.raises(ResourceManagerError, match=r"cannot write a/b: ") as refused:
        storage.write("a/b", b"")
    assert str(refused.value).startswith(storage.where)
    assert not isinstance(refused.value, Unreachable)


def test_files_and_folders_are_synced(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), real(handle))
    )
    storage = LocalStorage(tmp_path)
    storage.write("a/b", b"rows")
    folder, draft, last = synced
    assert (folder, last) == (str(tmp_path), f"{tmp_path}/a")
    assert re.fullmatch(rf"{tmp_path}/a/_b\.[0-9a-f]{{8}}\.draft", draft)
    synced.clear()
    storage.move("a/b", "day=1/part")
    assert synced == [str(tmp_path), f"{tmp_path}/day=1", f"{tmp_path}/a"]


def test_a_draft_where_readers_look_has_a_name_that_they_skip(tmp_path, monkeypatch):
    seen = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.extend(os.listdir(tmp_path)), real(handle)))
    LocalStorage(tmp_path).write("part-0.parquet", b"rows")
    assert re.fullmatch(r"_part-0\.parquet\.[0-9a-f]{8}\.draft", seen[0])


def test_patience_is_for_what_may_pass(monkeypatch):
    tries = []

    def refuse(error, times):
        tries.append(1)
        if len(tries) <= times:
            raise error
        return "done"

    assert patiently(lambda: refuse(Unreachable("503"), 2), 5.0) == "done"
    tries.clear()
    with pytest.raises(Unreachable):
        patiently(lambda: refuse(Unreachable("503"), 99), 0.2)
    tries.clear()
    with pytest.raises(ResourceManagerError, match="denied"):
        patiently(lambda: refuse(ResourceManagerError("denied"), 1), 5.0)
    assert len(tries) == 1


def test_many_who_write_one_file_at_once_all_succeed(storage):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: storage.write("a/b", b"same"), range(100)))
    assert [file.name for file in storage.files("a")] == ["b"]
    assert storage.read("a/b") == b"same"
