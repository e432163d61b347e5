"""The contract on files, on this machine and in an S3-compatible store, and what files promise beyond it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from demo.object_store import BUCKET, ObjectStore
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable, ZombieWriter
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RetryLater, Unknown
from indoubt.resource_managers.database.markers import KEPT_BATCHES, MarkerState
from indoubt.resource_managers.files import names
from indoubt.resource_managers.files import transaction as transaction_module
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.resource_manager import FilesResourceManager
from tests.integration.files_fixtures import FilesSink, LocalFiles, S3Files, client, running_store
from tests.integration.resource_manager_contract import LIMIT_S, ResourceManagerContract

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    yield from running_store(tmp_path_factory.mktemp("store"))


class TestLocalFiles(ResourceManagerContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> LocalFiles:
        return LocalFiles(tmp_path)


class TestS3Files(ResourceManagerContract):
    @pytest.fixture
    def sink(self, store: ObjectStore) -> S3Files:
        return S3Files(store)


@pytest.fixture(params=["local", "store"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> FilesSink:
    return LocalFiles(tmp_path) if request.param == "local" else S3Files(request.getfixturevalue("store"))


def in_partitions(sink: FilesSink) -> FilesSink:
    """Have the sink write a file for each word, so that a branch has several."""
    sink.access = FilesAccess(partition_by=("count",), properties=sink.access.properties)
    return sink


def rows_of_counts(**by_word: int) -> pa.RecordBatch:
    return pa.record_batch({"word": list(by_word), "count": list(by_word.values())})


def prepare_two_files(sink: FilesSink) -> Handle:
    transaction = in_partitions(sink).begin()
    transaction.write(rows_of_counts(a=1, b=2))
    handle = transaction.prepare(sink.fingerprint())
    assert len([name for name in sink.names() if name.startswith("_indoubt/branches/")]) == 3, (
        "two files and the manifest"
    )
    return handle


def commit_half(sink: FilesSink, handle: Handle) -> None:
    """Do what a commit has done that dies between its two files: the marker is there, and one file has its name."""
    directory = sink.manager()._open()
    branch = BranchId.parse(handle.transaction)
    assert branch is not None
    manifest = directory.manifest(branch)
    assert manifest is not None
    directory.mark(branch, manifest.checkpoint_id, MarkerState.COMMITTED)
    assert directory.storage.move(names.branch_file(branch, 0), manifest.files[0].target)


def test_a_commit_that_died_between_two_files_is_finished_by_the_next(sink):
    handle = prepare_two_files(sink)
    commit_half(sink, handle)
    assert len(sink.visible()) == 1
    assert sink.commit(handle) == Committed(handle=handle)
    sink.expect("a", "b")
    assert sink.left() == []
    assert sink.commit(handle) == AlreadyCommitted(handle=handle)


def test_a_rollback_of_what_was_half_committed_commits_the_rest(sink):
    handle = prepare_two_files(sink)
    commit_half(sink, handle)
    assert sink.manager().rollback([handle], LIMIT_S) == [AlreadyCommitted(handle=handle)]
    sink.expect("a", "b")
    assert sink.left() == []


def test_a_copy_that_was_made_and_whose_original_stayed_is_no_second_file(store):
    """On an object store a rename is two requests, and the second may be the one that fails."""
    sink = S3Files(store)
    handle = sink.prepare("a")
    client_, key = client(store), f"{sink.path}/_indoubt/branches/{handle.transaction.replace(':', '-')}.0"
    target = f"{sink.path}/part-{handle.transaction.replace(':', '-')}-0.parquet"
    client_.copy_object(Bucket=BUCKET, Key=target, CopySource={"Bucket": BUCKET, "Key": key})
    assert sink.commit(handle) == Committed(handle=handle)
    sink.expect("a")
    assert sink.left() == []


def test_what_was_compacted_before_the_commit_was_finished_is_unknown_never_lost(sink):
    handle = prepare_two_files(sink)
    commit_half(sink, handle)
    (moved,) = [name for name in sink.names() if name.endswith(".parquet")]
    sink.manager()._open().storage.delete(moved)
    outcome = sink.commit(handle)
    assert isinstance(outcome, Unknown)
    assert moved in outcome.reason


def test_a_branch_without_manifest_and_marker_is_unknown_never_lost(sink):
    handle = sink.prepare("a")
    directory = sink.manager()._open()
    directory.remove([name for name in sink.names() if name.startswith("_indoubt/branches/")])
    assert isinstance(sink.commit(handle), Unknown)


def test_a_directory_that_is_away_is_asked_again_and_nothing_is_lost(sink):
    handle = sink.prepare("a")
    storage = sink.manager()._open().storage
    assert storage.move(names.ID, "_indoubt/elsewhere")
    away = FilesResourceManager(f"{sink.where}-not-there", sink.access)
    for manager in (sink.manager(), away):
        (outcome,) = manager.rollback([handle], 0.2)
        assert isinstance(outcome, RetryLater)
        assert "is its storage mounted" in outcome.reason
        with pytest.raises(Unreachable, match="is its storage mounted"):
            manager.identity()
    (outcome,) = away.commit([handle], [sink.marker()], 0.2)
    assert isinstance(outcome, RetryLater)
    assert storage.move("_indoubt/elsewhere", names.ID)
    assert sink.commit(handle) == Committed(handle=handle)


def test_what_a_dead_task_left_is_found_and_removed(sink):
    transaction = in_partitions(sink).begin()
    transaction.write(rows_of_counts(a=1, b=2))
    transaction._made.flush()
    (view,) = sink.manager().recover(sink.prefix)
    assert (view.state, len(sink.left())) == ("Open", 3)
    assert sink.manager().watch(LIMIT_S).list_branches().branches == (), "nothing is in doubt"
    assert sink.manager().fence([view], LIMIT_S) == [""]
    assert sink.left() == []
    with pytest.raises(ResourceManagerError, match="superseded"):
        transaction.prepare(sink.fingerprint())
    assert (sink.left(), sink.visible()) == ([], [])


def test_what_a_zombie_prepares_is_never_committed_by_anothers_handle(sink):
    """It is prepared by a task that no longer counts: no decision lists it, and the next begin removes it."""
    zombie = sink.prepare("a", batch=4, attempt=1)
    live = sink.begin("a", batch=4, attempt=2).prepare(sink.fingerprint("a"))
    assert sink.prepared() == [live.transaction]
    assert sink.commit(live, batch=4, attempt=2) == Committed(handle=live)
    sink.expect("a")
    assert isinstance(sink.commit(zombie, batch=4, attempt=1), Lost)
    sink.expect("a")
    assert sink.left() == []


def test_markers_do_not_grow_and_the_newest_stays(tmp_path):
    sink = LocalFiles(tmp_path)
    for batch in range(3 * KEPT_BATCHES):
        sink.commit(sink.prepare("a", batch=batch), batch=batch)
    batches = sorted(int(name.split(".")[-4]) for name in sink.names() if name.startswith("_indoubt/markers/"))
    assert batches[-1] == 3 * KEPT_BATCHES - 1
    assert len(batches) <= 2 * KEPT_BATCHES + 1
    with pytest.raises(ZombieWriter):
        sink.begin(batch=3 * KEPT_BATCHES - 1)


def test_a_store_that_refuses_for_a_while_is_waited_for(store):
    sink = S3Files(store)
    transaction = sink.begin("a")
    store.disturb("503")
    healing = threading.Timer(4.0, store.heal)
    healing.start()
    try:
        handle = transaction.prepare(sink.fingerprint("a"))
    finally:
        healing.join()
    store.disturb("503")
    try:
        (outcome,) = sink.manager().commit([handle], [sink.marker()], 1.0)
    finally:
        store.heal()
    assert isinstance(outcome, RetryLater)
    assert "503" in outcome.reason or "SLOW_DOWN" in outcome.reason
    assert sink.visible() == []
    assert sink.commit(handle) == Committed(handle=handle)
    sink.expect("a")


def test_files_are_cut_before_they_are_too_large_to_keep_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(transaction_module, "FILE_BYTES", 20)
    sink = LocalFiles(tmp_path)
    transaction = sink.begin()
    for word in ("a", "b", "c"):
        transaction.write(sink.rows(word))
    handle = transaction.prepare(sink.fingerprint("a", "b", "c"))
    sink.commit(handle)
    assert len([name for name in sink.names() if name.endswith(".parquet")]) > 1
    sink.expect("a", "b", "c")


def test_an_unchecked_writer_raises_nothing_and_counts_what_failed(sink):
    writer = sink.manager_without_a_server().begin_without_transaction(DeliveryGuarantee.NONE)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(transaction_module, "PATIENCE_S", 0.1)
        writer.write(sink.rows("a"))
        writer.finish()
    assert writer.rows == 0
    good = sink.manager().begin_without_transaction(DeliveryGuarantee.NONE)
    good.write(sink.rows("a"))
    good.finish()
    assert sink.visible() == ["a"]
