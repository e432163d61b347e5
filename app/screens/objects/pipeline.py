"""The page of one application: its pipeline or job, what it has open, how its timeout stands, and its alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import brush
from indoubt.app.components.incident_note import application_note
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.pipeline_standing import PipelineStanding
from indoubt.app.components.small_plots import hatched
from indoubt.app.components.stacked_bars import Bars, stacked_bars
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, at, duration, exact, time_left
from indoubt.app.components.verdict_signs import CHECKPOINT_SIGNS, Tone, badge, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import over_time
from indoubt.app.screens.objects.object_sections import (
    alert_list,
    open_table,
    order_list,
    orders_about,
    page_address,
    share,
    under_way,
)
from indoubt.app.screens.pipelines import pipeline_card
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.ends import AbortRow
from indoubt.lifecycle.rows.pipelines import CheckpointRow, JobRow, TimeoutRow
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.rows.restores import RestoreRow
from indoubt.lifecycle.rows.transactions import TransactionRow

CHECKPOINTS_SHOWN = 30
MOST_OPEN = 100
ENDED_LOOKED_AT = 500


def show() -> None:
    """Write the page."""
    name = st.query_params.get("name", "")
    with st.container(key="pipeline"):
        show_region("pipeline", {"name": name})
    live.auto_refresh(_share, every_s=live.CHARTS_EVERY_S)
    over_time.show(name)
    live.auto_refresh(_past, every_s=live.CHARTS_EVERY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the collector knows of an application now; ``managed``: its pipeline, None where it has none of indoubt's."""

    managed: PipelineStanding | None
    jobs: Sequence[JobRow]
    timeout: TimeoutRow | None
    running: Rows[TransactionRow]
    alerts: Sequence[AlertRow]
    orders: Sequence[AuditRow]

    @classmethod
    def of(cls, client: CollectorClient, name: str) -> _Known:
        """Ask the collector. Raises CollectorError."""
        managed = next((row for row in client.pipelines() if row.pipeline == name), None)
        return cls(
            managed=PipelineStanding.of(managed, client.incidents(keys=[name])) if managed is not None else None,
            jobs=[row for row in client.jobs() if row.pipeline == name],
            timeout=next((row for row in client.timeouts() if row.pipeline == name), None),
            running=client.transactions(pipeline=name, limit=MOST_OPEN),
            alerts=[alert for alert in client.alerts() if alert.labels.get("pipeline") == name],
            orders=orders_about(client, [managed.key]) if managed is not None else (),
        )


def _share() -> None:
    name, client = st.query_params.get("name", ""), live.collector()
    address, known = page_address(page_paths.pipeline(name)), _Known.of(client, name)
    note = application_note(
        name,
        link=address,
        at_ms=client.status().now_ms,
        pipeline=known.managed.row if known.managed is not None else None,
        jobs=known.jobs,
        needs=known.managed.needs if known.managed is not None else None,
        running=known.running,
        checkpoints=client.checkpoints(pipeline=name, limit=CHECKPOINTS_SHOWN),
        timeout=known.timeout,
        alerts=known.alerts,
        orders=known.orders,
    )
    share(address, note, f"incident-{name}.md")


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the upper part of the page for the application ``name``."""
    name = query.get("name", "")
    known = _Known.of(client, name)
    content: RegionContent = {"path": el("h2", name, class_="object-name")}
    if known.managed is not None:
        content["pipeline"] = pipeline_card(known.managed, is_listed=False)
        content["under-way"] = under_way(client, [known.managed.row.key])
    for job in known.jobs:
        content[f"job-{job.cluster}-{job.job}"] = _job(job)
    if known.managed is None and not known.jobs:
        text = "indoubt cannot restart it: it has no supervisor here, and no watched Flink runs it. Ask its owner."
        content["foreign"] = el("p", text, class_="empty")
    running = known.running
    more = f" and {running.more:,} more" if running.more else ""
    heading = el("h3", "Not settled", el("small", f" {counted(len(running), 'transaction')}{more}"))
    nothing = el("p", "✔ Nothing of it is open or lost.", class_="empty")
    content["open"] = el("section", heading, open_table(running) if running else nothing)
    if known.managed is not None:
        content["orders"] = order_list(known.orders)
    content["timeout"] = _timeout(known.timeout)
    content["alerts"] = alert_list(known.alerts)
    return content


def _job(job: JobRow) -> Html:
    restored = job.restored_from is not None and el(
        "span", f"restored from checkpoint {job.restored_from} at ", at(job.restored_at_ms)
    )
    restarts = f"{amount(job.restarts)} restarts" if job.restarts is not None else "restarts unknown"
    said = el(
        "div",
        el("div", el("b", f"{job.name}: {job.state}", class_="name"), el("small", f" Flink job {job.job} on {job.cluster}"),
           class_="title"),
        el("div", job.started_at_ms is not None and el("span", "started ", at(job.started_at_ms)), el("span", restarts),
           restored, class_="facts-line"),
        class_="said",
    )  # fmt: skip
    return el("article", said, class_="card calm")


def _timeout(row: TimeoutRow | None) -> Html:
    if row is None:
        return el("section")
    lengths = f"p50 {duration(row.p50_ms)}, p99 {duration(row.p99_ms)}, longest {duration(row.longest_ms)}"
    text = f"Timeout {duration(row.timeout_ms)}. {row.advice}"
    return el("section", el("h3", "Its timeout"), el("p", text),
              el("p", f"Open in the last 24 hours: {lengths}; {row.timed_out} of {row.transactions:,} timed out."))  # fmt: skip


def _past() -> None:
    name = st.query_params.get("name", "")
    _waits(name)
    _restores(name)
    times = brush.asked()
    checkpoints = live.collector().checkpoints(pipeline=name, limit=CHECKPOINTS_SHOWN, **times)
    aborts = live.collector().aborts(pipeline=name, limit=ENDED_LOOKED_AT, **times)
    live.write(el("h3", "Checkpoints", el("small", f" the newest {len(checkpoints)}")))
    with st.container(key="pipeline-checkpoints"):
        live.write(_checkpoints(checkpoints) if checkpoints else el("p", "None is known.", class_="empty"))
    more = f" the newest {len(aborts):,}, {aborts.more:,} earlier not shown" if aborts.more else ""
    live.write(el("h3", "Aborted and lost", el("small", more)))
    with st.container(key="pipeline-aborts"):
        rows = [_abort(row) for row in aborts]
        head = ["Ended", "Transaction", "How", "Cause", "Open for", "Rows"]
        live.write(table(head, rows) if rows else el("p", "None.", class_="empty"))


def _waits(name: str) -> None:
    """Write how long readers waited; a stretch of it that is chosen filters the tables below."""
    window = st.session_state.get("window") or over_time.WINDOW
    series = live.collector().series(window_ms=over_time.WINDOWS[window], pipeline=name)
    row = next((row for row in series.applications if row.pipeline == name), None)
    live.write(el("h3", "Readers waited for it", el("small", f" the last {window}; a bar chooses its time")))
    if row is None or not any(row.longest_wait_ms):
        live.write(el("p", "No reader waited.", class_="empty"))
    else:
        waits_ms = row.longest_wait_ms
        bars = Bars(
            from_ms=series.from_ms,
            length_ms=series.bucket_ms,
            bars=len(waits_ms),
            counts={(place, "wait"): wait_ms for place, wait_ms in enumerate(waits_ms) if wait_ms},
        )
        kinds, alt = {"wait": "longest wait"}, "Longest wait of readers over time"
        path, unseen = partial(brush.address, "/pipeline"), hatched(waits_ms)
        live.write(stacked_bars(bars, kinds, text=duration, alt=alt, zone=live.zone(), path=path, unseen=unseen))
    brush.say("waits", live.zone())


def _restores(name: str) -> None:
    """Write what a restore would lose or write twice, of the newest job of the name."""
    job = next((row for row in live.collector().jobs() if row.pipeline == name), None)
    if job is None:
        return
    rows = live.collector().restores(job.job)
    state = "from one of its retained checkpoints" if job.state == "RUNNING" else f"it is {job.state}"
    live.write(el("h3", "If it is restored", el("small", f" {state}; job {job.job}")))
    with st.container(key="pipeline-restores"):
        nothing = el("p", "No retained checkpoint of it was read: is its directory watched?", class_="empty")
        head = ["Checkpoint", "Written", "Lost", "Written twice", "To commit first", "What a restore from it does"]
        live.write(table(head, [_restore(row) for row in rows]) if rows else nothing)


def _restore(row: RestoreRow) -> list[object]:
    is_safe = row.is_safe and not row.doubts
    sign, tone = ("✔", Tone.GOOD) if is_safe else ("?", Tone.NOTICE) if row.is_safe else ("✖", Tone.URGENT)
    return [
        badge(sign, f"{row.checkpoint}{' (newest)' if row.is_newest else ''}", tone, row.path),
        at(row.written_at_ms),
        amount(row.lost),
        amount(row.twice),
        el("span", amount(row.commits), " ", row.deadline_ms is not None and time_left(row.deadline_ms)),
        el(
            "span",
            f"{row.advice} ({row.certainty.value})",
            *(el("div", f"But {doubt}.", class_="why") for doubt in row.doubts),
        ),
    ]


def _abort(row: AbortRow) -> list[object]:
    return [
        exact(row.at_ms),
        link(page_paths.transaction(row.key), row.transaction),
        row.verdict.value,
        f"{row.cause.value} ({row.certainty})",
        duration(row.open_ms),
        amount(row.rows),
    ]


def _checkpoints(rows: Sequence[CheckpointRow]) -> Html:
    cells = [
        [
            link(page_paths.batch(row.pipeline, row.number), str(row.number)),
            word_badge(CHECKPOINT_SIGNS, row.state.value),
            at(row.started_at_ms),
            duration(row.duration_ms),
            amount(row.transactions),
            amount(row.rows),
            row.reason or "–",
        ]
        for row in rows
    ]
    return table(["Checkpoint", "State", "Started", "Took", "Transactions", "Rows", "Why it failed"], cells)
