"""The API's part about alerts: what fires, what is silenced, and /metrics."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import PlainTextResponse, Response

from indoubt.collector.assess import rules
from indoubt.collector.config.variables import MetricsAccess
from indoubt.collector.notify import silences
from indoubt.collector.notify.evaluator import AlertEvaluator, ShownAlert, urgency
from indoubt.collector.notify.service import AlertService
from indoubt.collector.notify.silences import Silence
from indoubt.collector.notify.state_machine import AlertState
from indoubt.collector.notify.store import ReceiverStatus
from indoubt.collector.records.standing_orders import NO_STANDING_ORDERS, StandingReport
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api import metrics
from indoubt.collector.serve.api.answers import Table, row_answer, table_answer
from indoubt.collector.serve.api.application_metrics import ApplicationEnds, PipelineLabels
from indoubt.collector.serve.api.auth.authentication import Caller
from indoubt.collector.serve.api.dependencies import (
    ApiDependencies,
    KnownCaller,
    admitted,
    caller_of_request,
    json_object,
)
from indoubt.collector.serve.api.paging import Page, SortKey, first, page, place_of
from indoubt.collector.serve.api.table_routes import After, Limit
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.rows.alerts import AlertRow, ReceiverRow, SilenceRow
from indoubt.lifecycle.rows.order_request import MAX_REASON, MIN_REASON, THREE_VISIBLE

WITHOUT_TOKEN = Caller(name="clients without a token", role=Role.VIEWER)
"""All of them share one limit."""
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
Reason = Annotated[str, Query(min_length=MIN_REASON, max_length=MAX_REASON, pattern=THREE_VISIBLE)]


def serve(
    app: FastAPI,
    dependencies: ApiDependencies,
    alerts: AlertService,
    access: MetricsAccess,
    max_pipelines: int,
    standing: Callable[[], StandingReport] = lambda: NO_STANDING_ORDERS,
) -> None:
    """Add the routes of alerts, silences and metrics."""
    evaluator = alerts.evaluator
    _serve_silences(app, evaluator)
    labels = PipelineLabels(max_pipelines)
    ends = ApplicationEnds(labels)

    @app.get("/api/v1/alerts", response_model=Table[AlertRow], dependencies=[Depends(caller_of_request)])
    def read_alerts(
        state: str | None = None,
        rule: str | None = None,
        severity: str | None = None,
        pipeline: str | None = None,
        over: bool | None = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        found = [
            shown
            for shown in evaluator.alerts()
            if state in (None, shown.alert.state.value)
            and rule in (None, shown.alert.finding.rule)
            and severity in (None, shown.alert.finding.severity.value)
            and pipeline in (None, shown.alert.finding.labels.get("pipeline"))
            and over in (None, shown.alert.state is AlertState.RESOLVED)
        ]
        place = _newest_place if over else _urgent_place
        return table_answer(page(found, place, alert_row, limit, place_of(after, int, int, int, str)))

    @app.get("/api/v1/receivers", response_model=Table[ReceiverRow], dependencies=[Depends(caller_of_request)])
    def read_receivers() -> Response:
        rows = [receiver_row(status) for status in alerts.receiver_statuses()]
        return table_answer(Page(rows=rows))

    @app.get("/metrics", response_class=PlainTextResponse)
    def read_metrics(request: Request) -> Response:
        is_open = access is MetricsAccess.ANYONE or (access is MetricsAccess.LOOPBACK and _is_from_here(request))
        if not is_open:
            admitted(request)
        else:
            dependencies.limits.admit(WITHOUT_TOKEN, changes_something=False)
            if not dependencies.is_ready():
                raise HTTPException(503, "history is being loaded: ask again in a moment")
        seen = metrics.see(dependencies, alerts, ends, standing(), now_ms())
        shown = metrics.exposition(metrics.families(seen, labels), dependencies.cluster_name)
        return Response(shown, media_type=metrics.CONTENT_TYPE)


def _serve_silences(app: FastAPI, evaluator: AlertEvaluator) -> None:
    @app.get("/api/v1/silences", response_model=Table[SilenceRow], dependencies=[Depends(caller_of_request)])
    def read_silences(limit: Limit = 500) -> Response:
        at_ms = now_ms()
        rows = [silence_row(silence, at_ms) for silence in evaluator.silences()]
        return table_answer(first(rows, limit))

    @app.post("/api/v1/silences", response_model=SilenceRow)
    async def silence(request: Request, caller: KnownCaller) -> Response:
        body = await json_object(request, "a silence")
        return row_answer(await asyncio.to_thread(_silence, evaluator, body, caller))

    @app.delete("/api/v1/silences/{number}", response_model=SilenceRow)
    def end_silence(caller: KnownCaller, number: int, reason: Reason) -> Response:
        return row_answer(_end_silence(evaluator, number, reason, caller))


def _urgent_place(shown: ShownAlert) -> SortKey:
    return urgency(shown.alert)


def _newest_place(shown: ShownAlert) -> SortKey:
    # Of those that are over the severity is past.
    return (0, 0, -shown.alert.since_ms, shown.alert.finding.key)


def alert_row(shown: ShownAlert) -> AlertRow:
    """Return a row of GET /alerts."""
    alert, finding = shown.alert, shown.alert.finding
    return AlertRow(
        key=finding.key,
        rule=finding.rule,
        state=alert.state.value,
        severity=finding.severity.value,
        summary=finding.summary,
        evidence=finding.evidence,
        labels=finding.labels,
        since_ms=alert.since_ms,
        found_at_ms=alert.found_ms,
        fired_at_ms=alert.fired_ms,
        absent_at_ms=alert.absent_ms,
        name=rules.RULES[finding.rule].name,
        group=finding.group,
        remedy=finding.remedy.value,
        path=finding.path,
        silenced_by=shown.silence.number if shown.silence is not None else None,
    )


def firing_rows(evaluator: AlertEvaluator) -> list[AlertRow]:
    """Return the alerts that fire, are still found and are not silenced, the most severe first."""
    return [
        alert_row(shown)
        for shown in evaluator.alerts()
        if shown.alert.is_firing and shown.alert.absent_ms is None and shown.silence is None
    ]


def receiver_row(status: ReceiverStatus) -> ReceiverRow:
    """Return a row of GET /receivers."""
    return ReceiverRow(
        receiver=status.receiver,
        waiting=status.waiting,
        oldest_at_ms=status.oldest_ms,
        given_up=status.given_up,
        error=status.error,
    )


def silence_row(silence: Silence, at_ms: int) -> SilenceRow:
    """Return a row of GET /silences."""
    return SilenceRow(
        silence=silence.number,
        matchers=dict(silence.matchers),
        reason=silence.reason,
        author=silence.author,
        starts_at_ms=silence.starts_ms,
        ends_at_ms=silence.ends_ms,
        state="active" if silence.starts_ms <= at_ms < silence.ends_ms else "ended",
    )


def _silence(evaluator: AlertEvaluator, body: Any, caller: Caller) -> SilenceRow:
    at_ms = now_ms()
    try:
        silence = silences.read(body, caller.name, at_ms)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    _check_operator(evaluator, caller, "silence", silence.reason)
    return silence_row(evaluator.silence(silence), at_ms)


def _end_silence(evaluator: AlertEvaluator, number: int, reason: str, caller: Caller) -> SilenceRow:
    given = reason.strip()
    _check_operator(evaluator, caller, "end silence", given)
    ended = evaluator.end_silence(number, caller.name, given)
    if ended is None:
        raise HTTPException(404, f"there is no silence {number}: GET /api/v1/silences lists them")
    return silence_row(ended, now_ms())


def _check_operator(evaluator: AlertEvaluator, caller: Caller, action: str, reason: str) -> None:
    if caller.role is Role.OPERATOR:
        return
    why = f"{caller.name} is a viewer: silences need an operator"
    audit = evaluator.refuse(caller.name, action, reason, why)
    raise HTTPException(403, f"{why} (audit {audit})")


def _is_from_here(request: Request) -> bool:
    """Say whether only this machine can have asked: a proxy's requests come from here too, and say so."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
