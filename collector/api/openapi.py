"""The OpenAPI document: routes and parameters are FastAPI's, answers and errors are described here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from collector.api import response_schemas
from collector.api.errors import CODES

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
    body = response_schemas.BODIES.get((method, path))
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    headers = response_schemas.HEADERS.get((method, path), {})
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
    if (method, path) in response_schemas.ANSWERS:
        return {"application/json": {"schema": response_schemas.ANSWERS[method, path]}}
    if (method, path) in response_schemas.TEXTS:
        return {response_schemas.TEXTS[method, path]: {"schema": {"type": "string"}}}
    if method == "get" and path in response_schemas.TABLES:
        return {"application/json": {"schema": response_schemas.table_of(response_schemas.TABLES[path])}}
    return None


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
    return response_schemas.object_of(error=response_schemas.object_of(code=code, message=message))
