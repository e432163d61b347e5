"""Every step of files' protocol as the last one of a process, or as the one at which it stands still while another goes on.

A process ends before or after each of its requests to the storage, in the middle of a move too, as on an object store. Whoever
comes next has the handle and the decision, if there is one. Then each row is there once, or not at all, and nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RolledBack
from indoubt.resource_managers.files import resource_manager as module
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.resource_manager import FilesResourceManager
from indoubt.resource_managers.protocol import SlotAttempt
from indoubt.resource_managers.storage import LocalStorage

ACCESS = FilesAccess(partition_by=("day",))
ROWS = pa.record_batch({"word": ["a", "b", "c"], "day": ["1", "2", "1"]})
LIMIT_S = 5.0


class Killed(BaseException):
    """The process has ended: nothing of it catches that."""


class Requests:
    """Counts requests, and does something before the one of this number."""

    def __init__(self, number: int, deed: Callable[[], None]) -> None:
        self._number, self._deed = number, deed
        self.seen = 0

    def next(self) -> None:
        if self.seen == self._number:
            self.seen += 1
            self._deed()
        else:
            self.seen += 1


class ObjectStore(LocalStorage):
    """Files of this machine, each request of which is counted; a move is two."""

    def __init__(self, directory: Path, requests: Requests) -> None:
        super().__init__(directory)
        self._requests = requests

    def read(self, name: str) -> bytes | None:
        self._requests.next()
        return super().read(name)

    def exists(self, name: str) -> bool:
        self._requests.next()
        return super().exists(name)

    def files(self, folder: str) -> list[Any]:
        self._requests.next()
        return super().files(folder)

    def write(self, name: str, content: bytes) -> None:
        self._requests.next()
        super().write(name, content)

    def delete(self, name: str) -> None:
        self._requests.next()
        super().delete(name)

    def move(self, name: str, target: str) -> bool:
        content = self.read(name)
        if content is None:
            return False
        self.write(target, content)
        self.delete(name)
        return True


class Store:
    """One directory, and managers of processes that come and go."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self._current: Requests | None = None
        patch.setattr(module, "_storage", lambda where, access: ObjectStore(directory, self._requests()))
        # Nobody else's thread pool: each process is one thread here, so that its requests come in one order.
        patch.setattr(module.settlement, "AT_ONCE", 1)
        self.manager().verify(list(zip(ROWS.schema.names, ROWS.schema.types, strict=True)))

    def _requests(self) -> Requests:
        return self._current or Requests(-1, lambda: None)

    def manager(self) -> FilesResourceManager:
        return FilesResourceManager(str(self.directory), ACCESS)

    def run(self, requests: Requests, deed: Callable[[], Any]) -> Any:
        """Let a process do something whose requests are counted; None when it was killed."""
        self._current = requests
        try:
            return deed()
        except Killed:
            return None
        finally:
            self._current = None

    def prepare(self, attempt: int = 1) -> Handle:
        marker = Marker(batch=0, attempt=attempt, checkpoint_id="c")
        transaction = self.manager().begin(SlotAttempt(prefix="p", slot=0, marker=marker))
        transaction.write(ROWS)
        return transaction.prepare(Fingerprint(rows=3, hash=1))

    def commit(self, handle: Handle, attempt: int = 1) -> Any:
        marker = Marker(batch=0, attempt=attempt, checkpoint_id="c")
        return self.manager().commit([handle], [marker], LIMIT_S)[0]

    def recover(self) -> None:
        """Roll back what is there, as the start of a run does with what no decision lists."""
        manager = self.manager()
        assert not any(manager.fence(manager.recover("p"), LIMIT_S))

    @property
    def seen(self) -> list[str]:
        if not [*self.directory.rglob("*.parquet")]:
            return []
        found = ds.dataset(self.directory, format="parquet", partitioning="hive").to_table()
        return sorted(found["word"].to_pylist())

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "_indoubt/branches").glob("*"))


@pytest.fixture
def store_at(tmp_path, monkeypatch) -> Callable[[int], Store]:
    return lambda number: Store(tmp_path / f"orders-{number}", monkeypatch)


def at_each_request(store_at: Callable[[int], Store], try_: Callable[[Store, Requests, list[str]], None]) -> int:
    """Call ``try_`` with a kill at each request in turn, until there are no more; return how many there were."""
    for number in range(200):
        killed: list[str] = []

        def kill(killed: list[str] = killed) -> None:
            killed.append("killed")
            raise Killed

        requests = Requests(number, kill)
        try_(store_at(number), requests, killed)
        if not killed:
            return number
    raise AssertionError("it never came to its end")


def before_each_request(store_at: Callable[[int], Store], try_: Callable[[Store, int], bool]) -> int:
    """Call ``try_`` for each request in turn until it returns False, because there are no more; return how many there were."""
    return next(number for number in range(200) if not try_(store_at(number), number))


def test_a_task_that_dies_at_any_request_leaves_nothing_that_the_next_try_does_not_end(store_at):
    def try_(store: Store, requests: Requests, killed: list[str]) -> None:
        handle = store.run(requests, store.prepare)
        assert store.seen == []
        again = store.prepare(attempt=2)
        assert store.commit(again, attempt=2) == Committed(handle=again)
        assert (store.seen, store.left) == (["a", "b", "c"], [])
        if handle is not None:
            assert isinstance(store.commit(handle), Lost)
        assert (store.seen, store.left) == (["a", "b", "c"], [])

    assert at_each_request(store_at, try_) > 5


def test_a_task_that_dies_at_any_request_is_swept(store_at):
    def try_(store: Store, requests: Requests, killed: list[str]) -> None:
        store.run(requests, store.prepare)
        store.recover()
        assert (store.seen, store.left) == ([], [])

    assert at_each_request(store_at, try_) > 5


def test_a_commit_that_dies_at_any_request_is_finished_by_the_next(store_at):
    def try_(store: Store, requests: Requests, killed: list[str]) -> None:
        handle = store.prepare()
        store.run(requests, lambda: store.commit(handle))
        assert isinstance(store.commit(handle), Committed | AlreadyCommitted)
        assert (store.seen, store.left) == (["a", "b", "c"], [])

    assert at_each_request(store_at, try_) > 8


def test_a_commit_that_dies_at_any_request_is_never_rolled_back_in_part(store_at):
    """A rollback comes by mistake here: what is decided is never rolled back. Even so all rows are there, or none."""

    def try_(store: Store, requests: Requests, killed: list[str]) -> None:
        handle = store.prepare()
        store.run(requests, lambda: store.commit(handle))
        (outcome,) = store.manager().rollback([handle], LIMIT_S)
        rows = ["a", "b", "c"] if isinstance(outcome, AlreadyCommitted) else []
        assert (store.seen, store.left) == (rows, [])
        assert isinstance(store.commit(handle), AlreadyCommitted if rows else Lost)

    assert at_each_request(store_at, try_) > 8


def test_a_rollback_that_dies_at_any_request_is_finished_by_the_next(store_at):
    def try_(store: Store, requests: Requests, killed: list[str]) -> None:
        handle = store.prepare()
        store.run(requests, lambda: store.manager().rollback([handle], LIMIT_S))
        assert store.manager().rollback([handle], LIMIT_S) == [RolledBack(handle=handle)]
        assert (store.seen, store.left) == ([], [])
        assert isinstance(store.commit(handle), Lost)
        assert (store.seen, store.left) == ([], [])

    assert at_each_request(store_at, try_) > 5


def test_two_who_commit_at_once_stand_in_each_others_way_nowhere(store_at):
    """One stands still before each of its requests in turn, while the other does all of it."""

    def try_(store: Store, number: int) -> bool:
        handle = store.prepare()
        met: list[Any] = []

        def meanwhile() -> None:
            store._current = None
            met.append(store.commit(handle))
            assert (store.seen, store.left) == (["a", "b", "c"], [])
            store._current = requests

        requests = Requests(number, meanwhile)
        outcome = store.run(requests, lambda: store.commit(handle))
        assert isinstance(outcome, Committed | AlreadyCommitted)
        assert (store.seen, store.left) == (["a", "b", "c"], [])
        return bool(met)

    assert before_each_request(store_at, try_) > 8


def test_a_task_that_stands_still_anywhere_while_a_later_attempt_does_its_batch_shows_nothing(store_at):
    def try_(store: Store, number: int) -> bool:
        met: list[Handle] = []

        def meanwhile() -> None:
            store._current = None
            handle = store.prepare(attempt=2)
            assert store.commit(handle, attempt=2) == Committed(handle=handle)
            met.append(handle)
            store._current = requests

        requests = Requests(number, meanwhile)
        try:
            zombie = store.run(requests, store.prepare)
        except IndoubtError:
            zombie = None
        if not met:
            return False
        assert store.seen == ["a", "b", "c"]
        store.recover()
        assert (store.seen, store.left) == (["a", "b", "c"], [])
        if zombie is not None:
            assert isinstance(store.commit(zombie), Lost)
            assert store.seen == ["a", "b", "c"]
        return True

    assert before_each_request(store_at, try_) > 5


def test_of_a_preparing_task_and_one_that_takes_its_slot_one_sees_the_other(store_at):
    """Whatever the task does at that moment, afterwards nothing of it is prepared."""

    def try_(store: Store, number: int) -> bool:
        met: list[str] = []

        def meanwhile() -> None:
            store._current = None
            marker = Marker(batch=0, attempt=2, checkpoint_id="c")
            met.append(str(store.manager().begin(SlotAttempt(prefix="p", slot=0, marker=marker))._branch))
            store._current = requests

        requests = Requests(number, meanwhile)
        try:
            store.run(requests, store.prepare)
            superseded = False
        except IndoubtError:
            superseded = True
        if not met:
            return False
        prepared = [name for name in store.left if name.endswith(".prepared")]
        # Where it had looked for its sign already, it was prepared before, and the other has removed it.
        assert prepared == [], (number, superseded, store.left)
        return True

    assert before_each_request(store_at, try_) > 5
