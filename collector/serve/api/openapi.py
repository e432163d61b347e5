"""The OpenAPI document: FastAPI knows routes, parameters and answers; errors, and bodies that are read by hand, are added here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from indoubt.collector.notify.silences import SilenceRequest
from indoubt.collector.serve.api.errors import CODES, MEDIA_TYPE, NO_TYPE
from indoubt.lifecycle.page_paths import CLUSTER_COLUMN
from indoubt.lifecycle.rows.order_request import AnyOrder, PreviewRequest, RunRequest
from indoubt.lifecycle.rows.standing_orders import SwitchRequest

HEALTH = ("get", "/api/v1/health")
"""Answers 503 in the shape of its 200."""
TOKEN_AT_TIMES = ("/metrics",)
"""Paths that want a token unless a setting says otherwise."""
Json = dict[str, Any]
BODIES: dict[tuple[str, str], Any] = {
    ("post", "/api/v1/orders"): AnyOrder,
    ("post", "/api/v1/orders/preview"): PreviewRequest,
    ("post", "/api/v1/orders/runs"): AnyOrder | RunRequest,
    ("post", "/api/v1/silences"): SilenceRequest,
    ("post", "/api/v1/standing-orders"): SwitchRequest,
}
"""Bodies that are read by hand, so that their errors can be kind."""
NAMED_IN_QUERY = frozenset({"/api/v1/restores"})
"""Routes whose query names the one thing that they are about."""
_DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "No valid token was sent.",
    403: "The token's role, or read-only mode, does not allow it.",
    404: "There is none of that name.",
    409: "Refused: it is not safe, or the evidence changed. Nothing was done.",
    413: "The body is too long.",
    422: "A parameter or a field is wrong; its detail names it.",
    429: "Too many requests, orders or failed authentications; Retry-After says when to come back.",
    500: "Unexpected: the collector's log says more.",
    503: "History is being loaded or cannot be written, or a broker or database cannot be asked.",
}


_CLUSTER = "What the collector was told to call its cluster; without a name it is not there."


def document(app: FastAPI) -> Json:
    """Return the document of an application's routes, with the bodies that each reads and the errors that each can give."""
    made = get_openapi(title=app.title, version="1", routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            body = BODIES.get((method, path))
            if body is not None:
                schema = _body_schema(body, schemas)
                operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
            _describe(method, path, operation)
    _say_cluster(made["paths"], schemas)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = _problem_schema()
    made["components"]["responses"] = {f"Problem{status}": _error(status) for status in _DESCRIPTIONS}
    return made


def _body_schema(body: Any, schemas: Json) -> Json:
    """Return a body's schema; what it refers to is added to ``schemas``."""
    schema = TypeAdapter(body).json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    return schema


def _describe(method: str, path: str, operation: Json) -> None:
    found = {status: answer for status, answer in operation["responses"].items() if status < "4"}
    found |= {
        str(status): {"$ref": f"#/components/responses/Problem{status}"}
        for status in _statuses(method, path, operation)
    }
    if path in TOKEN_AT_TIMES:
        operation["security"] = [{}, {"HTTPBearer": []}]
    if (method, path) == HEALTH:
        found["503"] = found["200"]
    operation["responses"] = found


def _say_cluster(paths: Json, schemas: Json) -> None:
    """Add the cluster's column to the rows that are answered; answers.py puts it there, where the cluster has a name."""
    good = (
        answer for one in paths.values() for operation in one.values() for answer in operation["responses"].values()
    )
    named = {each["schema"].get("$ref") for answer in good for each in answer.get("content", {}).values()}
    for name in (ref.rpartition("/")[2] for ref in named - {None}):
        rows = schemas[name]["properties"].get("rows", {}).get("items", {}) if name.startswith("Table_") else {}
        row = schemas[rows["$ref"].rpartition("/")[2] if rows else name]
        row["properties"].setdefault(CLUSTER_COLUMN, {"type": "string", "description": _CLUSTER})


def _statuses(method: str, path: str, operation: Json) -> list[int]:
    """Return the errors that the shared parts of the API can answer with before, in and after a route of this kind."""
    found = [500, 503]
    if operation.get("security") or path in TOKEN_AT_TIMES:
        found += [401, 429]
    if operation.get("parameters") or "requestBody" in operation:
        found.append(422)
    if "{" in path or path in NAMED_IN_QUERY:
        found.append(404)
    if method != "get":
        found += [403, 409]
    if "requestBody" in operation:
        found += [400, 413]
    return sorted(found)


def _error(status: int) -> Json:
    answer: Json = {
        "description": _DESCRIPTIONS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status == 429:
        answer["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
    return answer


def _problem_schema() -> Json:
    """Return the schema of problem details (RFC 9457)."""
    properties = {
        "type": {"type": "string", "const": NO_TYPE},
        "title": {"type": "string", "description": "The status in words."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What, which, what to do."},
        "code": {"type": "string", "enum": sorted(set(CODES.values()))},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}
