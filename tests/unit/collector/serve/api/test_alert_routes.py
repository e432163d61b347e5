"""Alerts, silences and /metrics over HTTP: shapes, roles, audit rows, bounded labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from indoubt.collector.act.standing_orders.own_checks import Owners
from indoubt.collector.act.standing_orders.service import StandingOrderService
from indoubt.collector.assess.assessment import Assessment
from indoubt.collector.config.receivers import ReceiverSettings
from indoubt.collector.config.standing_orders import StandingOrder, StandingOrders
from indoubt.collector.config.variables import MetricsAccess, TunableSettings
from indoubt.collector.notify.evaluator import ShownAlert
from indoubt.collector.notify.service import AlertService
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation
from indoubt.collector.runtime.clock import CLOCK
from indoubt.collector.serve.api import alert_routes, standing_order_routes
from indoubt.collector.serve.api.app import application
from indoubt.collector.serve.api.application_metrics import PipelineLabels
from indoubt.collector.serve.api.dependencies import ApiDependencies
from indoubt.collector.verdicts.blocked_readers import Tail, judge_reader
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN, Blocked, PartitionFindings
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.kafka.group_questions import members
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from tests.unit.collector.assessments import assessed
from tests.unit.collector.observations import PREFIX, T0, broker_record, event
from tests.unit.collector.partition_sightings import group, partition
from tests.unit.collector.serve.api.served_api import NOBODY, OPERATOR, VIEWER, Api, observed

pytestmark = pytest.mark.slow


COLUMNS = (
    "key rule state severity summary evidence labels since_ms found_at_ms fired_at_ms absent_at_ms name group remedy path "
    "silenced_by"
)
SILENCE = {"matchers": {"pipeline": PREFIX}, "reason": "maintenance", "duration_ms": 60_000}
MAX_PIPELINES = 3
STANDING_ORDERS = StandingOrders(
    file="standing_orders.toml",
    owner="carla",
    orders=(
        StandingOrder(
            name="save",
            act=Action.COMMIT,
            applications=frozenset({PREFIX}),
            most_per_hour=1,
            less_than_s_left=60,
            dry_run=False,
        ),
    ),
)


class AlertApi(Api):
    """The API with alerts, which a test judges by hand: a decided transaction is near its timeout, a foreign one too."""

    def __init__(
        self, directory: Path, *, read_only: bool = False, access: MetricsAccess = MetricsAccess.TOKEN
    ) -> None:
        super().__init__(directory, read_only=read_only)
        self.observers: list[ObserverStatus] = []
        self.current.clocks.saw(
            "broker 1", CLOCK.wall_ms(), after_ms=CLOCK.steady_ms() - 10, before_ms=CLOCK.steady_ms() + 10
        )
        receivers = ReceiverSettings(
            webhook_url="http://127.0.0.1:1/secret-path", webhook_secret="secret-of-the-webhook"
        )
        self.alerts = AlertService(self.current, self.store, self.served.assessor, TunableSettings(), receivers)
        app = application(self.served)
        alert_routes.serve(app, self.served, self.alerts, access, MAX_PIPELINES)
        self.standing = self.standing_orders()
        standing_order_routes.serve(app, self.served, self.standing)
        self.client = TestClient(app, raise_server_exceptions=False, client=("127.0.0.1", 50_000))

    def standing_orders(self) -> StandingOrderService:
        """Return the service as each start makes it; a test evaluates by hand."""
        return StandingOrderService(
            STANDING_ORDERS,
            self.current,
            self.served.assessor,
            self.store,
            self.served.actions,
            Owners(broker=KafkaResourceManager(NOBODY), members=partial(members, NOBODY), flink=dict),
            silent_ms=15_000,
            read_only=self.served.read_only,
        )

    def judge(self) -> None:
        """Judge the alerts of now."""
        self.alerts.evaluator.judge(self._assessed())

    def evaluate(self, standing: StandingOrderService | None = None) -> None:
        """Evaluate the standing orders of now; ``standing``: those of another start."""
        (standing or self.standing).evaluate(self._assessed())

    def _assessed(self) -> Assessment:
        return assessed(self.current, observers=self.observers)

    def silence(self, headers: Mapping[str, str] = OPERATOR, **changes: Any) -> Any:
        return self.client.post("/api/v1/silences", headers=headers, json={**SILENCE, **changes})

    def see(self, *observations: Observation) -> None:
        self.current.observe([observed(100 + n, one) for n, one in enumerate(observations)])

    def metrics(self, served: ApiDependencies | None = None) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """Return every sample of /metrics, read by Prometheus' own parser: name -> labels -> value."""
        client = self.client
        if served is not None:
            app = application(served)
            alert_routes.serve(app, served, self.alerts, MetricsAccess.TOKEN, MAX_PIPELINES)
            client = TestClient(app)
        answer = client.get("/metrics", headers=VIEWER)
        assert answer.status_code == 200, answer.text
        found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(answer.text):
            assert family.documentation
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return found


@pytest.fixture
def api(tmp_path: Path) -> Iterator[AlertApi]:
    made = AlertApi(tmp_path)
    made.judge()
    yield made
    made.store.close()


def test_alerts_come_most_urgent_first_with_every_column(api: AlertApi) -> None:
    rows = api.rows("alerts")
    assert [(r["rule"], r["state"], r["severity"]) for r in rows] == [
        ("A1", "firing", "critical"),
        ("A2", "firing", "critical"),
        ("A1", "firing", "warning"),
    ]
    assert all(list(row) == COLUMNS.split() for row in rows)
    assert (rows[0]["name"], rows[0]["silenced_by"]) == ("timeout near", None)
    assert rows[0]["labels"]["transaction"] == "ip-count-0-1"
    assert {"fact", "source", "at_ms"} == set(rows[0]["evidence"][0])


@pytest.mark.parametrize(
    ("query", "found"),
    [("rule=A1", 2), ("severity=warning", 1), ("state=resolved", 0), ("pipeline=ip-count", 2), ("limit=1", 1),
     ("over=true", 0), ("over=false", 3)],
)  # fmt: skip
def test_alerts_are_filtered(api: AlertApi, query: str, found: int) -> None:
    assert len(api.rows(f"alerts?{query}")) == found


def test_pages_of_alerts_put_together_are_the_table(api: AlertApi) -> None:
    rows: list[Any] = []
    after = ""
    for more in (2, 1, 0):
        page = api.client.get(f"/api/v1/alerts?limit=1{after}", headers=VIEWER).json()
        assert page["more"] == more
        rows += page["rows"]
        after = f"&after={page['next']}"
    assert rows == api.rows("alerts")
    assert page["next"] is None


def test_resolved_alerts_stand_newest_first_whatever_their_severity(api: AlertApi, monkeypatch: Any) -> None:
    alerts = {
        shown.alert.finding.key: replace(shown.alert, state=AlertState.RESOLVED, since_ms=T0 + number)
        for number, shown in enumerate(api.alerts.evaluator.alerts())
    }
    monkeypatch.setattr(
        api.alerts.evaluator, "alerts", lambda: [ShownAlert(alert=one, silence=None) for one in alerts.values()]
    )
    first = api.client.get("/api/v1/alerts?over=true&limit=2", headers=VIEWER).json()
    assert [row["since_ms"] for row in first["rows"]] == [T0 + 2, T0 + 1]
    rest = api.client.get(f"/api/v1/alerts?over=true&after={first['next']}", headers=VIEWER).json()
    assert [row["since_ms"] for row in rest["rows"]] == [T0]


@pytest.mark.parametrize("path", ["api/v1/alerts", "api/v1/silences", "api/v1/receivers", "metrics"])
def test_nothing_is_served_without_a_token(api: AlertApi, path: str) -> None:
    assert api.client.get(f"/{path}").json()["code"] == "unauthorized"
    api.ready = False
    assert api.client.get(f"/{path}", headers=VIEWER).json()["code"] == "unavailable"


def test_a_silence_is_made_shown_ended_and_audited(api: AlertApi) -> None:
    made = api.silence()
    assert made.status_code == 200, made.text
    assert (made.json()["silence"], made.json()["author"], made.json()["state"]) == (1, "anna", "active")
    silenced = Counter(row["silenced_by"] for row in api.rows("alerts"))
    assert silenced == {1: 2, None: 1}
    assert api.client.delete("/api/v1/silences/1?reason=it+is+over", headers=OPERATOR).json()["state"] == "ended"
    assert [row["silenced_by"] for row in api.rows("alerts")] == [None] * 3
    assert [row["state"] for row in api.rows("silences")] == ["ended"]
    assert [(r["who"], r["action"], r["reason"], r["outcome"]) for r in api.rows("audit")] == [
        ("anna", "end silence", "it is over", "accepted"),
        ("anna", "silence", "maintenance", "accepted"),
    ]


def test_a_viewer_silences_nothing_and_it_is_written_down(api: AlertApi) -> None:
    assert api.silence().status_code == 200
    for answer in (
        api.silence(VIEWER),
        api.client.delete("/api/v1/silences/1?reason=because", headers=VIEWER),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert [row["state"] for row in api.rows("silences")] == ["active"]
    refused = [(r["who"], r["action"]) for r in api.rows("audit") if r["outcome"] == "refused"]
    assert refused == [("ben", "end silence"), ("ben", "silence")]


def test_a_silence_needs_a_reason_and_a_label_that_exists(api: AlertApi) -> None:
    assert api.silence(reason="x").json()["code"] == "invalid"
    assert "'pipelin'" in api.silence(matchers={"pipelin": "p"}).json()["detail"]
    assert api.client.delete("/api/v1/silences/1", headers=OPERATOR).json()["code"] == "invalid"
    assert api.client.delete("/api/v1/silences/9?reason=because", headers=OPERATOR).status_code == 404
    assert api.client.post("/api/v1/silences", headers=OPERATOR, content=b"{").json()["code"] == "bad_request"
    assert api.rows("silences") == []


def test_a_read_only_collector_is_silenced_all_the_same(tmp_path: Path) -> None:
    api = AlertApi(tmp_path, read_only=True)
    assert api.silence().status_code == 200
    api.store.close()


def test_metrics_show_what_stands(api: AlertApi) -> None:
    api.see(event(EventType.CHECKPOINT_STARTED, 2_000, batch=42), event(EventType.CHECKPOINT_FAILED, 3_000, batch=42))
    found = api.metrics()
    states = found["indoubt_transactions"]
    assert states[("state", "decided"), ("verdict", "commit it")] == 1
    assert states[("state", "open"), ("verdict", "foreign")] == 1
    assert sum(states.values()) == 2
    assert found["indoubt_open_transactions"] == {(("pipeline", PREFIX),): 1, (("pipeline", "foreign"),): 1}
    left = found["indoubt_transaction_time_left_seconds"][("pipeline", PREFIX),]
    age = found["indoubt_oldest_open_transaction_age_seconds"][("pipeline", PREFIX),]
    assert left + age == pytest.approx(60)
    share = found["indoubt_transaction_time_left_ratio"][("pipeline", PREFIX),]
    assert share == pytest.approx(left / 60)
    assert (found["indoubt_aborts_total"][()], found["indoubt_commits_total"][()]) == (1, 0)
    alerts = found["indoubt_alerts"]
    assert alerts[("rule", "A1"), ("severity", "critical"), ("state", "firing")] == 1
    assert alerts[("rule", "A9"), ("severity", "critical"), ("state", "firing")] == 0
    assert found["indoubt_checkpoint_duration_seconds"][("percentile", "99"), ("pipeline", PREFIX)] == 0.9
    assert found["indoubt_checkpoint_failures"][("pipeline", PREFIX),] == 1
    assert found["indoubt_quarantined_records_total"][()] == 1
    assert found["indoubt_history_writable"][()] == 1
    # Nothing was notified yet: groups wait for their first seconds.
    assert found["indoubt_notifications_waiting"] == {(("receiver", "webhook"),): 0}


def test_metrics_show_what_is_hidden_from_readers(api: AlertApi) -> None:
    reader = judge_reader(group(100), partition(100, 105), Tail.UNREAD, 0, 30_000)
    assert reader is not None
    held = Blocked(snapshot=partition(100, 105), holder=None, readers=(reader,))
    other = Blocked(snapshot=replace(partition(7, 10), partition=("other", 0)), holder=None, readers=())
    shown = PartitionFindings(at_ms=T0, blocked=(held, other))
    found = api.metrics(replace(api.served, partitions=lambda: shown))
    assert found["indoubt_hidden_records"][()] == 8
    assert (found["indoubt_held_partitions"][()], found["indoubt_blocked_partitions"][()]) == (2, 1)
    assert found["indoubt_longest_held_seconds"][()] > 0
    nothing = api.metrics(replace(api.served, partitions=lambda: NOTHING_SEEN))
    assert nothing["indoubt_hidden_records"][()] == nothing["indoubt_longest_held_seconds"][()] == 0


def test_ends_of_history_are_not_counted_again_after_a_restart(api: AlertApi) -> None:
    assert api.metrics()["indoubt_aborts_total"][()] == 1
    api.store.flushed()
    api.current.load()
    assert api.metrics()["indoubt_aborts_total"][()] == 0


def test_no_label_grows_with_transactions_or_pipelines(api: AlertApi) -> None:
    secrets = ("ip-count-0-1", "flink-orders-3")
    before = api.metrics()
    for n in range(50):
        api.see(broker_record(BrokerStatus.ONGOING, 0, transaction=f"foreign-{n}", producer_id=100 + n))
        told = event(EventType.CHECKPOINT_COMPLETED, 900, batch=1, duration_ms=n)
        told.event.data["pipeline"] = f"pipeline-{n:02}"
        api.see(told)
    api.judge()
    found = api.metrics()
    assert {labels[0][1] for labels in found["indoubt_open_transactions"]} == {PREFIX, "foreign"}
    assert found["indoubt_open_transactions"][("pipeline", "foreign"),] == 51
    pipelines = {labels[0][1] for labels in found["indoubt_checkpoint_failures"]}
    assert len(pipelines) == MAX_PIPELINES + 1
    assert {PREFIX, "other"} <= pipelines
    grown = sum(map(len, found.values())) - sum(map(len, before.values()))
    assert grown <= 6 * MAX_PIPELINES
    text = api.client.get("/metrics", headers=VIEWER).text
    assert not any(name in text for name in (*secrets, "foreign-7", "secret"))


def test_the_same_pipelines_keep_their_labels_from_scrape_to_scrape() -> None:
    labels = PipelineLabels(2)
    assert [labels.of(name) for name in ("b", "a", "c", "b", "a", "c")] == ["b", "a", "other", "b", "a", "other"]


@pytest.mark.parametrize(
    ("access", "host", "headers", "status"),
    [
        (MetricsAccess.TOKEN, "127.0.0.1", {}, 401),
        (MetricsAccess.TOKEN, "127.0.0.1", VIEWER, 200),
        (MetricsAccess.LOOPBACK, "127.0.0.1", {}, 200),
        (MetricsAccess.LOOPBACK, "::1", {}, 200),
        (MetricsAccess.LOOPBACK, "10.0.0.7", {}, 401),
        (MetricsAccess.LOOPBACK, "10.0.0.7", VIEWER, 200),
        (MetricsAccess.ANYONE, "10.0.0.7", {"X-Forwarded-For": "10.0.0.8"}, 200),
        # A proxy on this machine passes on what comes from elsewhere.
        (MetricsAccess.LOOPBACK, "127.0.0.1", {"X-Forwarded-For": "10.0.0.7"}, 401),
    ],
)
def test_who_may_read_metrics(
    tmp_path: Path, access: MetricsAccess, host: str, headers: dict[str, str], status: int
) -> None:
    api = AlertApi(tmp_path, access=access)
    client = TestClient(api.client.app, client=(host, 50_000))
    assert client.get("/metrics", headers=headers).status_code == status
    if status == 200:
        api.ready = False
        assert client.get("/metrics", headers=headers).status_code == 503
    # Nothing else is opened by it.
    assert client.get("/api/v1/alerts").status_code == 401
    api.store.close()


def test_receivers_say_how_they_stand(api: AlertApi) -> None:
    rows = api.rows("receivers")
    assert rows == [{"receiver": "webhook", "waiting": 0, "oldest_at_ms": None, "given_up": 0, "error": ""}]


def test_secrets_of_receivers_are_in_no_answer(api: AlertApi) -> None:
    answers = [api.client.get(f"/api/v1/{path}", headers=OPERATOR).text for path in ("alerts", "status", "audit")]
    answers.append(api.client.get("/metrics", headers=OPERATOR).text)
    assert not any("secret" in answer for answer in answers)
    assert json.loads(answers[0])["rows"]
