"""The API's part about alerts: what fires, what is silenced, and /metrics."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import Response

from collector import alert_rules, answer_schemas, metrics, silences, table_schemas
from collector.alert_service import AlertService
from collector.alert_store import Outlook, alert_json
from collector.alerting import Alerting, ShownAlert
from collector.authentication import Caller
from collector.clock import now_ms
from collector.paging import Page, first
from collector.request_body import json_object
from collector.served import KnownCaller, Served, caller_of_request
from collector.settings import MetricsAccess
from collector.silences import REASON_LEAST, REASON_MOST, InvalidSilence, Silence
from collector.table_api import Limit, table_answer
from collector.token_file import Role

_NAMES = {rule.number: rule.name for rule in alert_rules.RULES}
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
Reason = Annotated[str, Query(min_length=REASON_LEAST, max_length=REASON_MOST, pattern=answer_schemas.THREE_VISIBLE)]


def serve(app: FastAPI, served: Served, alerts: AlertService, access: MetricsAccess, pipelines_most: int) -> None:
    """Add the routes of alerts, silences and metrics."""
    alerting = alerts.alerting
    _serve_silences(app, alerting)
    labels = metrics.PipelineLabels(pipelines_most)

    @app.get("/api/v1/alerts", dependencies=[Depends(caller_of_request)])
    def read_alerts(
        request: Request,
        state: str | None = None,
        rule: str | None = None,
        severity: str | None = None,
        pipeline: str | None = None,
        limit: Limit = 500,
    ) -> Response:
        rows = [alert_row(one) for one in alerting.alerts()]
        found = [
            row
            for row in rows
            if state in (None, row["state"])
            and rule in (None, row["rule"])
            and severity in (None, row["severity"])
            and pipeline in (None, row["labels"].get("pipeline"))
        ]
        return table_answer(request, table_schemas.ALERTS, first(found, limit))

    @app.get("/api/v1/receivers", dependencies=[Depends(caller_of_request)])
    def read_receivers(request: Request) -> Response:
        return table_answer(
            request, table_schemas.RECEIVERS, Page(rows=[receiver_row(one) for one in alerts.outlooks()])
        )

    @app.get("/metrics")
    def read_metrics(request: Request) -> Response:
        if not (access is MetricsAccess.LOOPBACK and _is_from_here(request)):
            caller_of_request(request)
        elif not served.is_ready():
            raise HTTPException(503, "history is being loaded: ask again in a moment")
        seen = metrics.see(served, alerts, now_ms())
        return Response(metrics.exposition(metrics.families(seen, labels)), media_type=metrics.CONTENT_TYPE)


def _serve_silences(app: FastAPI, alerting: Alerting) -> None:
    @app.get("/api/v1/silences", dependencies=[Depends(caller_of_request)])
    def read_silences(request: Request, limit: Limit = 500) -> Response:
        at_ms = now_ms()
        rows = [silence_row(silence, at_ms) for silence in alerting.silences()]
        return table_answer(request, table_schemas.SILENCES, first(rows, limit))

    @app.post("/api/v1/silences")
    async def silence(request: Request, caller: KnownCaller) -> dict[str, Any]:
        body = await json_object(request, "a silence")
        return await asyncio.to_thread(_silence, alerting, body, caller)

    @app.delete("/api/v1/silences/{number}")
    def end_silence(caller: KnownCaller, number: int, reason: Reason) -> dict[str, Any]:
        return _end_silence(alerting, number, reason, caller)


def alert_row(shown: ShownAlert) -> dict[str, Any]:
    """Return a row of GET /alerts."""
    value = alert_json(shown.alert)
    names = (
        "key",
        "rule",
        "state",
        "severity",
        "summary",
        "evidence",
        "labels",
        "since_ms",
        "found_at_ms",
        "fired_at_ms",
    )
    return {
        **{name: value[name] for name in names},
        "name": _NAMES[value["rule"]],
        "group": shown.alert.finding.group,
        "silenced_by": shown.silence.number if shown.silence is not None else None,
    }


def receiver_row(outlook: Outlook) -> dict[str, Any]:
    """Return a row of GET /receivers."""
    return {
        "receiver": outlook.receiver,
        "waiting": outlook.waiting,
        "oldest_at_ms": outlook.oldest_ms,
        "given_up": outlook.given_up,
        "error": outlook.error,
    }


def silence_row(silence: Silence, at_ms: int) -> dict[str, Any]:
    """Return a row of GET /silences."""
    return {
        "silence": silence.number,
        "matchers": dict(silence.matchers),
        "reason": silence.reason,
        "author": silence.author,
        "starts_at_ms": silence.starts_ms,
        "ends_at_ms": silence.ends_ms,
        "state": "active" if silence.starts_ms <= at_ms < silence.ends_ms else "ended",
    }


def _silence(alerting: Alerting, body: Any, caller: Caller) -> dict[str, Any]:
    at_ms = now_ms()
    try:
        silence = silences.read(body, caller.name, at_ms)
    except InvalidSilence as error:
        raise HTTPException(422, str(error)) from None
    _check_operator(alerting, caller, "silence", silence.reason)
    return silence_row(alerting.silence(silence), at_ms)


def _end_silence(alerting: Alerting, number: int, reason: str, caller: Caller) -> dict[str, Any]:
    try:
        given = silences.read_reason(reason)
    except InvalidSilence as error:
        raise HTTPException(422, str(error)) from None
    _check_operator(alerting, caller, "end silence", given)
    ended = alerting.end_silence(number, caller.name, given)
    if ended is None:
        raise HTTPException(404, f"there is no silence {number}: GET /api/v1/silences lists them")
    return silence_row(ended, now_ms())


def _check_operator(alerting: Alerting, caller: Caller, action: str, reason: str) -> None:
    if caller.role is Role.OPERATOR:
        return
    why = f"{caller.name} is a viewer: silences need an operator's token"
    audit = alerting.refuse(caller.name, action, reason, why)
    raise HTTPException(403, f"{why} (audit {audit})")


def _is_from_here(request: Request) -> bool:
    """Say whether nobody but this machine can have asked: a proxy's requests come from here too, and say so."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
