"""The OpenAPI document: FastAPI tells routes and parameters, the answers and errors are described here.

A table's route is named like its columns in ``table_schemas``, and described by them: a new table describes itself.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from collector import answer_schemas, table_schemas
from collector.error_answers import CODES

ARROW = "application/vnd.apache.arrow.stream"
PREFIX = "/api/v1/"
HEALTH = ("get", "/api/v1/health")
"""Answers 503 in the shape of its 200."""
TOKEN_AT_TIMES = ("/metrics",)
"""Paths that want a token unless a setting says otherwise."""
Json = dict[str, Any]
_DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "No valid token was sent.",
    403: "The token's role, or read-only mode, does not allow it.",
    404: "There is none of that name.",
    409: "Refused: it is not safe, or the evidence changed. Nothing was done.",
    413: "The body is too long.",
    422: "A parameter or a field is wrong; the message names it.",
    429: "Too many requests, orders or failed authentications; Retry-After says when to come back.",
    500: "Unexpected: the collector's log says more.",
    503: "History is being loaded or cannot be written, or a broker or database cannot be asked.",
}
_COLUMN_KINDS = {pa.string(): ["string", "null"], pa.int64(): ["integer", "null"], pa.float64(): ["number", "null"]}


def document(app: FastAPI) -> Json:
    """Return the document of an application's routes, with the answers and errors that each can give."""
    made = get_openapi(title=app.title, version="1", routes=app.routes)
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _describe(method, path, operation)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Error"] = _error_schema()
    return made


def _describe(method: str, path: str, operation: Json) -> None:
    body = answer_schemas.BODIES.get((method, path))
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    headers = answer_schemas.HEADERS.get((method, path), {})
    operation.setdefault("parameters", []).extend(
        {"name": name, "in": "header", "required": False, "schema": schema} for name, schema in headers.items()
    )
    found = {status: answer for status, answer in operation["responses"].items() if status < "4"}
    described = _answer(method, path)
    if described is not None:
        status = next(iter(found), "200")
        found[status] = {"description": "What was asked for.", "content": described}
    found |= {str(status): _error(status) for status in _statuses(method, path, operation)}
    if path in TOKEN_AT_TIMES:
        operation["security"] = [{}, {"HTTPBearer": []}]
    if (method, path) == HEALTH:
        found["503"] = found.get("200", found["503"])
    operation["responses"] = found


def _answer(method: str, path: str) -> Json | None:
    """Return the content of the answer that a route gives when all is well, or None when its own annotation tells it."""
    if (method, path) in answer_schemas.ANSWERS:
        return {"application/json": {"schema": answer_schemas.ANSWERS[method, path]}}
    if (method, path) in answer_schemas.TEXTS:
        return {answer_schemas.TEXTS[method, path]: {"schema": {"type": "string"}}}
    columns = getattr(table_schemas, path.removeprefix(PREFIX).upper(), None)
    if method == "get" and isinstance(columns, dict):
        rows = {"type": "array", "items": row_schema(columns)}
        return {
            "application/json": {"schema": answer_schemas.table_of(rows)},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        }
    return None


def row_schema(columns: dict[str, pa.DataType]) -> Json:
    """Return the schema of a table's row: its columns and no others; a column that Arrow has as JSON text may hold a list."""
    properties = {name: _column(name, kind) for name, kind in columns.items()}
    return {**answer_schemas.object_of(**properties), "additionalProperties": False}


def _column(name: str, kind: pa.DataType) -> Json:
    if kind == pa.string() and name in answer_schemas.NESTED_COLUMNS:
        return answer_schemas.NESTED_COLUMNS[name]
    return {"type": "boolean"} if kind == pa.bool_() else {"type": _COLUMN_KINDS[kind]}


def _statuses(method: str, path: str, operation: Json) -> list[int]:
    """Return the errors that the shared parts of the API can answer with before, in and after a route of this kind."""
    found = [500, 503]
    if operation.get("security") or path in TOKEN_AT_TIMES:
        found += [401, 429]
    if operation.get("parameters") or "requestBody" in operation:
        found.append(422)
    if "{" in path:
        found.append(404)
    if method != "get":
        found += [403, 409]
    if "requestBody" in operation:
        found += [400, 413]
    return sorted(found)


def _error(status: int) -> Json:
    answer: Json = {
        "description": _DESCRIPTIONS[status],
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    if status == 429:
        answer["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}
    return answer


def _error_schema() -> Json:
    code = {"type": "string", "enum": sorted(set(CODES.values()))}
    message = {"type": "string", "description": "What, which, what to do."}
    return answer_schemas.object_of(error=answer_schemas.object_of(code=code, message=message))
