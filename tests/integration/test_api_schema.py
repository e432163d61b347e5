"""A real collector with TLS, at debug level, against its own OpenAPI document: everything it answers is described there,
whatever is sent; and no secret that it was given is in its log afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.settings import COLLECTOR_CA, COLLECTOR_URL, TOKEN, Settings
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, OPERATOR, VIEWER, CollectorProcess, running
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until
from tests.unit.collector.serve.api.hostile_calls import hostile_calls

pytestmark = pytest.mark.integration
LIFECYCLE = f"lifecycle-{uuid.uuid4().hex[:8]}"
CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = 15
RUN_LIMIT_S = 200
SECRETS = {
    "INDOUBT_KAFKA_SASL_PASSWORD": "secret-of-the-broker",
    "INDOUBT_MYSQL_PASSWORD": "secret-of-mysql",
    "INDOUBT_POSTGRES_PASSWORD": "secret-of-postgres",
}
LIMITS = "indoubt.collector.serve.api.auth.rate_limits:RequestLimits"
WITHOUT_LIMITS = dict.fromkeys(
    (f"{LIMITS}.orders_per_minute", f"{LIMITS}.failed_authentications_per_minute"), 1_000_000
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with cert.pem and key.pem for 127.0.0.1; the certificate is its own authority."""
    directory = Path(tmp_path_factory.mktemp("tls"))
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "90", "-subj", "/CN=collector"]
    request += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(request, cwd=directory, check=True, capture_output=True, timeout=60)
    return directory


@pytest.fixture(scope="module")
def sink(connection: KafkaConnection) -> Sink:
    """Return a topic with two open transactions; a lifecycle topic holds a record that is none."""
    DecisionLog(connection).ensure_topic()
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(LIFECYCLE, 1, 1)])[LIFECYCLE].result(LIMIT_S)
    producer = Producer(connection.for_librdkafka())
    producer.produce(LIFECYCLE, b"no event")
    assert producer.flush(LIMIT_S) == 0
    made = make_sink(connection)
    for slot in (0, 1):
        # All that is asked of the API takes more than a minute on a busy machine: they must outlive it.
        made.prepare(b"row", slot=slot, timeout_ms=900_000)
    return made


@pytest.fixture(scope="module")
def collector(
    broker: Broker, sink: Sink, authority: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    """Return a collector that has something to tell on each kind of row; its databases do not answer."""
    directory = tmp_path_factory.mktemp("schema")
    (directory / "checkpoint" / "offsets").mkdir(parents=True)
    (directory / "checkpoint" / "offsets" / "0").write_text('v1\n{"batchTimestampMs":1795000000000}\n')
    databases = directory / "databases.properties"
    databases.write_text(
        "".join(f"{kind}.{line}\n" for kind in ("mysql", "postgres") for line in
                ("host=127.0.0.1", "port=1", "user=indoubt", "database=indoubt"))
    )  # fmt: skip
    arguments = ["--tls-certificate", str(authority / "cert.pem"), "--tls-key", str(authority / "key.pem")]
    arguments += ["--checkpoint", f"ip-count={directory / 'checkpoint'}", "--database-properties", str(databases)]
    settings = {"INDOUBT_LIFECYCLE_TOPIC": LIFECYCLE, "INDOUBT_LOG_LEVEL": "debug", **SECRETS}
    settings["INDOUBT_REQUESTS_PER_SECOND"] = "1000000"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority / "cert.pem"))
        with running(broker.bootstrap_servers, directory / "collector", arguments, settings, WITHOUT_LIMITS) as process:
            for slot in (0, 1):
                process.wait_for(f"{sink.prefix}-{slot}-0")
            wait_until("the malformed record is quarantined", lambda: process.rows("quarantined"))
            yield process


@pytest.fixture(scope="module")
def client(collector: CollectorProcess) -> httpx.Client:
    return collector._client


@pytest.fixture(scope="module")
def document(collector: CollectorProcess) -> dict[str, Any]:
    found: dict[str, Any] = collector.get("openapi.json")
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(m, path, one) for path, methods in document["paths"].items() for m, one in methods.items()]


def is_endless(operation: dict[str, Any]) -> bool:
    return "text/event-stream" in operation["responses"].get("200", {}).get("content", {})


@pytest.mark.long
def test_whatever_is_sent_is_answered_as_described(
    collector: CollectorProcess, client: httpx.Client, document: dict[str, Any], authority: Path, tmp_path: Path
) -> None:
    endless = [path for _, path, one in operations(document) if is_endless(one)]
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIG)]
    command += ["run", str(client.base_url.join("/api/v1/openapi.json"))]
    command += ["--header", f"Authorization: Bearer {OPERATOR}", "--tls-verify", str(authority / "cert.pem")]
    command += ["--checks", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES)]
    command += ["--generation-deterministic", "--continue-on-failure", "--no-color", "--request-timeout", "30"]
    command += [option for path in endless for option in ("--exclude-path", path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    # It leaves out the route that it has the document from.
    assert f"Tested: {len(operations(document)) - len(endless) - 1}\n" in done.stdout


@pytest.mark.long
def test_what_exists_is_answered_as_described_too(
    collector: CollectorProcess, client: httpx.Client, document: dict[str, Any], sink: Sink
) -> None:
    schema = schemathesis.openapi.from_dict(document)
    rows = [row for row in collector.rows("transactions?limit=10000") if row["transaction"].startswith(sink.prefix)]
    assert len(rows) == 2
    one = schema["/api/v1/transactions/{key}"]["GET"]
    for row in rows:
        one.validate_response(client.get(f"/api/v1/transactions/{row['key']}"))
    order = schema["/api/v1/orders"]["POST"]
    abort = {"confirm": rows[0]["transaction"]}
    for changes, status in (
        ({"dry_run": True}, 200),
        ({"reason": "x"}, 422),
        ({"token": VIEWER}, 403),
        ({}, 200),
        ({}, 409),
    ):
        answer = collector.order("abort", rows[0], **abort, **changes)
        assert answer.status_code == status, answer.text
        order.validate_response(answer)
    for path, name in (
        ("/api/v1/audit", "audit"),
        ("/api/v1/quarantined", "offset"),
        ("/api/v1/checkpoints", "number"),
    ):
        answer = client.get(path)
        assert name in answer.json()["rows"][0]
        schema[path]["GET"].validate_response(answer)


@pytest.mark.long
def test_no_call_to_any_route_changes_an_audit_row(
    collector: CollectorProcess, client: httpx.Client, document: dict[str, Any], sink: Sink
) -> None:
    # Alone or after the others, which end these transactions: a refused order has its row too.
    row = next(row for row in collector.rows("transactions?limit=10000") if row["transaction"].startswith(sink.prefix))
    collector.order("abort", row, confirm=row["transaction"], dry_run=True)
    before = client.get("/api/v1/audit", params={"limit": 100_000}).json()["rows"]
    assert before
    for token in (OPERATOR, VIEWER):
        headers = {"Authorization": f"Bearer {token}"}
        for method, path, query, body in hostile_calls(document):
            answer = client.request(method, path, params=query, json=body, headers=headers)
            assert answer.status_code != 500, f"{method} {path} {query}: {answer.text}"
    after = client.get("/api/v1/audit", params={"limit": 100_000}).json()["rows"]
    assert json.dumps(after[-len(before) :]) == json.dumps(before)


def test_the_document_is_no_secret_of_its_own_but_wants_a_token(client: httpx.Client) -> None:
    assert httpx.get(client.base_url.join("/api/v1/openapi.json")).status_code == 401
    assert client.get("/api/v1/openapi.json", headers={"Authorization": f"Bearer {VIEWER}"}).status_code == 200


def test_changes_are_streamed(client: httpx.Client) -> None:
    with client.stream("GET", "/api/v1/changes") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(answer.iter_lines()) == "event: changed"


def test_the_app_trusts_the_authority_that_it_was_given_and_no_other(client: httpx.Client, authority: Path) -> None:
    address = {COLLECTOR_URL: str(client.base_url).rstrip("/"), TOKEN: VIEWER}
    trusting = CollectorClient(Settings.from_environment({**address, COLLECTOR_CA: str(authority / "cert.pem")}))
    assert trusting.status().name == "ben"
    trusting.close()
    env = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    script = (
        "from indoubt.app.client.collector_client import CollectorClient\n"
        "from indoubt.app.client.collector_errors import CollectorError\n"
        "from indoubt.app.settings import Settings\n"
        "try:\n    CollectorClient(Settings.from_environment()).status()\nexcept CollectorError as error:\n    print(error)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, env={**env, **address}, capture_output=True, text=True, timeout=60
    )
    assert "CERTIFICATE_VERIFY_FAILED" in done.stdout


def test_plain_http_gets_no_answer_there_and_no_banner_is_sent(client: httpx.Client) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(client.base_url.copy_with(scheme="http", path="/api/v1/health"), timeout=LIMIT_S)
    answer = client.get("/api/v1/health")
    assert "server" not in answer.headers
    assert "max-age" in answer.headers["strict-transport-security"]


def test_no_secret_is_in_the_log(collector: CollectorProcess, client: httpx.Client) -> None:
    given = [*SECRETS.values(), OPERATOR, VIEWER]
    mistaken = "secret-sent-to-the-wrong-place"
    wrong = {"Authorization": f"Bearer {mistaken}", "Cookie": mistaken}
    client.get("/api/v1/status", headers=wrong)
    client.get(f"/api/v1/transactions/{mistaken}", params={"token": mistaken})
    client.post(f"/{mistaken}", json={"password": mistaken})
    client.post("/api/v1/orders", json={"password": mistaken})
    lines = collector.log.read_text()
    assert "GET /api/v1/transactions/{key:transaction_key}: 404" in lines, "it does write its requests"
    assert "DEBUG indoubt.collector" in lines
    assert [secret for secret in (*given, mistaken) if secret in lines] == []
    answers = json.dumps([collector.get("status"), collector.rows("quarantined")])
    assert [secret for secret in given if secret in answers] == []
