"""A real Flink with ZooKeeper's high availability dies before it told of a checkpoint: does its store have it restored from it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo import flink_job
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import CollectorProcess, running
from tests.integration.command_line_process import command
from tests.integration.flink_ha.flink import COMMIT, ROOT_PATH, SNAPSHOT, HighlyAvailableFlink, build
from tests.integration.kafka_fixtures import Sink, connection_to, make_sink, running_broker
from tests.integration.pipeline_process import open_transactions, read_committed, wait_until
from tests.integration.zookeeper_server import ZooKeeperServer

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(flink_job.missing()), reason=f"{flink_job.missing()} is missing"),
]
ORDERS = 400
CHECKPOINT_LIMIT_S, JOB_LIMIT_S = 90.0, 150.0
# Orders here mean whatever the cluster has open.
own_broker = pytest.fixture(running_broker, scope="module", name="broker")
own_connection = pytest.fixture(connection_to, scope="module", name="connection")


class Site:
    """A Flink that writes orders into a topic of its own, ZooKeeper, and collectors that watch, one after the other."""

    def __init__(self, flink: HighlyAvailableFlink, zookeeper: ZooKeeperServer, sink: Sink, directory: Path) -> None:
        self.flink, self.zookeeper, self.sink, self._directory = flink, zookeeper, sink, directory

    def stored(self) -> list[int]:
        """Return the checkpoints that the store points to."""
        client = self.zookeeper.client()
        jobs = client.get_children(f"{ROOT_PATH}/jobs") if client.exists(f"{ROOT_PATH}/jobs") else []
        homes = [f"{ROOT_PATH}/jobs/{job}/checkpoints" for job in jobs]
        found = [name for home in homes if client.exists(home) for name in client.get_children(home)]
        client.stop()
        return sorted(map(int, found))

    def open_of_checkpoint(self, number: int) -> list[str]:
        """Return the open transactions that were prepared for a checkpoint, by their ids."""
        ids = open_transactions(self.sink.connection, self.sink.prefix)
        return sorted(id_ for id_ in ids if id_.endswith(f"-{number}"))

    @contextmanager
    def watched(self, name: str, more: Sequence[str] = ()) -> Iterator[CollectorProcess]:
        """Run a collector that begins now, and that knows REST's address, the checkpoints and what else is given."""
        watches = ["--flink", f"shop=http://127.0.0.1:{self.flink.port}", "--flink-kafka", "shop=only"]
        watches += ["--flink-checkpoints", f"shop={self.flink.checkpoints}", *more]
        directory = self._directory / name
        directory.mkdir()
        with running(self.sink.connection.bootstrap_servers, directory, watches) as collector:
            yield collector

    @property
    def store(self) -> list[str]:
        """Return the option that names the store."""
        return ["--flink-store", f"shop=zookeeper://{self.zookeeper.address}{ROOT_PATH}"]

    def is_each_there_once(self) -> bool:
        """Say whether a reader of committed records sees each order, and each once."""
        seen = read_committed(self.sink.connection, self.sink.topic)
        assert max(seen.values(), default=1) == 1, "an order was written twice"
        return set(seen) == {f"order {number}".encode() for number in range(ORDERS)}


@pytest.fixture
def site(broker: Broker, connection: KafkaConnection, tmp_path: Path) -> Iterator[Site]:
    build()
    sink = make_sink(connection, partitions=1)
    places = [tmp_path / name for name in ("zookeeper", "flink", "collectors")]
    for place in places:
        place.mkdir()
    with ZooKeeperServer(places[0]) as zookeeper:
        flink = HighlyAvailableFlink(places[1], zookeeper.address, broker.bootstrap_servers, sink.topic, ORDERS)
        try:
            yield Site(flink, zookeeper, sink, places[2])
        finally:
            flink.kill()


def test_what_the_store_points_to_is_committed_for_certain(site: Site) -> None:
    site.flink.hold(COMMIT)
    site.flink.submit()
    wait_until("checkpoint 3 is stored", lambda: site.stored()[-1:] == [3], CHECKPOINT_LIMIT_S)
    wait_until("the other subtask has committed", lambda: len(site.open_of_checkpoint(3)) == 1)
    site.flink.kill()
    (id_,) = site.open_of_checkpoint(3)
    with site.watched("without") as collector:
        likely = {"verdict": "commit it", "certainty": "likely", "commit_confirmation": "chk-3"}
        collector.wait_for(id_, "the end of chk-3 was not seen", **likely)
    with site.watched("with", site.store) as collector:
        certain = {"verdict": "commit it", "certainty": "certain", "commit_confirmation": ""}
        collector.wait_for(id_, "its high-availability store points to it", **certain)
        words = ("--verdict", "commit it", "--yes", "--reason", "its JobManager is gone", "--json")
        done = command(collector, "commit", *words)
        assert (done.code, [step["outcome"] for step in done.answer["steps"]]) == (0, ["committed"])

        site.flink.release(COMMIT)
        site.flink.recover()
        wait_until("each order is there once", site.is_each_there_once, JOB_LIMIT_S)
        (job,) = collector.rows("jobs")
        assert job["restored_from"] == 3


def test_what_it_does_not_point_to_is_written_again(site: Site) -> None:
    site.flink.hold(SNAPSHOT)
    site.flink.submit()
    wait_until("checkpoint 3 begins", lambda: list(site.flink.checkpoints.glob("*/chk-3")), CHECKPOINT_LIMIT_S)
    assert site.stored()[-1:] == [2]
    site.zookeeper.stand_still()
    site.flink.release(SNAPSHOT)
    wait_until("its list is written", lambda: list(site.flink.checkpoints.glob("*/chk-3/_metadata")))
    site.flink.kill()
    site.zookeeper.go_on()
    ids = site.open_of_checkpoint(3)
    assert len(ids) == 2, "a transaction of each subtask"
    with site.watched("with", site.store) as collector:
        for id_ in ids:
            likely = {"verdict": "commit it", "certainty": "likely", "commit_confirmation": "chk-3"}
            collector.wait_for(id_, "points to checkpoint 2", "does not list it", **likely)
        site.flink.recover()
        wait_until("each order is there once", site.is_each_there_once, JOB_LIMIT_S)
        (job,) = collector.rows("jobs")
        assert job["restored_from"] == 2
