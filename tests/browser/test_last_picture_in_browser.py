"""In Chromium the last picture stays while collector or app are gone, and comes to life again; no reload loses an order.

The pages ask a collector that answers by docs/api.md: a real one cannot be made to keep back its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, WebSocket, expect

from demo.ports import free_port
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole, wait_whole
from tests.integration.app_process import running_app
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_pipeline_rows import checkpoint
from tests.unit.app.contract_rows import batch
from tests.unit.app.contract_server import ContractServer

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
LIMIT_S = 30.0
SEES_THE_DIALOG = """() => new MutationObserver(() => {
    if (document.querySelector("[role=dialog]")?.textContent.includes("Connection error")) window.sawIt = true;
}).observe(document.body, {childList: true, subtree: true, characterData: true})"""


class Parts:
    """The collector and the app, each of which goes and comes again at the same address."""

    def __init__(self, directory: Path) -> None:
        self.answers = Answers(transactions=batch())
        self._directory, self._app_port, self._collector_port = directory, free_port(), free_port()
        self.collector, self.app = ExitStack(), ExitStack()
        self.address = f"http://127.0.0.1:{self._app_port}"

    def start_collector(self) -> None:
        """Have the collector answer."""
        self.collector.enter_context(ContractServer(self.answers, self._collector_port))

    def start_app(self) -> None:
        """Have the app answer."""
        url = f"http://127.0.0.1:{self._collector_port}"
        variables = {"INDOUBT_TOKEN": TOKEN, "INDOUBT_COLLECTOR_URL": url}
        self.app.enter_context(running_app(self._directory, port=self._app_port, **variables))


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    """Return both parts, running."""
    both = Parts(tmp_path)
    with both.collector, both.app:
        both.start_collector()
        both.start_app()
        yield both


def expect_old(page: Page, why: str) -> None:
    """Expect the same card as before, greyed, with its age; its countdown goes on, and its order is off."""
    overview = page.locator(".st-key-overview")
    expect(overview.locator(".live-region")).to_have_class("stHtml live-region old", timeout=SHOWN_LIMIT_MS)
    expect(overview.locator(".region-lost")).to_contain_text("You see ")
    expect(overview.locator(".region-lost")).to_contain_text(why)
    expect(overview.locator("article [data-order=commit]")).to_be_disabled()
    countdown = overview.locator("article [data-until]").first
    before = countdown.inner_text()
    expect(countdown).not_to_have_text(before)


def expect_live(page: Page) -> None:
    """Expect the card to be of now."""
    overview = page.locator(".st-key-overview")
    expect(overview.locator(".live-region")).to_have_class("stHtml live-region", timeout=SHOWN_LIMIT_MS)
    expect(overview.locator("article [data-order=commit]")).to_be_enabled(timeout=SHOWN_LIMIT_MS)


def test_the_picture_stays_while_the_collector_is_gone(page: Page, parts: Parts) -> None:
    open_whole(page, parts.address)
    expect_live(page)
    parts.collector.close()
    expect_old(page, "The collector does not answer")
    expect(page.locator("[data-live]")).to_have_text(re.compile(r"^as of \d\d:\d\d:\d\d$"))
    expect(page.locator(".region-lost:visible")).to_have_count(1)
    parts.start_collector()
    expect_live(page)


def test_tables_that_refresh_themselves_stay_while_the_collector_is_gone(page: Page, parts: Parts) -> None:
    parts.answers.checkpoints = [checkpoint(41)]
    sockets: list[WebSocket] = []
    page.on("websocket", lambda socket: sockets.append(socket) if "_stcore/stream" in socket.url else None)
    open_whole(page, f"{parts.address}/pipeline?name=ip-count")
    table = page.locator(".st-key-pipeline-checkpoints table")
    expect(table).to_contain_text("41")
    parts.collector.close()
    expect(table).to_have_css("opacity", "0.75", timeout=SHOWN_LIMIT_MS)
    # The fragment runs again each 5 s: what it writes then is a frame of Streamlit's socket.
    with sockets[0].expect_event("framereceived", timeout=SHOWN_LIMIT_MS):
        pass
    expect(table).to_contain_text("41")
    parts.answers.checkpoints = [checkpoint(42)]
    parts.start_collector()
    expect(table).to_contain_text("42", timeout=SHOWN_LIMIT_MS)
    expect(table).to_have_css("opacity", "1", timeout=SHOWN_LIMIT_MS)


@pytest.mark.page_errors("ERR_CONNECTION_", "No response received", "Streamlit server is not responding")
def test_the_picture_stays_while_the_app_is_gone_and_nothing_lies_over_it(page: Page, parts: Parts) -> None:
    open_whole(page, parts.address)
    page.evaluate(SEES_THE_DIALOG)
    parts.app.close()
    expect_old(page, "The app does not answer")
    page.wait_for_function("window.sawIt", timeout=SHOWN_LIMIT_MS)
    expect(page.get_by_role("dialog")).to_have_count(0)
    parts.start_app()
    expect_live(page)


def order_under_way(page: Page, parts: Parts) -> Locator:
    """Give the first card's order, which gets no answer yet; return its dialog once that says so."""
    parts.answers.may_answer.clear()
    page.locator(".st-key-overview [data-order=commit]").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("its driver is frozen")
    dialog.locator(".st-key-order-go button").click()
    expect(dialog).to_contain_text("Under way for")
    return dialog


def test_an_order_under_way_shows_at_once_and_survives_a_reload(page: Page, parts: Parts) -> None:
    open_whole(page, parts.address)
    order_under_way(page, parts)
    assert parts.answers.runs.came.wait(LIMIT_S)
    page.reload()
    wait_whole(page)
    line = page.locator(".st-key-sent-orders")
    expect(line).to_contain_text("Commit of batch 1841 of ip-count: under way for")
    parts.answers.may_answer.set()
    expect(line).to_contain_text("committed · audit 512", timeout=SHOWN_LIMIT_MS)
    line.get_by_role("button", name="Dismiss").click()
    expect(line).to_have_count(0)
    assert len(parts.answers.orders) == 1


def test_a_dialog_that_waits_for_its_answer_shows_it(page: Page, parts: Parts) -> None:
    open_whole(page, parts.address)
    dialog = order_under_way(page, parts)
    parts.answers.may_answer.set()
    expect(dialog.locator(".st-key-order-result")).to_contain_text("committed 4 of 4", timeout=SHOWN_LIMIT_MS)
    expect(dialog.locator(".st-key-order-under-way")).to_have_count(0)
