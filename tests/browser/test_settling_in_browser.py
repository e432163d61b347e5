"""In Chromium a whole batch is settled, and alerts are silenced and heard again: on the page, in the audit and on the broker."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from indoubt.lifecycle import page_paths
from indoubt.lifecycle.decisions import BatchAttempt, Ruling
from indoubt.lifecycle.events import EventType
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole
from tests.browser.stuck_cluster import LIMIT_S, TIMEOUT_MS, StuckCluster
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def settle(page: Page, button: Locator, reason: str, result: str) -> None:
    """Press the button of a batch and give the order; close its dialog once that shows this result."""
    button.click()
    page.locator(".st-key-batch-order-reason input").fill(reason)
    page.locator(".st-key-batch-order-go button").click()
    expect(page.locator(".st-key-batch-order-result")).to_contain_text(f"✔ {result}", timeout=SHOWN_LIMIT_MS)
    page.locator(".st-key-batch-order-close button").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def audited(stuck: StuckCluster, action: str, reason: str) -> list[str]:
    """Return the outcomes of the audit rows with this action and reason."""
    rows = stuck.collector.rows("audit")
    return [row["outcome"] for row in rows if (row["action"], row["reason"]) == (action, reason)]


def test_a_decided_batch_is_settled_and_readers_get_its_rows(page: Page, stuck: StuckCluster) -> None:
    assert not {b"row-0", b"row-1"} & set(read_committed(stuck.connection, stuck.topic))
    open_whole(page, f"{stuck.app}/transactions?show=batches")
    card = page.locator(".st-key-batches article").filter(has_text=f"{stuck.pipeline} batch 1")
    settle(page, card.locator("[data-order=settle]"), "its driver is gone for good", "all transactions committed")
    expect(card.locator("[data-order=settle]")).to_have_count(0, timeout=SHOWN_LIMIT_MS)
    assert audited(stuck, "settle", "its driver is gone for good") == ["accepted"]
    wait_until("a reader to get both rows",
               lambda: {b"row-0", b"row-1"} <= set(read_committed(stuck.connection, stuck.topic)), LIMIT_S)  # fmt: skip


@pytest.mark.long
def test_an_undecided_batch_is_settled_on_its_page_and_its_rows_are_gone(page: Page, stuck: StuckCluster) -> None:
    pipeline = ReportedPipeline(stuck.connection, stuck.lifecycle_topic, TIMEOUT_MS)
    # Three of its intervals may pass without a heartbeat; without this event an interval counts as 10 s.
    pipeline.tell(EventType.PIPELINE_STARTED, pipeline.prefix, job="word_count", settings={"interval_ms": 100})
    handle = pipeline.prepare(b"never decided")
    stuck.collector.wait_for(handle.transaction, verdict="abort it", may_abort=True)
    open_whole(page, stuck.app + page_paths.batch(pipeline.prefix, 0))
    button = page.locator("[data-order=settle]")
    expect(button).to_have_text("Settle: abort …")
    settle(page, button, "its driver never came up again", "all transactions aborted")
    expect(button).to_have_count(0, timeout=SHOWN_LIMIT_MS)
    assert audited(stuck, "settle", "its driver never came up again") == ["accepted"]
    assert pipeline.sink.view(handle.transaction).state == "CompleteAbort"
    attempt = BatchAttempt(checkpoint_id=pipeline.checkpoint_id, batch=0, attempt=pipeline.attempt)
    decided = pipeline.log.read_to_end().first(attempt)
    assert decided is not None
    assert decided[1].ruling is Ruling.ABORT
    assert pipeline.visible() == []


def silence_form(page: Page, reason: str) -> None:
    page.locator(".st-key-silence-form-reason input").fill(reason)
    page.locator(".st-key-silence-form-go button").click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=SHOWN_LIMIT_MS)


@pytest.mark.long
def test_an_alert_is_silenced_and_its_silence_is_ended(page: Page, stuck: StuckCluster) -> None:
    def silenced_by(key: str) -> int | None:
        return next(row["silenced_by"] for row in stuck.collector.rows("alerts") if row["key"] == key)

    alert = next(row for row in stuck.collector.rows("alerts") if row["rule"] == "A7" and row["state"] == "firing")
    open_whole(page, f"{stuck.app}/alerts")
    alerts = page.locator(".st-key-alerts")
    shown = alerts.locator("section.alert").filter(has_text=alert["summary"])
    shown.locator("[data-order=silence]").click()
    silence_form(page, "its owner is asleep")
    expect(shown).to_contain_text("silenced until", timeout=SHOWN_LIMIT_MS)
    (silence,) = [row for row in stuck.collector.rows("silences") if row["reason"] == "its owner is asleep"]
    assert silence["state"] == "active"
    assert silence["matchers"].items() <= alert["labels"].items()
    assert "severity" not in silence["matchers"]
    assert silenced_by(alert["key"]) == silence["silence"]
    assert audited(stuck, "silence", "its owner is asleep") == ["accepted"]

    card = alerts.locator("article").filter(has_text=f"Silence {silence['silence']}:")
    expect(card).to_contain_text("its owner is asleep")
    card.locator("[data-order=silence]").click()
    expect(page.get_by_role("dialog")).to_contain_text("get notifications of matching alerts again")
    silence_form(page, "its owner is awake")
    expect(card).to_have_count(0, timeout=SHOWN_LIMIT_MS)
    expect(shown.locator("[data-order=silence]")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    assert [row["state"] for row in stuck.collector.rows("silences") if row["silence"] == silence["silence"]] == [
        "ended"
    ]
    wait_until("the alert to be loud again", lambda: silenced_by(alert["key"]) is None, LIMIT_S)
    assert audited(stuck, "end silence", "its owner is awake") == ["accepted"]
