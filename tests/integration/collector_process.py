"""A real collector process and its API, as an operator and a viewer use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.kafka_fixtures import wait_until

ROOT = Path(__file__).parents[2]
OPERATOR, VIEWER = "operator-token", "viewer-token"
LIMIT_S = 30.0
FOLLOW_UP = "indoubt.collector.act.orders.outcome_resolver:OutcomeResolver"
SHORT_ORDERS = {"indoubt.collector.act.orders.service:Actions.limit_ms": 1_000, f"{FOLLOW_UP}.pause_ms": 200}
"""An order does not wait long for a broker that is gone, and soon looks again."""
PIPELINE_ORDER_LIMIT = "indoubt.collector.act.orders.pipelines:PipelineOrders.limit_ms"
ORDER_LIMIT_S = 90.0
"""An order about a broker that is gone is answered once the requests to it have timed out."""


class CollectorProcess:
    """Started and killed as often as a test wants, on the same directory."""

    program: Sequence[str | Path] = (sys.executable, "-m", "indoubt.collector")
    """Another one, for an instance: the installed one."""
    cwd = ROOT

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        defaults: Mapping[str, int] | None = None,
    ) -> None:
        """``defaults``: see changed_defaults.py."""
        if defaults:
            self.program = (sys.executable, "-m", "tests.integration.changed_defaults", json.dumps(defaults))
        self.directory = directory
        self.url = ""
        self.log = directory / "collector.log"
        self._arguments = ["--bootstrap-servers", bootstrap_servers, "--directory", str(directory)]
        self._arguments += ["--port", "0", *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("INDOUBT_")}
        tokens = {"INDOUBT_OPERATOR_TOKEN": f"anna:{OPERATOR}", "INDOUBT_VIEWER_TOKEN": f"ben:{VIEWER}"}
        self._environment = {**inherited, **tokens, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client()

    def start(self) -> None:
        """Start it and wait until history is loaded."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [*self.program, *self._arguments],
                cwd=self.cwd,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        url = self._process.stdout.readline().strip()
        assert url, f"the collector did not start:\n{self.log.read_text()[-2000:]}"
        headers = {"Authorization": f"Bearer {OPERATOR}"}
        self.url = url
        self._client = httpx.Client(base_url=url, headers=headers, timeout=LIMIT_S)
        wait_until("history loaded", lambda: self._client.get("/api/v1/health").status_code == 200, LIMIT_S)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._end(lambda process: process.kill())

    def kill_process(self) -> None:
        """End it by SIGKILL from another thread: whoever waits for an answer is told that the connection ended."""
        assert self._process is not None
        self._process.kill()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        """End it by SIGTERM and return its exit code."""
        return self._end(lambda process: process.terminate())

    def _end(self, send: Callable[[subprocess.Popen[str]], None]) -> int:
        self._client.close()
        if self._process is None:
            return 0
        send(self._process)
        code = self._process.wait(LIMIT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None
        return code

    def get(self, path: str) -> Any:
        """Return an answer's JSON."""
        answer = self._client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def metrics(self) -> str:
        """Return /metrics as anybody on this machine reads it."""
        answer = httpx.get(self._client.base_url.join("/metrics"), timeout=LIMIT_S)
        assert answer.status_code == 200, answer.text
        return answer.text

    def numbers(self, metric: str) -> dict[str, float]:
        """Return the values of a metric that has one label, by it, as who has a token reads them."""
        told = text_string_to_metric_families(self._client.get("/metrics").text)
        return {next(iter(s.labels.values())): s.value for one in told if one.name == metric for s in one.samples}

    def rows(self, path: str) -> list[dict[str, Any]]:
        """Return a table's rows."""
        found: list[dict[str, Any]] = self.get(path)["rows"]
        return found

    def transactions(self, transaction: str) -> list[dict[str, Any]]:
        """Return the rows of one transactional id, settled ones too."""
        return [row for row in self.rows("transactions?all=true&limit=10000") if row["transaction"] == transaction]

    def wait_for(self, transaction: str, *says: str, **fields: Any) -> dict[str, Any]:
        """Return the row of an id once it has these values and its evidence says this."""

        def fits(row: Mapping[str, Any]) -> bool:
            told = "; ".join(fact["fact"] for fact in row["evidence"])
            return all(row[name] == value for name, value in fields.items()) and all(text in told for text in says)

        def holds() -> dict[str, Any] | None:
            return next((row for row in self.transactions(transaction) if fits(row)), None)

        try:
            found: dict[str, Any] = wait_until(f"{transaction} with {fields} says {says}", holds, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {self.transactions(transaction)}") from None
        return found

    def observer(self, name: str) -> dict[str, Any]:
        """Return one observer's status."""
        return next(o for o in self.get("status")["observers"] if o["name"] == name)

    def order(self, action: str, *rows: Mapping[str, Any], token: str = OPERATOR, **changes: Any) -> httpx.Response:
        """Give an order about rows as they were looked at."""
        body: dict[str, Any] = {"action": action, "keys": [r["key"] for r in rows]}
        body |= {"seen": {r["key"]: r["revision"] for r in rows}}
        headers = {"Authorization": f"Bearer {token}"}
        return self._client.post(
            "/api/v1/orders", headers=headers, json={**body, "reason": "a test", **changes}, timeout=ORDER_LIMIT_S
        )

    def preview(self, action: str = "abort", **wanted: Any) -> dict[str, Any]:
        """Return what an order with this filter would mean now."""
        body = {"action": action, "filter": wanted}
        answer = self._client.post("/api/v1/orders/preview", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def begin_run(self, preview: Mapping[str, Any], **changes: Any) -> httpx.Response:
        """Give the order that a preview showed."""
        (condition,) = preview["conditions"]
        body = {"action": preview["action"], "filter": preview["filter"], "fingerprint": condition["fingerprint"]}
        body |= {"reason": "a test", "confirm": condition["confirm"], **changes}
        return self._client.post("/api/v1/orders/runs", json=body, timeout=ORDER_LIMIT_S)

    def over(self, run: str) -> dict[str, Any]:
        """Return an order by filter with its steps, once it is over."""

        def found() -> dict[str, Any] | None:
            row: dict[str, Any] = self.get(f"orders/runs/{run}?steps=true")
            return row if row["is_over"] else None

        row: dict[str, Any] = wait_until("the order by filter is over", found, ORDER_LIMIT_S)
        return row

    def stop_run(self, run: str) -> httpx.Response:
        """Stop an order by filter."""
        return self._client.delete(f"/api/v1/orders/runs/{run}")


@contextmanager
def running(
    bootstrap_servers: str,
    directory: Path,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    defaults: Mapping[str, int] | None = None,
) -> Iterator[CollectorProcess]:
    """Run a collector; at the end it must stop in order."""
    collector = CollectorProcess(bootstrap_servers, directory, arguments, environment, defaults)
    try:
        collector.start()
        yield collector
        assert collector.stop() == 0
    finally:
        collector.kill()


def offsets_of(bootstrap_servers: str, topic: str) -> set[tuple[int, int]]:
    """Return (partition, offset) of every record that an independent consumer finds in a topic now."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "offsets-of", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"})
    try:
        partitions = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        ends: dict[int, int] = {}
        for number in partitions:
            at = TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(at, timeout=LIMIT_S, cached=False)
            if high > low:
                ends[number] = high
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        found: set[tuple[int, int]] = set()
        reached: dict[int, int] = {}
        deadline = time.monotonic() + LIMIT_S
        while any(reached.get(number, -1) < end - 1 for number, end in ends.items()):
            assert time.monotonic() < deadline, (
                f"{topic} was not read to {ends} within {LIMIT_S:.0f} s, only to {reached}"
            )
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                if message.offset() < ends[message.partition()]:
                    found.add((message.partition(), message.offset()))
                    reached[message.partition()] = max(message.offset(), reached.get(message.partition(), -1))
        return found
    finally:
        consumer.close()
