"""``indoubt watch`` over two clusters whose brokers have equal transactional ids: nothing of one is done on the other."""

from __future__ import annotations

import html
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from websockets.sync.client import connect

from demo.broker import Broker
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from indoubt.program.access import user_name
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import wait_until
from tests.integration.watch_process import LIMIT_S, WatchProcess

pytestmark = [pytest.mark.integration, pytest.mark.long]

ID, TOPIC = "orders-0", "orders"
EAST, WEST = "east", "west"
ANNA = "a" * 32


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker, and the producer of a transaction that is open on it."""

    broker: Broker
    producer: Producer

    def is_open(self) -> bool:
        """Ask the broker itself, not the collector."""
        manager = KafkaResourceManager(
            KafkaConnection(self.broker.bootstrap_servers), topic=TOPIC, transaction_timeout_ms=1
        )
        return manager.describe([ID])[0].state == "Ongoing"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    with ExitStack() as running:
        brokers = {name: running.enter_context(Broker(tmp_path_factory.mktemp(name))) for name in (EAST, WEST)}
        yield {name: Cluster(broker, open_transaction(broker)) for name, broker in brokers.items()}


def open_transaction(broker: Broker) -> Producer:
    """Leave a transaction open, and return its producer."""
    connection = KafkaConnection(broker.bootstrap_servers)
    DecisionLog(connection).ensure_topic()
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(LIMIT_S)
    settings = {"transactional.id": ID, "transaction.timeout.ms": 800_000, "linger.ms": 0}
    producer = Producer(connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"a row", partition=0)
    assert producer.flush(LIMIT_S) == 0
    return producer


def write_file(path: Path, clusters: dict[str, Cluster], *names: str) -> None:
    tables = [f'[clusters.{name}]\nbootstrap_servers = "{clusters[name].broker.bootstrap_servers}"\n' for name in names]
    path.write_text("[collector]\nforeign_old_ms = 300\n" + "\n".join(tables))


def rows(watch: WatchProcess, cluster: str) -> list[dict[str, Any]]:
    """Return the open transactions of a cluster."""
    done = watch.command("transactions", "--cluster", cluster, "--json")
    return [row for row in json.loads(done.stdout)["rows"] if row["state"] == "open"] if done.returncode == 0 else []


def shown_on(page: str, path: str) -> str:
    """Return the first whole content of a live region."""
    with connect(f"{page.replace('http', 'ws')}/live/{path}", origin=page) as socket:  # type: ignore[arg-type]
        while "blocks" not in (message := json.loads(socket.recv(timeout=LIMIT_S))):
            pass
    return "".join(message["blocks"].values())


def test_an_order_on_one_of_two_clusters_with_equal_ids(clusters: dict[str, Cluster], tmp_path: Path) -> None:
    file = tmp_path / "indoubt.toml"
    write_file(file, clusters, EAST, WEST)
    watch = WatchProcess(["watch", "--settings-file", str(file)], tmp_path, INDOUBT_OPERATOR_TOKEN=f"anna:{ANNA}")
    try:
        look_and_order(watch, clusters)
        watch_another_directory(watch, clusters, file)
        take_one_out(watch, clusters, file)
        assert watch.end(signal.SIGTERM) == 0
    finally:
        if watch.process.is_running():
            watch.end(signal.SIGKILL)


def look_and_order(watch: WatchProcess, clusters: dict[str, Cluster]) -> None:
    found = {
        name: wait_until(f"{name} is known", lambda name=name: rows(watch, name), LIMIT_S) for name in (EAST, WEST)
    }
    assert clusters[EAST].is_open()
    assert clusters[WEST].is_open()
    (east,), (west,) = found[EAST], found[WEST]
    assert east["transaction"] == west["transaction"] == ID
    assert (east["cluster_name"], west["cluster_name"]) == (EAST, WEST)
    numbers = {row["key"].partition("@")[0] for row in (east, west)}
    assert len(numbers) == 1, "each broker numbers its producers from 0"

    for name, row in ((EAST, east), (WEST, west)):
        path = html.escape(page_paths.within(page_paths.transaction(row["key"]), name))
        wait_until(f"that of {name} is shown", lambda path=path: path in shown_on(watch.page, "clusters"), LIMIT_S)
    of_east = httpx.get(f"{watch.page}/find", params={"words": ID, "cluster": EAST}).json()["found"]
    assert [f"cluster={EAST}" in one["click"] for one in of_east if one["kind"] == "transaction"] == [True]

    unclear = watch.command("transactions")
    assert (unclear.returncode, unclear.stdout) == (2, "")
    assert "give --cluster with one of east, west" in unclear.stderr
    assert watch.command("transactions", "--cluster", "north").returncode == 2

    parts = watch.parts()
    addresses = {
        name: next(
            f"http://127.0.0.1:{word[7:]}"
            for word in parts[f"collector {name}"].cmdline()
            if word.startswith("--port=")
        )
        for name in (EAST, WEST)
    }
    order = {
        "action": "abort",
        "keys": [east["key"]],
        "seen": {east["key"]: east["revision"]},
        "reason": "meant for east",
    }
    headers = {"Authorization": f"Bearer {ANNA}", CLUSTER_HEADER: EAST}
    answer = httpx.post(f"{addresses[WEST]}/api/v1/orders", headers=headers, json=order)
    assert (answer.status_code, answer.json()["code"]) == (409, "order_refused")
    assert "this collector is of cluster west, and east is meant" in answer.json()["detail"]

    confirm = ID
    words = ["abort", east["key"], "--cluster", EAST, "--yes", "--reason", "its owner is gone", "--confirm", confirm]
    done = watch.command(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until("east has none open", lambda: not clusters[EAST].is_open(), LIMIT_S)
    assert clusters[WEST].is_open(), "the broker of west says so itself"
    (misled,) = json.loads(watch.command("audit", "--cluster", WEST, "--json").stdout)["rows"]
    assert (misled["keys"], misled["outcome"]) == ([east["key"]], "refused")
    (own,) = json.loads(watch.command("audit", "--cluster", EAST, "--json").stdout)["rows"]
    assert (own["who"], own["outcome"]) == (user_name(), "accepted")
    metrics = httpx.get(f"{addresses[WEST]}/metrics", headers={"Authorization": f"Bearer {ANNA}"}).text
    samples = [line for line in metrics.splitlines() if line.startswith("indoubt_")]
    assert samples
    assert all('cluster="west"' in line for line in samples)


def watch_another_directory(watch: WatchProcess, clusters: dict[str, Cluster], file: Path) -> None:
    before = watch.parts()
    write_file(file, clusters, EAST, WEST)
    file.write_text(f'{file.read_text()}checkpoint = {{ clicks = "{file.parent}" }}\n')
    watch.process.send_signal(signal.SIGHUP)

    def is_watched() -> bool:
        done = watch.command("status", "--cluster", WEST, "--json")
        return "checkpoints of clicks" in done.stdout

    wait_until("west watches it", is_watched, LIMIT_S)
    assert watch.parts() == before, "both collectors go on"


def take_one_out(watch: WatchProcess, clusters: dict[str, Cluster], file: Path) -> None:
    before = watch.parts()
    file.write_text("[clusters.")
    watch.process.send_signal(signal.SIGHUP)
    wait_until("it says what is wrong", lambda: "nothing was changed" in watch.err.read_text(), LIMIT_S)
    assert watch.parts() == before

    write_file(file, clusters, WEST)
    watch.process.send_signal(signal.SIGHUP)
    wait_until("east has ended", lambda: "collector east" not in watch.parts(), LIMIT_S)
    wait_until("it says so", lambda: "cluster east is not watched any more" in watch.err.read_text(), LIMIT_S)
    assert watch.parts()["collector west"] == before["collector west"], "it goes on untouched"
    assert watch.command("transactions").returncode == 0, "there is no other now"
    wait_until("the pages are back", lambda: answers(watch.page), LIMIT_S)
    assert "cluster=" not in shown_on(watch.page, "frame"), "as with one collector"

    write_file(file, clusters, WEST, EAST)
    watch.process.send_signal(signal.SIGHUP)
    assert wait_until("east is back", lambda: watch.command("transactions", "--cluster", EAST).returncode == 0, LIMIT_S)
    assert watch.parts()["collector west"] == before["collector west"]
    assert clusters[WEST].is_open()


def answers(page: str) -> bool:
    """Say whether the pages answer."""
    try:
        return httpx.get(f"{page}/_stcore/health").status_code == 200
    except httpx.TransportError:
        return False
