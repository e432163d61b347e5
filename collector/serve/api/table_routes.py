"""The API's tables: each answers a page of rows, in the columns of the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import Response

from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.pipelines import pipeline_row
from indoubt.collector.history import sql
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api import listings
from indoubt.collector.serve.api.answers import Table, table_answer
from indoubt.collector.serve.api.dependencies import ApiDependencies, caller_of_request
from indoubt.collector.serve.api.overview import incidents_about
from indoubt.collector.serve.api.paging import Page, first, page, place_of
from indoubt.collector.verdicts.driver_state import gives_signs
from indoubt.collector.verdicts.timeout_risk import by_risk
from indoubt.collector.views import aborts_and_losses, restore_advice
from indoubt.collector.views.application_names import applications_of_hanging, applications_of_holders
from indoubt.collector.views.partition_rows import blocked_rows, hanging_rows
from indoubt.collector.views.past_batches import Attempts
from indoubt.collector.views.pipeline_rows import (
    checkpoint_at_ms,
    checkpoint_row,
    checkpoint_sort_key,
    job_row,
    timeout_row,
)
from indoubt.collector.views.timeouts import cached_lengths, timeouts
from indoubt.collector.views.transaction_rows import count_rows
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.ends import AbortRow, LossRow
from indoubt.lifecycle.rows.incidents import Incident
from indoubt.lifecycle.rows.orders import UnderWayRow
from indoubt.lifecycle.rows.partitions import BlockedRow, HangingRow
from indoubt.lifecycle.rows.pipelines import CheckpointRow, IdsRow, JobRow, PipelineRow, TimeoutRow
from indoubt.lifecycle.rows.records import AuditRow, QuarantinedRow
from indoubt.lifecycle.rows.restores import RestoreRow
from indoubt.lifecycle.rows.transactions import TransactionCountRow, TransactionRow

MAX_LIMIT = 100_000
MAX_CURSOR = 2_000
MAX_KEYS = 100
MAX_WORDS = 500
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
Keys = Annotated[list[str], Query(default_factory=list, max_length=MAX_KEYS, description="May be given several times.")]
Words = Annotated[
    str,
    Query(
        max_length=MAX_WORDS, description="All of them in its id, application, batch, resource manager or partitions."
    ),
]
Text = Annotated[
    str, Query(max_length=MAX_WORDS, description="Together, in who, action, reason, outcome, detail or keys.")
]
Until = Annotated[int | None, Query(ge=0, le=MAX_WHOLE_NUMBER, description="At this time or before, epoch ms.")]
After = Annotated[str | None, Query(max_length=MAX_CURSOR, description="The page behind it: what `next` was.")]


def serve(app: FastAPI, dependencies: ApiDependencies) -> None:
    """Add the routes of the tables."""
    _serve_transactions(app, dependencies)
    _serve_incidents(app, dependencies)
    _serve_pipelines(app, dependencies)
    _serve_timeouts(app, dependencies)
    _serve_partitions(app, dependencies)
    _serve_records(app, dependencies)


def _serve_transactions(app: FastAPI, dependencies: ApiDependencies) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/transactions", response_model=Table[TransactionRow], dependencies=protected)
    def transactions(
        all: bool = False,
        verdict: str | None = None,
        certainty: str | None = None,
        pipeline: str | None = None,
        resource_manager: str | None = None,
        checkpoint: int | None = None,
        words: Words = "",
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        query = listings.ListQuery(
            settled=all,
            verdict=verdict,
            certainty=certainty,
            pipeline=pipeline,
            resource_manager=resource_manager,
            checkpoint=checkpoint,
            words=words,
            limit=limit,
            after=after,
        )
        return table_answer(listings.transactions(dependencies.current, dependencies.assessor.now(), query))

    @app.get("/api/v1/transaction-counts", response_model=Table[TransactionCountRow], dependencies=protected)
    def transaction_counts(pipeline: str | None = None, words: Words = "", limit: Limit = 500) -> Response:
        found = [judged for judged in dependencies.assessor.now().judged if pipeline in (None, judged.view.pipeline)]
        rows = count_rows(listings.having(found, words) if words else found)
        return table_answer(first(rows, limit))

    @app.get("/api/v1/aborts", response_model=Table[AbortRow], dependencies=protected)
    def aborts(
        cause: Keys,
        since_ms: int = 0,
        pipeline: str | None = None,
        until_ms: Until = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        query = listings.ListQuery(pipeline=pipeline, until_ms=until_ms, limit=limit, after=after)
        found = listings.aborts(dependencies.current, dependencies.store, query, causes=cause, since_ms=since_ms)
        return table_answer(found)

    @app.get("/api/v1/losses", response_model=Table[LossRow], dependencies=protected)
    def losses(
        verdict: Keys,
        pipeline: str | None = None,
        transaction: str | None = None,
        all: bool = False,
        since_ms: int = 0,
        until_ms: Until = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        query = listings.ListQuery(settled=all, pipeline=pipeline, until_ms=until_ms, limit=limit, after=after)
        found = listings.losses(
            dependencies.current,
            dependencies.store,
            query,
            verdicts=verdict,
            transaction=transaction,
            since_ms=since_ms,
        )
        return table_answer(found)


def _serve_incidents(app: FastAPI, dependencies: ApiDependencies) -> None:
    @app.get("/api/v1/incidents", response_model=Table[Incident], dependencies=[Depends(caller_of_request)])
    def incidents(key: Keys, limit: Limit = 500) -> Response:
        return table_answer(first(incidents_about(dependencies.assessor.now(), key), limit))


def _serve_pipelines(app: FastAPI, dependencies: ApiDependencies) -> None:
    protected = [Depends(caller_of_request)]
    attempts = Attempts(dependencies.current, dependencies.store)

    @app.get("/api/v1/batches", response_model=Table[BatchRow], dependencies=protected)
    def batches(
        pipeline: str | None = None,
        batch: int | None = None,
        verdict: str | None = None,
        over: bool | None = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        query = listings.ListQuery(verdict=verdict, pipeline=pipeline, limit=limit, after=after)
        found = listings.batches(dependencies.current, attempts, query, batch, over)
        return table_answer(found)

    @app.get("/api/v1/checkpoints", response_model=Table[CheckpointRow], dependencies=protected)
    def checkpoints(
        pipeline: str | None = None,
        since_ms: int = 0,
        until_ms: Until = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        known = (c for c in dependencies.current.checkpoints() if pipeline in (None, c.pipeline))
        found = [
            c for c in known if since_ms <= checkpoint_at_ms(c) <= (MAX_WHOLE_NUMBER if until_ms is None else until_ms)
        ]
        of_batch = dependencies.current.transactions_of_batches()
        of_flink = dependencies.current.flink.transactions_of_checkpoints()
        of_sinks = dependencies.current.flink.commits_of_sinks()
        behind = place_of(after, int, int, str, str, str)

        def row(checkpoint: CheckpointFacts) -> CheckpointRow:
            listed = of_flink.get((checkpoint.job, checkpoint.number)) if checkpoint.job else None
            of_ours = of_batch.get((checkpoint.pipeline, checkpoint.number)) if not checkpoint.job else None
            sinks = of_sinks.get((checkpoint.job, checkpoint.number), ()) if checkpoint.job else ()
            return checkpoint_row(checkpoint, of_ours if listed is None else (listed, None), sinks)

        shown = page(found, checkpoint_sort_key, row, limit, behind)
        return table_answer(shown)

    @app.get("/api/v1/jobs", response_model=Table[JobRow], dependencies=protected)
    def jobs(limit: Limit = 500) -> Response:
        return table_answer(first([job_row(job) for job in dependencies.current.jobs()], limit))

    @app.get("/api/v1/restores", response_model=Table[RestoreRow], dependencies=protected)
    def restores(job: str) -> Response:
        current, store = dependencies.current, dependencies.store
        named = restore_advice.jobs_named(current, job)
        if len(named) != 1:
            some = f"is the name of several jobs: give one id of {', '.join(id_ for _, id_ in named)}"
            raise HTTPException(404, f"{job} {some if named else 'is the id or name of no Flink job that is known'}")
        rows = restore_advice.restore_rows(current, store, *named[0])
        return table_answer(first(rows, len(rows)))

    @app.get("/api/v1/pipelines", response_model=Table[PipelineRow], dependencies=protected)
    def pipelines(pipeline: str | None = None, limit: Limit = 500) -> Response:
        found = [run for run in dependencies.current.newest_runs() if pipeline in (None, run.facts.pipeline)]
        found.sort(key=lambda run: run.facts.pipeline)
        at_ms, limits = now_ms(), dependencies.current.limits
        drivers = dependencies.assessor.now().situation.drivers
        restarts = {driver.run.facts.pipeline: driver.restart for driver in drivers}
        rows = [
            pipeline_row(
                run,
                may_start=run.facts.pipeline in dependencies.startable and not gives_signs(run, limits, at_ms),
                restart=restarts.get(run.facts.pipeline),
            )
            for run in found
        ]
        return table_answer(first(rows, limit))

    @app.get("/api/v1/ids", response_model=Table[IdsRow], dependencies=protected)
    def ids(limit: Limit = 500, after: After = None) -> Response:
        reports, behind = aborts_and_losses.id_reports(dependencies.current), place_of(after, int, str)
        found = page(reports, lambda row: (-row.ids, row.prefix), lambda row: row, limit, behind)
        return table_answer(found)


def _serve_timeouts(app: FastAPI, dependencies: ApiDependencies) -> None:
    lengths = dependencies.refresher.add(cached_lengths(dependencies.current, dependencies.store))

    @app.get("/api/v1/timeouts", response_model=Table[TimeoutRow], dependencies=[Depends(caller_of_request)])
    def risks(pipeline: str | None = None, limit: Limit = 500, after: After = None) -> Response:
        known = timeouts(dependencies.current, lengths, dependencies.foreign_recovery_ms)
        found = [timeout for timeout in known if pipeline in (None, timeout.lengths.application)]
        shown = page(found, by_risk, timeout_row, limit, place_of(after, int, int, str))
        return table_answer(shown)


def _serve_partitions(app: FastAPI, dependencies: ApiDependencies) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/blocked", response_model=Table[BlockedRow], dependencies=protected)
    def blocked(all: bool = False, topic: str | None = None, limit: Limit = 500) -> Response:
        findings = dependencies.partitions()
        with dependencies.current.reading() as state:
            applications = applications_of_holders(state, findings.blocked)
        rows = blocked_rows(findings, now_ms(), applications, every=all, topic=topic)
        return table_answer(first(rows, limit))

    @app.get("/api/v1/hanging", response_model=Table[HangingRow], dependencies=protected)
    def hanging(limit: Limit = 500) -> Response:
        findings = dependencies.partitions()
        with dependencies.current.reading() as state:
            applications = applications_of_hanging(state, findings.hanging)
        return table_answer(first(hanging_rows(findings, applications), limit))


def _serve_records(app: FastAPI, dependencies: ApiDependencies) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/audit", response_model=Table[AuditRow], dependencies=protected)
    def audit(key: Keys, words: Text = "", limit: Limit = 500, after: After = None) -> Response:
        before, keys = place_of(after, int) or sql.AUDIT_FROM_NEWEST, [json.dumps(each) for each in key]
        wanted = (words, keys, *before)
        rows = [audit_row(row) for row in dependencies.store.named_rows(sql.AUDIT, *wanted, limit)]
        ((total,),) = dependencies.store.rows(sql.AUDIT_BEFORE, *wanted)
        last = (rows[-1].audit,) if rows else None
        return table_answer(Page(rows=rows, more=max(0, total - len(rows)), last=last))

    @app.get("/api/v1/orders/under-way", response_model=Table[UnderWayRow], dependencies=protected)
    def under_way(key: Keys, limit: Limit = 500) -> Response:
        rows = [under_way_row(intent) for intent in dependencies.actions.under_way()]
        found = [row for row in rows if not key or not set(key).isdisjoint(row.keys)]
        return table_answer(first(found, limit))

    @app.get("/api/v1/quarantined", response_model=Table[QuarantinedRow], dependencies=protected)
    def quarantined(limit: Limit = 500, after: After = None) -> Response:
        before = place_of(after, int, int, str, int) or sql.QUARANTINED_FROM_NEWEST
        dependencies.store.catch_up()
        rows = [QuarantinedRow(**row) for row in dependencies.store.named_rows(sql.QUARANTINED, *before, limit)]
        ((total,),) = dependencies.store.rows(sql.QUARANTINED_BEFORE, *before)
        last = (rows[-1].at_ms, rows[-1].offset, rows[-1].source, rows[-1].partition) if rows else None
        return table_answer(Page(rows=rows, more=max(0, total - len(rows)), last=last))


def audit_row(row: Mapping[str, Any]) -> AuditRow:
    """Return a row of GET /audit from one of history."""
    return AuditRow(**{**row, "keys": tuple(json.loads(row["keys"])), "evidence": tuple(json.loads(row["evidence"]))})


def under_way_row(intent: Intent) -> UnderWayRow:
    """Return a row of GET /orders/under-way."""
    keys = [planned.key for planned in intent.actions]
    return UnderWayRow(
        at_ms=intent.at_ms,
        who=intent.who,
        action=intent.action.value,
        keys=tuple(key for key in keys if intent.first_audit is None or key in intent.unknown),
        reason=intent.reason,
        audit=intent.first_audit,
    )
