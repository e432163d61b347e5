"""What is read of Flink's high-availability store in a real ZooKeeper: nodes as Flink makes them, and what is refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from indoubt.collector.config.flink_store import StoreAccess, StoreAddress
from indoubt.collector.history.store import Store
from indoubt.collector.observe.flink_store import FlinkHighAvailability
from indoubt.collector.observe.flink_store_in_zookeeper import ZooKeeper, in_zookeeper, read_store
from indoubt.collector.records.flink_stores import FlinkStore
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from tests.integration.kafka_fixtures import wait_until
from tests.integration.zookeeper_server import ZooKeeperServer

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(300)]
JOB, OTHER = "a" * 32, "b" * 32


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def flink(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """Yield the session of a JobManager."""
    client = server.client()
    yield client
    client.stop()


@pytest.fixture
def path() -> str:
    """Return the path of a Flink cluster of the test's own."""
    return f"/flink/{uuid.uuid4().hex[:8]}"


def node(path: str, number: int, job: str = JOB) -> str:
    return f"{path}/jobs/{job}/checkpoints/{number:019d}"


def store(client: KazooClient, path: str, number: int, job: str = JOB, lock: str = "locks/4f1d") -> str:
    """Have a JobManager store a checkpoint, and hold it; return where."""
    at = node(path, number, job)
    client.create(at, b"\xac\xed\x00\x05", makepath=True)
    client.create(f"{at}/{lock}", ephemeral=True, makepath=True)
    return at


def seen(server: ZooKeeperServer, path: str, access: StoreAccess | None = None) -> FlinkStore | None:
    with ZooKeeper(StoreAddress(hosts=server.address, path=path, access=access)) as zookeeper:
        return read_store(zookeeper, path)


@pytest.mark.parametrize("lock", ["locks/4f1d", "4f1d"], ids=["below locks", "right below, as in older releases"])
def test_the_newest_of_each_job_and_whether_it_is_held(
    server: ZooKeeperServer, flink: KazooClient, path: str, lock: str
) -> None:
    assert seen(server, path) is None, "no Flink has used it"
    earlier, at = (store(flink, path, number, lock=lock) for number in (9, 10))
    flink.create(f"{path}/jobs/{OTHER}/checkpoints", makepath=True)
    flink.create(f"{path}/jobs/{JOB}/checkpoint_id_counter")
    found = seen(server, path)
    assert found is not None
    assert found.jobs == {JOB, OTHER}
    (newest,) = found.newest.values()
    assert (newest.number, newest.is_held, newest.where) == (10, True, f"ZooKeeper, {at}")
    assert newest.added_ms is not None
    assert 0 <= now_ms() - newest.added_ms < 60_000

    flink.delete(f"{at}/{lock}")
    found = seen(server, path)
    assert found is not None
    assert found.newest[JOB].is_held, "one that holds the earlier one has the job"
    flink.delete(f"{earlier}/{lock}")
    found = seen(server, path)
    assert found is not None
    assert not found.newest[JOB].is_held


def test_a_session_that_ends_holds_nothing(server: ZooKeeperServer, path: str) -> None:
    client = server.client()
    store(client, path, 3)
    client.stop()
    found = seen(server, path)
    assert found is not None
    assert not found.newest[JOB].is_held


def test_who_may_not_read_it_is_told_so(server: ZooKeeperServer, flink: KazooClient, path: str) -> None:
    store(flink, path, 3)
    for at in (path, f"{path}/jobs", f"{path}/jobs/{JOB}/checkpoints"):
        flink.set_acls(at, [make_digest_acl("anna", "secret", all=True)])
    with pytest.raises(ResourceManagerError, match="give a login that may read them by --flink-store-properties"):
        seen(server, path)
    found = seen(server, path, StoreAccess(properties={"username": "anna", "password": "secret"}))
    assert found is not None
    assert found.newest[JOB].number == 3


def test_one_that_does_not_answer_proves_nothing(tmp_path: Path, path: str) -> None:
    history = Store(tmp_path / "history.duckdb")
    current = CurrentState(history, settled_kept=10, checkpoints_kept=10, limits=Limits())

    def newest() -> int | None:
        with current.reading() as state:
            found = state.flink.stores.newest("shop", JOB)
        return found.number if found is not None else None

    (tmp_path / "zookeeper").mkdir()
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        address = StoreAddress(hosts=server.address, path=path)
        observer = FlinkHighAvailability(current, "shop", path, partial(in_zookeeper, address), interval_ms=50)
        observer.start()
        wait_until("it says that nothing is there", lambda: f"{path} is not there" in observer.status.error)
        client = server.client()
        store(client, path, 3)
        wait_until("it is seen", lambda: newest() == 3)
        assert observer.status.error == ""
        store(client, path, 4)
        wait_until("so is the next one", lambda: newest() == 4)
        server.stand_still()
        wait_until("it is not taken for known any more", lambda: newest() is None)
        server.go_on()
        wait_until("it is known again", lambda: newest() == 4)
        client.stop()
    wait_until("it is gone", lambda: newest() is None)
    wait_until("that is said", lambda: "did not answer" in observer.status.error)
    observer.stop()
    history.close()


def test_one_that_is_not_there_is_unreachable(path: str) -> None:
    with pytest.raises(Unreachable, match="did not answer"):
        ZooKeeper(StoreAddress(hosts="127.0.0.1:1", path=path)).__enter__()
