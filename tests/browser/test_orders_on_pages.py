"""Orders on the pages: an engineer sees a stuck transaction, presses its button, and readers continue.

The last test leaves the driver frozen: its restart takes long, and has a test of its own.
"""

from __future__ import annotations

import re

import psutil
import pytest
from playwright.sync_api import Locator, Page, expect

from demo import downstream, topics
from demo.abandoned_producer import KEY
from demo.readers import Record, scan
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from tests.browser.demo_process import DemoProcess, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(900)]
SHOWN_LIMIT_MS = 45_000
READ_LIMIT_S = 45.0
RESTART_LIMIT_MS = 120_000
"""The supervisor kills a frozen driver, and the next driver must start a JVM."""
FIRST_BATCH_LIMIT_S = 240.0
JOB = "--job"
"""In the command lines of the supervisor and the driver, and in no others."""


def hook(page: Page, key: str) -> Locator:
    """Return the part of the page with this key, or with a key that starts with it if it ends in a dash."""
    return page.locator(f'[class*="st-key-{key}"]' if key.endswith("-") else f".st-key-{key}")


def press(page: Page, key: str) -> None:
    hook(page, key).locator("button").first.click()


def go_to(page: Page, title: str) -> None:
    page.get_by_role("link", name=title).first.click()
    expect(page).to_have_url(re.compile(title.lower().replace(" ", "-")))


def committed(demo: DemoProcess) -> list[Record]:
    return scan(demo.bootstrap_servers, topics.SINK)


def written(demo: DemoProcess) -> list[Record]:
    return scan(demo.bootstrap_servers, topics.SINK, committed_only=False)


def open_demo(page: Page, demo: DemoProcess) -> None:
    """Open the page and wait until the pipeline has committed rows, so that there is traffic."""
    page.goto(demo.app)
    expect(hook(page, "fault-injection")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    wait_for("the first committed rows", lambda: committed(demo), FIRST_BATCH_LIMIT_S)


def cause(page: Page, fault: str) -> None:
    button = hook(page, f"fault-{fault}").locator("button").first
    expect(button).to_be_enabled(timeout=SHOWN_LIMIT_MS)
    button.click()


def test_abort_of_a_foreign_transaction_lets_readers_go_on(page: Page, demo: DemoProcess) -> None:
    open_demo(page, demo)
    cause(page, "abandoned-producer")
    first = wait_for("the foreign rows", lambda: first_foreign_offsets(written(demo)), READ_LIMIT_S)
    wait_for("rows of the pipeline behind them", lambda: rows_behind(first, written(demo)), READ_LIMIT_S)
    assert not rows_behind(first, committed(demo)), "no read_committed reader may read past an open transaction"

    go_to(page, "Readers")
    held_back = hook(page, "readers")
    expect(held_back).to_contain_text("billing-export-1", timeout=SHOWN_LIMIT_MS)
    expect(held_back).to_contain_text(downstream.GROUP, timeout=SHOWN_LIMIT_MS)
    held_back.get_by_role("link", name="billing-export-1").first.click()
    expect(hook(page, "transaction")).to_contain_text("billing-export-1", timeout=SHOWN_LIMIT_MS)

    go_to(page, "Transactions")
    foreign = hook(page, "pending").locator("article").filter(has_text="billing-export-1").first
    expect(foreign).to_contain_text(re.compile("foreign", re.IGNORECASE), timeout=SHOWN_LIMIT_MS)
    foreign.locator("[data-order=abort]").click()
    hook(page, "order-reason").locator("input").fill("its application is dead, the owner agreed")
    hook(page, "order-confirm").locator("input").fill("billing-export-1")
    press(page, "order-go")
    expect(hook(page, "order-result")).to_contain_text("aborted", timeout=SHOWN_LIMIT_MS)

    wait_for("the blocked reader to go on", lambda: rows_behind(first, committed(demo)), READ_LIMIT_S)
    assert all(row.key != KEY for row in committed(demo)), "rows of the aborted transaction were read as committed"
    press(page, "order-close")
    go_to(page, "Audit")
    expect_audited(page, "abort", "its application is dead, the owner agreed")


def test_restart_of_a_frozen_driver_writes_no_row_twice(page: Page, demo: DemoProcess) -> None:
    open_demo(page, demo)
    cause(page, "freeze-after-decision")
    commit = hook(page, "overview").locator("article [data-order=commit]").first
    expect(commit).to_be_enabled(timeout=SHOWN_LIMIT_MS)
    commit.click()
    hook(page, "order-reason").locator("input").fill("its driver stands still, decided batch")
    press(page, "order-go")
    expect(hook(page, "order-result")).to_contain_text("committed", timeout=SHOWN_LIMIT_MS)
    press(page, "order-close")
    before = len(committed(demo))
    go_to(page, "Pipelines")
    hook(page, "pipelines").locator("article").filter(has_text="ip-count").locator("[data-order=restart]").click()
    hook(page, "pipeline-order-reason").locator("input").fill("its driver still stands still")
    press(page, "pipeline-order-go")
    expect(hook(page, "pipeline-order-result")).to_contain_text("restarted", timeout=RESTART_LIMIT_MS)
    press(page, "pipeline-order-close")
    wait_for("the restarted pipeline to go on", lambda: len(committed(demo)) > before, FIRST_BATCH_LIMIT_S)
    keys = [row.key for row in committed(demo)]
    assert len(keys) == len(set(keys)), "the replay of a batch that was committed by hand wrote its rows again"


def test_a_pipeline_is_stopped_and_started_and_writes_no_row_twice(page: Page, demo: DemoProcess) -> None:
    open_demo(page, demo)
    running = [part for process in demo.running(JOB) for part in (process, *process.children(recursive=True))]
    assert any("java" in part.name() for part in running)
    go_to(page, "Pipelines")
    card = hook(page, "pipelines").locator("article").filter(has_text="ip-count")
    card.locator("[data-order=stop]").click()
    hook(page, "pipeline-order-reason").locator("input").fill("its topic is being moved")
    hook(page, "pipeline-order-confirm").locator("input").fill("ip-count")
    press(page, "pipeline-order-go")
    expect(hook(page, "pipeline-order-result")).to_contain_text("stopped", timeout=RESTART_LIMIT_MS)
    press(page, "pipeline-order-close")
    expect(card).to_contain_text("stopped", timeout=SHOWN_LIMIT_MS)
    _, left = psutil.wait_procs(running, timeout=READ_LIMIT_S)
    assert left == [], "the supervisor, its driver or the driver's JVM still runs"
    assert KafkaResourceManager(KafkaConnection(demo.bootstrap_servers)).recover("ip-count") == []
    before = len(committed(demo))

    card.locator("[data-order=start]").click()
    hook(page, "pipeline-order-reason").locator("input").fill("its topic has moved")
    press(page, "pipeline-order-go")
    expect(hook(page, "pipeline-order-result")).to_contain_text("started", timeout=RESTART_LIMIT_MS)
    press(page, "pipeline-order-close")
    expect(card.locator("[data-order=restart]")).to_be_enabled(timeout=SHOWN_LIMIT_MS)
    assert demo.runs(JOB)
    wait_for("the started pipeline to go on", lambda: len(committed(demo)) > before, FIRST_BATCH_LIMIT_S)
    keys = [row.key for row in committed(demo)]
    assert len(keys) == len(set(keys)), "the replay of what was open when it stopped wrote rows again"
    orders = [(row["action"], row["outcome"]) for row in demo.audit() if row["keys"] == ["pipeline:ip-count"]]
    assert orders[:2] == [("start", "accepted"), ("stop", "accepted")]


def test_commit_of_a_decided_batch_gives_readers_its_rows(page: Page, demo: DemoProcess) -> None:
    open_demo(page, demo)
    cause(page, "freeze-after-decision")
    card = hook(page, "overview").locator("article").filter(has_text="commit · safe").first
    commit = card.locator("[data-order=commit]")
    expect(commit).to_be_enabled(timeout=SHOWN_LIMIT_MS)
    expect(card).to_contain_text("without action")
    expect(page).to_have_title(re.compile(r"^\([1-9]\d*\) \d\d:\d\d "))
    commit.click()
    expect(hook(page, "order-reason")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    press(page, "order-cancel")
    expect(hook(page, "order-reason")).to_have_count(0)
    card.get_by_role("link", name="Open").click()
    one = page.locator(".st-key-transaction")
    expect(one).to_contain_text("commit decided by run", timeout=SHOWN_LIMIT_MS)
    expect(one).to_contain_text("without action")
    expect(page).to_have_url(re.compile(r"/transaction\?key="))
    expect(hook(page, "event-table")).to_contain_text("decision: commit by", timeout=SHOWN_LIMIT_MS)
    everything = keys_of_pipeline(written(demo))
    assert everything > keys_of_pipeline(committed(demo)), (
        "the broker has the decided rows, but no read_committed reader may read them yet"
    )

    one.locator("[data-order=commit]").click()
    hook(page, "order-reason").locator("input").fill("its driver stands still, decided batch")
    press(page, "order-go")
    expect(hook(page, "order-result")).to_contain_text("committed", timeout=SHOWN_LIMIT_MS)

    wait_for(
        "a read_committed reader to get the rows", lambda: everything <= keys_of_pipeline(committed(demo)), READ_LIMIT_S
    )
    press(page, "order-close")
    go_to(page, "Audit")
    expect_audited(page, "commit", "its driver stands still, decided batch")

    go_to(page, "Pipelines")
    hook(page, "show-pipelines").get_by_text("Timeouts").click()
    risk = page.locator("article").filter(has_text="ip-count").first
    expect(risk).to_contain_text("a restart takes", timeout=SHOWN_LIMIT_MS)
    expect(risk).to_contain_text("aborted after 1 min 00 s")


def expect_audited(page: Page, action: str, reason: str) -> None:
    """Expect an entry with this action and reason on the audit page."""
    table = hook(page, "audit-table")
    expect(table).to_contain_text(reason, timeout=SHOWN_LIMIT_MS)
    expect(table).to_contain_text(action)


def keys_of_pipeline(rows: list[Record]) -> set[bytes | None]:
    """Return the keys of the pipeline's rows: each row has its own, and what was aborted is written again under it."""
    return {row.key for row in rows if row.key != KEY}


def first_foreign_offsets(rows: list[Record]) -> dict[int, int]:
    """Return the offset at which the foreign transaction begins on each partition; empty before it wrote."""
    first: dict[int, int] = {}
    for row in rows:
        if row.key == KEY:
            first.setdefault(row.partition, row.offset)
    return first


def rows_behind(first: dict[int, int], rows: list[Record]) -> list[Record]:
    """Return the pipeline's rows after the foreign rows."""
    return [row for row in rows if row.key != KEY and row.offset > first.get(row.partition, row.offset)]
