"""An incident note has what a reader of it asks for, in Markdown that nothing from outside can change."""

from __future__ import annotations

from functools import partial

from indoubt.app.client.collector_connection import Rows
from indoubt.app.components.incident_note import (
    LISTED,
    alert_note,
    application_note,
    batch_note,
    partition_note,
    transaction_note,
)
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.partitions import PartitionRow
from indoubt.lifecycle.rows.pipelines import CheckpointRow, JobRow, PipelineRow, TimeoutRow
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.transactions import TransactionDetailRow, TransactionRow
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import alert
from tests.unit.app.contract_pipeline_rows import checkpoint, job, pipeline, timeout
from tests.unit.app.contract_rows import batch, blocked, given_order, hanging, loss, shared_batch, transaction

T0 = 1_795_000_000_000
LINK = "https://indoubt.example/transaction?key=k"
note_of = partial(transaction_note, link=LINK, at_ms=T0 + 20_000, needs=None, alerts=(), orders=())


def detail(**changes: object) -> TransactionDetailRow:
    row = transaction(opened_at_ms=T0, deadline_ms=T0 + 60_000, **changes)
    found = Answers(transactions=[row]).detail(row["key"])
    assert found is not None
    return read_row(TransactionDetailRow, {**found, "loss": None, "branch": None})


def test_the_note_says_what_it_is_until_when_and_where_to_look() -> None:
    lines = note_of(detail()).splitlines()
    assert lines[0] == "## ip\\-count, batch 1841: commit it"
    assert f"as of 2026-11-18 11:07:00.000 UTC. Page: {LINK}" in lines[2]
    assert "- The broker aborts it: 2026-11-18 11:07:40.000 UTC (40 s left)" in lines
    assert "- Rows: 3,101" in lines
    assert "- Wrote to: `ip_count_sink-0`" in lines
    assert "- 2026-11-18 11:06:40.640 UTC: prepared (lifecycle topic)" in lines
    assert "### Why commit it (rule 2, certain)" in lines


def test_a_deadline_that_has_passed_is_said_to_have_passed() -> None:
    assert "(passed)" in note_of(detail(), at_ms=T0 + 61_000)


def test_the_note_says_who_waits_and_what_happens_if_nobody_acts() -> None:
    answers = Answers(transactions=[transaction(opened_at_ms=T0, deadline_ms=T0 + 60_000)])
    (card,) = answers.overview()["incidents"][0]["parts"]
    note = note_of(detail(), needs=read_row(Attention, card))
    assert "- Who waits: `dashboard`" in note
    assert "- Without action: The broker aborts it, and decided rows are lost\\." in note


def test_the_note_has_alerts_and_orders() -> None:
    order = given_order(at_ms=T0, action="commit", reason="it is frozen")
    note = note_of(detail(), orders=[read_row(AuditRow, order)], alerts=[read_row(AlertRow, alert())])
    assert "- A2 commit overdue, firing: ip\\-count\\-0\\-1 was decided and is not committed" in note
    assert "- 2026-11-18 11:06:40.000 UTC: commit done, by anna, audit 512. Reason: it is frozen" in note


def test_the_note_of_a_lost_one_says_what_is_missing() -> None:
    row = transaction(opened_at_ms=T0, deadline_ms=None, state="lost", verdict="lost")
    found = Answers(transactions=[row]).detail(row["key"])
    assert found is not None
    lost = read_row(TransactionDetailRow, {**found, "loss": loss(), "branch": None})
    assert "- Data: lost (certain). Checkpoint 88 counts it as written, and the broker timed it out\\." in note_of(lost)


def test_nothing_from_outside_is_read_as_markdown() -> None:
    name = "a`b\n# <script>[x](http://evil)"
    note = note_of(detail(transaction=name, pipeline=name, partitions=[name]))
    assert "\n# <" not in note
    assert "[x](" not in note
    assert "<script" not in note.replace("\\<", "")


def test_a_batch_has_each_of_its_runs_with_transactions_and_orders() -> None:
    names = ("key", "resource_manager", "slot", "state", "verdict", "certainty", "rows")
    times = {"opened_at_ms": T0, "prepared_at_ms": None, "ended_at_ms": None}
    parts = [{**{name: row[name] for name in names}, **times, "committed": False} for row in batch(slots=1)]
    rows = [read_row(BatchRow, shared_batch(12, attempt=n, transactions=parts, decided_at_ms=T0)) for n in (4, 3)]
    order = read_row(AuditRow, given_order(7, at_ms=T0, action="settle", reason="one *side*"))
    note = batch_note(rows, link=LINK, at_ms=T0, alerts=[read_row(AlertRow, alert())], orders=[order])
    for text in ("## word\\-count, batch 12: one side only", f"Page: {LINK}", "### Run 4: one side only", "### Run 3:",
                 "- Decided: commit, 2026-11-18 11:06:40.000 UTC, by ", ": decided, commit it", "A2 commit overdue, firing: ",
                 "settle done, by anna, audit 7. Reason: one \\*side\\*"):  # fmt: skip
        assert text in note, text


def test_an_alert_has_what_it_rests_on_and_what_ends_it() -> None:
    note = alert_note(read_row(AlertRow, alert(since_ms=T0)), link=LINK, at_ms=T0)
    for text in ("## A2 commit overdue: application ip\\-count", "critical, firing since 2026-11-18 11:06:40.000 UTC",
                 "decision 88213 lists it", "- pipeline: `ip-count`"):  # fmt: skip
        assert text in note, text


def application(running: list[TransactionRow], more: int = 0, **changes: object) -> str:
    facts: dict[str, object] = {
        "pipeline": None, "jobs": (), "needs": None, "checkpoints": (), "timeout": None, "alerts": (), "orders": (),
    }  # fmt: skip
    return application_note("ip-count", link=LINK, at_ms=T0, running=Rows(running, more), **{**facts, **changes})  # type: ignore[arg-type]


def test_the_note_of_an_application_has_what_it_reported_what_is_open_and_its_checkpoints() -> None:
    note = application(
        [read_row(TransactionRow, transaction(opened_at_ms=T0, deadline_ms=T0 + 60_000))],
        pipeline=read_row(PipelineRow, pipeline()),
        jobs=[read_row(JobRow, job())],
        checkpoints=[read_row(CheckpointRow, checkpoint(41, state="failed", reason="it *broke*"))],
        timeout=read_row(TimeoutRow, timeout()),
    )
    for text in (
        "Application `ip-count`, as of 2026-11-18 11:06:40.000 UTC",
        "- Last sign of life: ",
        "- Flink job ",
        "- Timeout ",
        "opened 2026-11-18 11:06:40.000 UTC, the broker aborts it at 2026-11-18 11:07:40.000 UTC",
        "- 41: failed",
        "it \\*broke\\*",
    ):
        assert text in note, text


def test_the_note_of_an_application_lists_so_many_and_counts_the_others() -> None:
    assert "### Not settled\n\n- nothing\n" in application([])
    row = read_row(TransactionRow, transaction())
    note = application([row] * (LISTED + 3), more=1_000)
    assert note.count(f"`{row.transaction}`") == LISTED
    assert "- and 1,003 more" in note
    assert "more" not in application([row] * LISTED)


def test_the_note_of_a_partition_has_who_holds_it_who_waits_and_what_hangs() -> None:
    row = read_row(PartitionRow, {
        "topic": "orders", "partition": 2, "readers": blocked(holder_transaction="billing-`1`"), "read_by": [],
        "hanging": [hanging()],
        "open": [], "ended": [],
    })  # fmt: skip
    note = partition_note(row, link=LINK, at_ms=T0)
    for text in (
        "Last stable offset",
        "- Held back by: billing\\-\\`1\\`, since",
        "### Readers",
        "### Hanging",
        "Remedy: ",
    ):
        assert text in note, text
    assert "### Open on it" not in note
