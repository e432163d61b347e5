"""An abandoned transaction near its timeout, on the real broker: told once, over kill -9 of the collector, until it is aborted."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, CollectorProcess
from tests.integration.kafka_fixtures import make_sink, wait_until
from tests.unit.collector.notify.http_receiver import Receiver, receiving

pytestmark = pytest.mark.integration
PUBLIC_URL = "https://indoubt.example"
SECRET = "a-secret-of-sixteen-and-more"
RESTART_DELAY_MS = 58_000
"""With an interval of 1 s a restart takes 59 s of the timeout's 60: the alert comes after seconds, not after a minute."""


@pytest.mark.long
def test_an_alert_notifies_once_over_a_kill_and_resolves_after_the_abort(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    lifecycle = f"lifecycle-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(lifecycle, 1, 1)])[lifecycle].result(LIMIT_S)
    sink, log, checkpoint_id = make_sink(connection), DecisionLog(connection), uuid.uuid4().hex
    with receiving() as receiver:
        environment = {
            "INDOUBT_LIFECYCLE_TOPIC": lifecycle,
            "INDOUBT_WEBHOOK_URL": receiver.url,
            "INDOUBT_WEBHOOK_SECRET": SECRET,
            "INDOUBT_PUBLIC_URL": f"{PUBLIC_URL}/",
            "INDOUBT_ALERT_KEEP_FIRING_MS": "1000",
            "INDOUBT_ALERT_GROUP_WAIT_MS": "500",
            "INDOUBT_ALERT_GROUP_INTERVAL_MS": "500",
            "INDOUBT_METRICS_ACCESS": "loopback",
        }
        collector = CollectorProcess(broker.bootstrap_servers, tmp_path, environment=environment)
        try:
            collector.start()
            attempt = log.start_run(_run(sink.prefix, checkpoint_id))
            _tell_start(connection, lifecycle, sink.prefix, checkpoint_id, attempt)
            abandoned = sink.prepare(b"a", attempt=attempt, checkpoint_id=checkpoint_id)

            def own(state: str) -> dict[str, Any] | None:
                rows = collector.rows(f"alerts?rule=A1&state={state}")
                return next((r for r in rows if r["labels"]["transaction"] == abandoned.transaction), None)

            firing = wait_until("it fires", lambda: own("firing"), LIMIT_S)
            assert (firing["severity"], firing["labels"]["pipeline"]) == ("warning", sink.prefix)
            assert "a restart takes at least 59 s" in firing["summary"]
            assert (firing["group"], firing["remedy"]) == (f"application {sink.prefix}", "open")
            wait_until("it is delivered", lambda: _told(receiver, abandoned.transaction), LIMIT_S)
            # Killed between the answer and the note of it, it would come again under the same id: at least once.
            wait_until("its delivery is noted", lambda: collector.rows("receivers")[0]["waiting"] == 0, LIMIT_S)

            collector.kill()
            collector.start()
            again = wait_until("it fires as before", lambda: own("firing"), LIMIT_S)
            assert (again["found_at_ms"], again["fired_at_ms"]) == (firing["found_at_ms"], firing["fired_at_ms"])
            # Judged again with all of its evidence, and nothing is on its way: what were to be told twice would be told now.
            wait_until("the observers caught up", lambda: _is_judging(collector, again["summary"], own), LIMIT_S)
            assert 'indoubt_notifications_waiting{receiver="webhook"} 0.0' in collector.metrics()
            assert [one["status"] for one in _told(receiver, abandoned.transaction)] == ["firing"]

            log.start_run(_run(sink.prefix, checkpoint_id))
            row = collector.wait_for(abandoned.transaction, verdict="abort it", may_abort=True)
            # The link of the first notification, long sent, leads to this very transaction.
            (told,) = _told(receiver, abandoned.transaction)
            assert _urls(told, abandoned.transaction) == [f"{PUBLIC_URL}{page_paths.transaction(row['key'])}"]
            assert collector.order("abort", row, reason="its driver is gone").json()["outcome"] == "accepted"
            wait_until("it is resolved", lambda: own("resolved"), LIMIT_S)
            wait_until("its end is told", lambda: len(_told(receiver, abandoned.transaction)) == 2, LIMIT_S)
            assert collector.stop() == 0
        finally:
            collector.kill()
        fired, resolved = _told(receiver, abandoned.transaction)
    assert (fired["status"], resolved["status"]) == ("firing", "resolved")
    assert fired["id"] != resolved["id"]
    written = collector.log.read_text()
    assert SECRET not in written
    assert "secret-in-the-path" not in written


def _run(prefix: str, checkpoint_id: str) -> RunStarted:
    return RunStarted(prefix=prefix, checkpoint_id=checkpoint_id, run=uuid.uuid4().hex[:6], at_ms=_now_ms())


def _tell_start(connection: KafkaConnection, topic: str, prefix: str, checkpoint_id: str, attempt: int) -> None:
    settings = {"interval_ms": 1_000, "restart_delay_ms": RESTART_DELAY_MS}
    data = {
        "pipeline": prefix,
        "checkpoint_id": checkpoint_id,
        "attempt": attempt,
        "job": "passthrough",
        "settings": settings,
    }
    event = LifecycleEvent(
        type=EventType.PIPELINE_STARTED, source=f"/pipeline/{prefix}", subject=prefix, at_ms=_now_ms(), data=data
    )
    events = Producer(connection.for_librdkafka())
    events.produce(topic, encode(event))
    assert events.flush(LIMIT_S) == 0


def _told(receiver: Receiver, transaction: str) -> list[dict[str, Any]]:
    """Return every notification about a transaction that arrived, each attempt."""
    told = [json.loads(one.body) for one in receiver.received]
    return [
        one
        for one in told
        if any(alert["labels"].get("transaction") == transaction for alert in (*one["firing"], *one["resolved"]))
    ]


def _urls(notification: dict[str, Any], transaction: str) -> list[str]:
    """Return where a notification links to from what fires about a transaction."""
    return [alert["url"] for alert in notification["firing"] if alert["labels"].get("transaction") == transaction]


def _is_judging(collector: CollectorProcess, before: str, own: Any) -> bool:
    """Say whether the alert was judged since the restart: the time left in its words goes down."""
    now = own("firing")
    return now is not None and now["summary"] != before and collector.observer("transaction log")["state"] == "up"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
