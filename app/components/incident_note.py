"""What an engineer pastes into an incident: one object's page as Markdown, with its times, evidence and orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from indoubt.app.client.collector_connection import Rows
from indoubt.app.components.time_text import amount, duration, exact_time
from indoubt.app.components.verdict_signs import outcome_sign
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.partitions import GroupRow, HangingRow, PartitionRow
from indoubt.lifecycle.rows.pipelines import CheckpointRow, JobRow, PipelineRow, TimeoutRow
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.rows.transactions import TransactionDetailRow, TransactionRow
from indoubt.lifecycle.verdicts import Evidence
from indoubt.lifecycle.visible_text import visible

LISTED = 20
"""So many transactions or checkpoints are in a note at most."""
_SPECIAL = "\\`*_{}[]()<>#+-.!|~"


def transaction_note(
    detail: TransactionDetailRow,
    *,
    link: str,
    at_ms: int,
    needs: Attention | None,
    alerts: Sequence[AlertRow],
    orders: Sequence[AuditRow],
) -> str:
    """Return the note as Markdown that ends with a line end; ``needs``: its card of the overview, ``at_ms``: now (epoch ms).

    Times are in UTC. Nothing from outside is read as Markdown.
    """
    batch = f", batch {detail.batch}" if detail.batch is not None else ""
    lines = [
        f"## {_text(detail.pipeline)}{batch}: {detail.verdict.value}",
        "",
        f"Transaction {_code(detail.transaction)}, as of {exact_time(at_ms)}. Page: {link}",
        "",
        *_facts(detail, at_ms),
    ]
    if needs is not None:
        waits = ", ".join(_code(group.group) for group in needs.waits)
        lines += [f"- Who waits: {waits}"] if waits else []
        lines += [f"- Without action: {_text(needs.consequence)}"]
    lines += _section("What happened", (f"{exact_time(step.at_ms)}: {_text(step.what)} ({_text(step.source)})"
                                        for step in detail.timeline))  # fmt: skip
    lines += _section(
        f"Why {detail.verdict.value} (rule {detail.rule}, {detail.certainty.value})", map(_fact, detail.evidence)
    )
    lines += _section("Alerts", map(_alert, alerts))
    lines += _section("Orders", map(_order, orders))
    return "\n".join(lines) + "\n"


def batch_note(
    attempts: Sequence[BatchRow],
    *,
    link: str,
    at_ms: int,
    alerts: Sequence[AlertRow],
    orders: Sequence[AuditRow],
) -> str:
    """Return the note about a batch with one section for each attempt, as ``transaction_note`` does; at least one is there."""
    newest = attempts[0]
    lines = [
        f"## {_text(newest.pipeline)}, batch {newest.batch}: {_text(newest.verdict)}",
        "",
        f"As of {exact_time(at_ms)}. Page: {link}",
    ]
    for attempt in attempts:
        facts = [_text(attempt.explanation)]
        if attempt.opened_at_ms is not None:
            facts.append(f"Opened: {exact_time(attempt.opened_at_ms)}")
        if attempt.decided_at_ms is not None:
            decided = (
                f"{exact_time(attempt.decided_at_ms)}, by {_text(attempt.decided_by)}, offset {attempt.decision_offset}"
            )
            facts.append(f"Decided: {_text(attempt.decision)}, {decided}")
        if attempt.rows is not None:
            facts.append(f"Rows: {amount(attempt.rows)}")
        facts += [
            f"{_code(each.key)}: {_text(each.state.value)}, {_text(each.verdict.value)}"
            for each in attempt.transactions
        ]
        lines += _section(f"Run {attempt.attempt}: {_text(attempt.verdict)}", facts)
    lines += _section("Alerts", map(_alert, alerts))
    lines += _section("Orders", map(_order, orders))
    return "\n".join(lines) + "\n"


def application_note(
    name: str,
    *,
    link: str,
    at_ms: int,
    pipeline: PipelineRow | None,
    jobs: Sequence[JobRow],
    needs: Attention | None,
    running: Rows[TransactionRow],
    checkpoints: Sequence[CheckpointRow],
    timeout: TimeoutRow | None,
    alerts: Sequence[AlertRow],
    orders: Sequence[AuditRow],
) -> str:
    """Return the note about an application, as ``transaction_note`` does; ``pipeline``: its own supervisor's row, if it has one.

    ``running``: what is not settled, the most urgent first.
    """
    lines = [f"## {_text(name)}", "", f"Application {_code(name)}, as of {exact_time(at_ms)}. Page: {link}", ""]
    if needs is not None:
        lines += [f"- {_text(needs.headline)}", f"- Without action: {_text(needs.consequence)}"]
    if pipeline is not None:
        flow = f": {_code(pipeline.source)} → {_code(pipeline.sink)}" if pipeline.source and pipeline.sink else ""
        lines.append(f"- Reported last: {_text(pipeline.state)}{flow}")
        lines.append(f"- Run {pipeline.attempt} began: {exact_time(pipeline.run_at_ms)}")
        heartbeat = _text(pipeline.last_heartbeat or "none")
        lines.append(f"- Last sign of life: {exact_time(pipeline.last_seen_at_ms)}, {heartbeat}")
    for job in jobs:
        restored = f", restored from checkpoint {job.restored_from}" if job.restored_from is not None else ""
        lines.append(f"- Flink job {_code(job.job)} on {_text(job.cluster)}: {_text(job.state)}{restored}")
    if timeout is not None:
        lines.append(f"- Timeout {duration(timeout.timeout_ms)}. {_text(timeout.advice)}")
    more = len(running) - LISTED + running.more
    listed = [*map(_unsettled, running[:LISTED]), *([f"and {more:,} more"] if more > 0 else [])]
    lines += _section("Not settled", listed or ["nothing"])
    lines += _section("Newest checkpoints", map(_checkpoint, checkpoints[:LISTED]))
    lines += _section("Alerts", map(_alert, alerts))
    lines += _section("Orders", map(_order, orders))
    return "\n".join(lines) + "\n"


def partition_note(row: PartitionRow, *, link: str, at_ms: int) -> str:
    """Return the note about a topic-partition, as ``transaction_note`` does."""
    name = f"{row.topic}-{row.partition}"
    lines = [f"## {_text(name)}", "", f"Partition {_code(name)}, as of {exact_time(at_ms)}. Page: {link}", ""]
    readers = row.readers
    if readers is not None:
        stable, end = amount(readers.last_stable_offset), amount(readers.high_watermark)
        lines += [
            f"- Last stable offset {stable}, end {end}",
            f"- Hidden from read\\_committed readers: {amount(readers.hidden)}",
        ]
        if readers.holder:
            lines.append(f"- Held back by: {_code(readers.holder)}, since {exact_time(readers.held_since_ms)}")
        lines += _section("Readers", map(_reader, readers.groups))
    lines += _section("Hanging", map(_hanging, row.hanging))
    lines += _section("Open on it", map(_unsettled, row.open[:LISTED]))
    return "\n".join(lines) + "\n"


def alert_note(alert: AlertRow, *, link: str, at_ms: int) -> str:
    """Return the note about an alert, as ``transaction_note`` does."""
    lines = [
        f"## {_text(alert.rule)} {_text(alert.name)}: {_text(alert.group)}",
        "",
        f"As of {exact_time(at_ms)}. Page: {link}",
        "",
        f"- {_text(alert.summary)}",
        f"- {_text(alert.severity)}, {_text(alert.state)} since {exact_time(alert.since_ms)}",
        f"- Found: {exact_time(alert.found_at_ms)}",
        f"- What ends it: {_text(alert.remedy)}",
    ]
    lines += _section("What it rests on", map(_fact, alert.evidence))
    lines += _section("Labels", (f"{_text(name)}: {_code(text)}" for name, text in alert.labels.items()))
    return "\n".join(lines) + "\n"


def _unsettled(row: TransactionRow) -> str:
    opened = f", opened {exact_time(row.opened_at_ms)}" if row.opened_at_ms is not None else ""
    until = f", the broker aborts it at {exact_time(row.deadline_ms)}" if row.deadline_ms is not None else ""
    return f"{_code(row.transaction)}: {_text(row.verdict.value)}, {_text(row.state.value)}{opened}{until}"


def _checkpoint(row: CheckpointRow) -> str:
    why = f". {_text(row.reason)}" if row.reason else ""
    return f"{row.number}: {row.state.value}, started {exact_time(row.started_at_ms)}, took {duration(row.duration_ms)}{why}"


def _reader(group: GroupRow) -> str:
    waited = f" for {duration(group.waited_ms)}" if group.waited_ms is not None else ""
    return f"{_code(group.group)}: {_text(group.kind)}{waited}, lag {amount(group.lag)}, since {exact_time(group.since_ms)}"


def _hanging(row: HangingRow) -> str:
    name = _code(row.transaction or f"producer {row.producer_id}")
    where = f"from offset {amount(row.start_offset)}, since {exact_time(row.since_ms)}"
    return f"{name}: {_text(row.verdict.value)}, {where}. Remedy: {_text(row.remedy)}"


def _order(order: AuditRow) -> str:
    what = f"{_text(order.action)} {_text(outcome_sign(order.outcome)[1])}, by {_text(order.who)}, audit {order.audit}"
    return f"{exact_time(order.at_ms)}: {what}. Reason: {_text(order.reason)}"


def _alert(alert: AlertRow) -> str:
    return f"{_text(alert.rule)} {_text(alert.name)}, {_text(alert.state)}: {_text(alert.summary)}"


def _facts(detail: TransactionDetailRow, at_ms: int) -> list[str]:
    lines = [f"- State: {detail.state.value}"]
    if detail.opened_at_ms is not None:
        lines.append(f"- Opened: {exact_time(detail.opened_at_ms)}")
    if detail.deadline_ms is not None:
        left = detail.deadline_ms - at_ms
        left_text = f"{duration(left)} left" if left > 0 else "passed"
        lines.append(f"- The broker aborts it: {exact_time(detail.deadline_ms)} ({left_text})")
    if detail.rows is not None:
        lines.append(f"- Rows: {amount(detail.rows)}")
    if detail.partitions:
        lines.append(f"- Wrote to: {', '.join(map(_code, detail.partitions))}")
    if detail.loss is not None:
        lines.append(f"- Data: {detail.loss.verdict} ({detail.loss.certainty}). {_text(detail.loss.why)}")
    return lines


def _section(title: str, items: Iterable[str]) -> list[str]:
    lines = [f"- {item}" for item in items]
    return ["", f"### {title}", "", *lines] if lines else []


def _fact(fact: Evidence) -> str:
    when = f", {exact_time(fact.at_ms)}" if fact.at_ms else ""
    return f"{_text(fact.fact)} ({_text(fact.source)}{when})"


def _text(text: object) -> str:
    """Return text as Markdown shows it literally, on one line."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in " ".join(visible(text).split()))


def _code(text: object) -> str:
    """Return text as code; a backtick inside it would end the code."""
    plain = " ".join(visible(text).split())
    return f"`{plain}`" if "`" not in plain else _text(plain)
