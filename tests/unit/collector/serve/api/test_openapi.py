"""The OpenAPI document tells what the API does, and nothing that it tells of changes an audit row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from indoubt.collector.serve.api.openapi import BODIES
from indoubt.lifecycle.rows.transactions import TransactionRow
from tests import openapi_document
from tests.unit.collector.serve.api.hostile_calls import hostile_calls
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER
from tests.unit.collector.serve.api.test_alert_routes import AlertApi

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertApi]:
    made = AlertApi(tmp_path_factory.mktemp("document"))
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def document(api: AlertApi) -> dict[str, Any]:
    found: dict[str, Any] = api.client.get("/api/v1/openapi.json", headers=VIEWER).json()
    return found


def test_every_answer_is_described_and_every_error_is_problem_details(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            good = next(answer for status, answer in answers.items() if status < "4")
            assert all(one["schema"] for one in good["content"].values()), f"give {method} {path} a response_model"
            for status in set(answers) - {"200", "503"}:
                assert answers[status] == {"$ref": f"#/components/responses/Problem{status}"}
            if path not in ("/api/v1/health", "/metrics"):
                assert operation["security"] == [{"HTTPBearer": []}]
                assert {"401", "429", "500", "503"} <= set(answers)


def test_no_body_is_described_that_is_not_read(document: dict[str, Any]) -> None:
    there = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert set(BODIES) <= there


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for kind in ("schemas", "responses"):
        named = set(re.findall(rf'"#/components/{kind}/([^"]+)"', json.dumps(document)))
        assert named == set(document["components"][kind])


def test_the_document_is_valid_and_is_the_committed_one(document: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(document).validate()
    assert openapi_document.FILE.read_text() == openapi_document.text(document), "make openapi writes it anew"


def schema_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def test_a_table_has_the_columns_of_its_row(document: dict[str, Any]) -> None:
    answer = document["paths"]["/api/v1/transactions"]["get"]["responses"]["200"]["content"]
    assert set(answer) == {"application/json"}
    table = schema_of(document, answer["application/json"]["schema"]["$ref"].rpartition("/")[2])
    assert table["required"] == ["rows", "more", "next"]
    assert table["properties"]["rows"]["items"] == {"$ref": "#/components/schemas/TransactionRow"}
    row = schema_of(document, "TransactionRow")
    assert set(row["required"]) == {column.name for column in fields(TransactionRow)}
    assert set(row["properties"]) == {*row["required"], "cluster_name"}
    assert row["properties"]["partitions"]["type"] == "array"
    assert row["properties"]["managed"]["type"] == "boolean"
    assert row["properties"]["batch"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]


def test_an_order_is_described_with_its_limits(document: dict[str, Any]) -> None:
    body = document["paths"]["/api/v1/orders"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    kinds = [schema_of(document, each["$ref"].rpartition("/")[2]) for each in body["anyOf"]]
    assert [set(kind["required"]) for kind in kinds] == [{"action", "reason", "keys"}] * 2
    body = document["paths"]["/api/v1/orders/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    kinds = [schema_of(document, each["$ref"].rpartition("/")[2]) for each in body["anyOf"]]
    assert set(kinds[2]["required"]) == {"action", "reason", "filter", "fingerprint"}
    assert {"400", "403", "409", "413", "422"} <= set(document["paths"]["/api/v1/orders"]["post"]["responses"])


@pytest.mark.long
def test_no_call_to_any_route_changes_an_audit_row(api: AlertApi, document: dict[str, Any]) -> None:
    api.order(seen={})
    api.order(VIEWER)
    before = api.store.rows("select * from audit order by audit")
    assert len(before) == 2
    statuses: dict[str, set[int]] = {}
    for headers in (OPERATOR, VIEWER):
        for method, path, query, body in hostile_calls(document):
            answer = api.client.request(method, path, params=query, json=body, headers=headers)
            statuses.setdefault(method, set()).add(answer.status_code)
            assert answer.status_code != 500, f"{method} {path} {query}: {answer.text}"
    after = api.store.rows("select * from audit order by audit")
    assert repr(after[: len(before)]).encode() == repr(before).encode()
    assert statuses["PUT"] | statuses["PATCH"] <= {404, 405}
    audit = [path for path in document["paths"] if "audit" in path]
    assert [list(document["paths"][path]) for path in audit] == [["get"]] * len(audit)
