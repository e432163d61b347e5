"""The API over real state and real history, for tests of it that need no broker."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Any

import fastapi.routing
from fastapi.testclient import TestClient

from indoubt.collector.act.orders.audit import OrderHistory
from indoubt.collector.act.orders.bulk_selection import Previews
from indoubt.collector.act.orders.hanging import HangingOrders
from indoubt.collector.act.orders.order_runs import OrderRuns
from indoubt.collector.act.orders.outcome_resolver import OutcomeResolver
from indoubt.collector.act.orders.participants import KafkaParticipant, Participants
from indoubt.collector.act.orders.pipelines import PipelineOrders
from indoubt.collector.act.orders.service import Actions
from indoubt.collector.config.tokens import Tokens
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import DecisionSeen, EventSeen, Observation, Observed, Position, Quarantined
from indoubt.collector.serve.api.app import application
from indoubt.collector.serve.api.auth.authentication import KnownTokens
from indoubt.collector.serve.api.auth.rate_limits import RequestLimits
from indoubt.collector.serve.api.dependencies import ApiDependencies
from indoubt.collector.serve.api.event_stream import Changes
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle import decisions
from indoubt.lifecycle.events import EventType, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.unit.collector.assessments import assessor_of
from tests.unit.collector.observations import (
    broker_record,
    decided,
    event,
    handle,
    run_started,
    transaction_event,
)
from tests.unit.collector.partition_sightings import partition_findings

OPERATOR = {"Authorization": "Bearer operator-token"}
VIEWER = {"Authorization": "Bearer viewer-token"}
PAGES = {"Authorization": "Bearer pages-token"}
"""Of an app that signs persons in."""
NOBODY = KafkaConnection("127.0.0.1:1")
# The schema of an answer's type is made once, not for each API: that takes longer than most tests of it.
fastapi.routing.create_model_field = cache(fastapi.routing.create_model_field)


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
        observed(9, Quarantined(error="event is not JSON", value="{", at_ms=1)),
    ]


class Api:
    """The application over a store in a temporary directory."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100)
        self.current.see_decision_log(DecisionLogStatus.READABLE)
        self.current.observe(story())
        self.ready = True
        self.follow_up = OutcomeResolver(self.current, OrderHistory(self.store), {}, pause_ms=1000, max_ms=1000)
        self.findings = partition_findings()
        actions = Actions(
            self.current,
            self.store,
            Participants({"kafka": KafkaParticipant(KafkaResourceManager(NOBODY))}),
            DecisionLog(NOBODY),
            PipelineOrders(self.current, NOBODY, DecisionLog(NOBODY), "pipeline_orders", limit_ms=1000),
            self.follow_up,
            HangingOrders(
                lambda: self.findings, self.current, KafkaResourceManager(NOBODY), KafkaPartitions(NOBODY, "decisions")
            ),
            read_only=read_only,
            limit_ms=1000,
        )
        previews = Previews(self.current)
        self.order_runs = OrderRuns(self.current, self.store, actions, previews)
        served = ApiDependencies(
            current=self.current,
            store=self.store,
            actions=actions,
            previews=previews,
            order_runs=self.order_runs,
            assessor=assessor_of(self.current, partitions=lambda: self.findings),
            changes=Changes(),
            tokens=KnownTokens.given(
                Tokens(
                    operators={"anna": "operator-token"},
                    viewers={"ben": "viewer-token"},
                    for_persons={"pages": "pages-token"},
                )
            ),
            read_only=read_only,
            bootstrap_servers="127.0.0.1:1",
            foreign_recovery_ms=20_000,
            is_ready=lambda: self.ready,
            cluster=lambda: "c",
            observers=lambda: [],
            limits=RequestLimits(failed_authentications_per_minute=1000),
            partitions=lambda: self.findings,
        )
        self.served = served

    @cached_property
    def client(self) -> TestClient:
        return TestClient(application(self.served), raise_server_exceptions=False)

    def rows(self, path: str) -> list[dict[str, Any]]:
        answer = self.client.get(f"/api/v1/{path}", headers=VIEWER)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["rows"]
        return found

    def order(self, headers: dict[str, str] = OPERATOR, **changes: Any) -> Any:
        row = next(r for r in self.rows("transactions") if r["transaction"] == "ip-count-0-1")
        body = {"action": "commit", "keys": [row["key"]], "seen": {row["key"]: row["revision"]}, "reason": "because"}
        return self.client.post("/api/v1/orders", headers=headers, json=body | changes)
