"""What the API answers when it does not do what was asked: always problem details (RFC 9457), with a status that fits."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from indoubt.collector.history.journal import JournalUnanswered
from indoubt.collector.history.store import StoreFailed
from indoubt.collector.records.orders import InvalidOrder
from indoubt.collector.serve.api.auth.rate_limits import TooManyRequests
from indoubt.collector.serve.api.paging import InvalidCursor
from indoubt.lifecycle.errors import IndoubtError, OrderRefused, ResourceManagerError

MEDIA_TYPE = "application/problem+json"
NO_TYPE = "about:blank"
"""The type of a problem that its status and code name already, as RFC 9457 has it; its title is then the status' own."""
CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "bad_request",
    409: "order_refused",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    500: "internal",
    503: "unavailable",
    504: "unanswered",
}


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error's answer; ``detail``: what, which, what to do."""
    said = {
        "type": NO_TYPE,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": CODES.get(status, "error"),
    }
    return JSONResponse(said, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def handle_errors(app: FastAPI) -> None:
    """Have every error that is raised on purpose answered by problem details; the others are the guard's."""

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = _methods(app, request)
        if error.status_code == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return problem(error.status_code, str(error.detail), headers)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return problem(422, f"parameter {first['loc'][-1]!r}: {first['msg']}")

    @app.exception_handler(IndoubtError)
    def failed(_: Request, error: IndoubtError) -> JSONResponse:
        match error:
            case OrderRefused():
                return problem(409, str(error))
            case InvalidOrder() | InvalidCursor():
                return problem(422, str(error))
            case TooManyRequests():
                return problem(429, str(error), {"Retry-After": str(error.retry_after_s)})
            case JournalUnanswered():
                return problem(504, str(error))
            case StoreFailed() | ResourceManagerError():
                return problem(503, str(error))
            case _:
                return problem(500, str(error))


def _methods(app: FastAPI, request: Request) -> str:
    """Return the methods of every route at the path that was asked for; Starlette names those of the first one."""
    there = [
        route for route in app.routes if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    return ", ".join(sorted({method for route in there for method in route.methods or ()}))
