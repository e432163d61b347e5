"""The API over real state and real history, for tests of it that need no broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from collector.acting import Actors, KafkaActor
from collector.actions import Actions
from collector.api import application
from collector.authentication import KnownTokens
from collector.changes import Changes
from collector.current_state import CurrentState
from collector.observations import DecisionSeen, EventSeen, Malformed, Observation, Observed, Position
from collector.ordering.follow_up import FollowUp
from collector.ordering.hanging import HangingOrders
from collector.ordering.order_history import OrderHistory
from collector.ordering.pipelines import PipelineOrders
from collector.overview import Watch
from collector.rate_limits import RequestLimits
from collector.served import Served
from collector.settings import Tokens
from collector.store import Store
from collector.transaction_state_records import BrokerStatus
from collector.verdicts import Limits, LogSight
from lifecycle import decisions
from lifecycle.events import EventType, encode
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka import KafkaResourceManager
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_partitions import KafkaPartitions
from tests.unit.collector_observations import (
    broker_record,
    decided,
    event,
    handle,
    run_started,
    transaction_event,
)
from tests.unit.partition_sightings import partition_picture

OPERATOR = {"Authorization": "Bearer operator-token"}
VIEWER = {"Authorization": "Bearer viewer-token"}
NOBODY = KafkaConnection("127.0.0.1:1")


def observed(number: int, observation: Observation, raw: str = "", source: str = "test") -> Observed:
    return Observed(position=Position(source=source, partition=0, offset=number), observation=observation, raw=raw)


def decision_seen(seen: DecisionSeen) -> Observed:
    return observed(seen.offset, seen, decisions.encode(seen.record).decode(), "decisions")


def event_seen(number: int, seen: EventSeen) -> Observed:
    return observed(number, seen, encode(seen.event).decode())


def story() -> list[Observed]:
    """Return a decided and open transaction, a foreign one, an aborted one, a checkpoint and a malformed record."""
    return [
        decision_seen(run_started(0)),
        observed(1, broker_record(BrokerStatus.ONGOING, 0)),
        event_seen(2, transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())),
        decision_seen(decided(1, handle())),
        observed(4, broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3", producer_id=7)),
        observed(5, broker_record(BrokerStatus.ONGOING, 0, transaction="gone", producer_id=8)),
        observed(6, broker_record(BrokerStatus.PREPARE_ABORT, 61_000, transaction="gone", producer_id=8, epoch=5)),
        observed(7, broker_record(BrokerStatus.COMPLETE_ABORT, 61_001, transaction="gone", producer_id=8, epoch=5)),
        event_seen(8, event(EventType.CHECKPOINT_COMPLETED, 900, batch=41, rows=100, duration_ms=900)),
        observed(9, Malformed(error="event is not JSON", value="{", at_ms=1)),
    ]


class Api:
    """The application over a store in a temporary directory."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(LogSight.READABLE)
        self.current.observe(story())
        self.ready = True
        self.follow_up = FollowUp(self.current, OrderHistory(self.store), {}, pause_ms=1000, most_ms=1000)
        self.picture = partition_picture()
        actions = Actions(
            self.current,
            self.store,
            Actors({"kafka": KafkaActor(KafkaResourceManager(NOBODY))}),
            DecisionLog(NOBODY),
            PipelineOrders(self.current, NOBODY, DecisionLog(NOBODY), "pipeline_orders", limit_ms=1000),
            self.follow_up,
            HangingOrders(
                lambda: self.picture, self.current, KafkaResourceManager(NOBODY), KafkaPartitions(NOBODY, "decisions")
            ),
            read_only=read_only,
            limit_ms=1000,
        )
        served = Served(
            current=self.current,
            store=self.store,
            actions=actions,
            watch=Watch(self.current, 30_000),
            changes=Changes(),
            tokens=KnownTokens.given(Tokens(operators={"anna": "operator-token"}, viewers={"ben": "viewer-token"})),
            read_only=read_only,
            bootstrap_servers="127.0.0.1:1",
            foreign_old_ms=30_000,
            foreign_recovery_ms=20_000,
            is_ready=lambda: self.ready,
            cluster=lambda: "c",
            observers=lambda: [],
            limits=RequestLimits(failed_authentications_per_minute=1000),
            partitions=lambda: self.picture,
        )
        self.served = served
        self.client = TestClient(application(served), raise_server_exceptions=False)

    def rows(self, path: str) -> list[dict[str, Any]]:
        answer = self.client.get(f"/api/v1/{path}", headers=VIEWER)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["rows"]
        return found

    def order(self, headers: dict[str, str] = OPERATOR, **changes: Any) -> Any:
        row = next(r for r in self.rows("transactions") if r["transaction"] == "ip-count-0-1")
        body = {"action": "commit", "keys": [row["key"]], "seen": {row["key"]: row["revision"]}, "reason": "because"}
        return self.client.post("/api/v1/orders", headers=headers, json=body | changes)
