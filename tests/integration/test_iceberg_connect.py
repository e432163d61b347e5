"""What a real Kafka Connect wrote for an Iceberg table: not in the table when it was killed, left out, or there twice."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog

from demo.broker import Broker
from tests.integration import iceberg_connect_worker
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.iceberg_connect_worker import CATALOG, TABLE, ConnectWorker
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
CONNECT_LIMIT_S = 120.0


@dataclass
class Lake:
    """A worker, the collector, and readers of the table and of the control topic that know neither."""

    worker: ConnectWorker
    collector: CollectorProcess
    catalog: Catalog
    bootstrap_servers: str
    topic: str
    control: str
    produced: Counter[str] = field(default_factory=Counter)

    def produce(self, orders: int) -> Counter[str]:
        """Write so many more orders, and return them."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        new = Counter({f"order {len(self.produced) + number}": 1 for number in range(orders)})
        for order in new:
            producer.produce(self.topic, json.dumps({"id": order}).encode())
        producer.flush(LIMIT_S)
        self.produced += new
        return new

    def read(self) -> Counter[str]:
        """Return how often each order is in the table, read by PyIceberg."""
        return Counter(self.catalog.load_table(TABLE).scan().to_arrow()["id"].to_pylist())

    def wait_for(self, rows: Counter[str]) -> None:
        try:
            wait_until(f"{len(rows)} orders in the table", lambda: self.read() == rows, CONNECT_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.read()}; {self.worker.log.read_text()[-3000:]}") from None

    def wait_for_files(self, times: int) -> None:
        """Wait until a task has told so often of all that it wrote, when it had written something."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": str(uuid.uuid4())}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        consumer.subscribe([self.control])
        told: list[bytes] = []

        def done() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                told.append(message.value() or b"")
            written = [number for number, value in enumerate(told) if b'"name":"DataWritten"' in value]
            return len(written) >= times and any(b'"name":"DataComplete"' in value for value in told[written[-1] :])

        try:
            wait_until(f"{times} times files", done, CONNECT_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.worker.log.read_text()[-3000:]}") from None
        finally:
            consumer.close()

    def alerts(self) -> list[dict[str, Any]]:
        return [row for row in self.collector.rows("alerts") if row["rule"] == "A18" and row["state"] != "resolved"]

    def alert(self, *says: str) -> dict[str, Any]:
        """Return the one alert of the rule, once its summary or its evidence says all of this."""

        def found() -> dict[str, Any] | None:
            for row in self.alerts():
                text = " ".join([row["summary"], *(each["fact"] for each in row["evidence"])])
                if all(each in text for each in says):
                    return row
            return None

        try:
            row: dict[str, Any] = wait_until(f"an alert that says {says}", found, CONNECT_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {self.alerts()}; {self.collector.get('status')}") from None
        return row

    def observer(self) -> dict[str, Any]:
        return self.collector.observer(f"iceberg control topic {self.control}")


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    iceberg_connect_worker.fetch()


@pytest.fixture
def lake(broker: Broker, tmp_path: Path) -> Iterator[Lake]:
    number = uuid.uuid4().hex[:8]
    topic, control = f"orders-{number}", f"control-{number}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(topic, 2, 1), NewTopic(control, 1, 1)]).values():
        made.result(LIMIT_S)
    worker = ConnectWorker(broker.bootstrap_servers, f"lake-{number}", topic, control, tmp_path)
    catalog = load_catalog(CATALOG, **worker.catalog)
    (tmp_path / "warehouse").mkdir()
    catalog.create_namespace("db")
    catalog.create_table(TABLE, pa.schema([("id", pa.string())]))
    named = {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": value for name, value in worker.catalog.items()}
    settings = {"INDOUBT_ICEBERG_CONTROL_TOPICS": control, "INDOUBT_REMOTE_CHECKPOINT_POLLING_MS": "500"}
    with running(broker.bootstrap_servers, tmp_path / "collector", [], {**settings, **named}) as collector:
        yield Lake(worker, collector, catalog, broker.bootstrap_servers, topic, control)
        worker.kill()
        catalog.close()


def test_what_a_killed_worker_wrote_is_told_until_it_is_in_the_table_and_when_it_is_there_twice(lake: Lake) -> None:
    first = lake.produce(10)
    lake.worker.start()
    lake.wait_for(first)
    wait_until("the first commit is seen", lambda: lake.observer()["records"] >= 3, LIMIT_S)
    assert (lake.alerts(), lake.observer()["error"]) == ([], "")
    with lake.worker.commits_held_up():
        lake.produce(5)
        lake.wait_for_files(2)
        lake.worker.kill()
    alert = lake.alert("1 file with 5 rows for db.orders: not in the table (likely)")
    assert (alert["severity"], alert["labels"]["pipeline"]) == ("warning", lake.worker.group)
    assert "has no member: restart the connector, its coordinator adds them" in alert["evidence"][0]["fact"]
    assert lake.observer()["error"].startswith("1 write not in the table, ")
    assert lake.read() == first
    lake.worker.start()
    lake.wait_for(lake.produced)
    wait_until("no alert", lambda: not lake.alerts() and not lake.observer()["error"], CONNECT_LIMIT_S)
    lake.worker.kill()
    table = lake.catalog.load_table(TABLE)
    written_first = next(task.file for task in table.scan().plan_files() if task.file.record_count == len(first))
    # As a coordinator does that has read the control topic from an old offset.
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(written_first)
    assert lake.read() == lake.produced + first
    alert = lake.alert("1 file with 10 rows for db.orders: in the table twice (certain)")
    assert alert["severity"] == "critical"


def test_what_was_written_before_the_first_commit_is_left_out_by_a_restart(lake: Lake) -> None:
    left_out = lake.produce(5)
    with lake.worker.commits_held_up():
        lake.worker.start()
        lake.wait_for_files(1)
        lake.worker.kill()
    lake.alert("not in the table (likely)", "has no member and no offset", "leaves them out, unless it has")
    lake.worker.start()
    later = lake.produce(3)
    lake.wait_for(later)
    alert = lake.alert("1 file with 5 rows for db.orders: left out of the table (likely)")
    assert alert["severity"] == "critical"
    assert lake.read() == later == lake.produced - left_out
