"""In Chromium the address has what is shown: whoever opens a link sees the same order, and the same times in the same zone.

The pages ask a collector that answers by docs/api.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.answering_app import answering_app
from tests.browser.shown_page import PHONE, SHOWN_LIMIT_MS, open_whole, too_wide, violations
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import loss

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
IN_JANUARY_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC; an hour later in Berlin."""
IN_UTC, IN_BERLIN = "2026-01-01 00:00:00.000", "2026-01-01 01:00:00.000"
BERLIN = re.compile(r"[?&]zone=Europe(%2F|/)Berlin")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[str]:
    """Return the address of an app with a receiver and two losses of a known time."""
    answers = Answers(
        receivers=[{"receiver": "slack", "waiting": 1, "oldest_at_ms": IN_JANUARY_MS, "given_up": 0, "error": ""}],
        losses=[loss("few", at_ms=IN_JANUARY_MS, rows=1), loss("many", at_ms=IN_JANUARY_MS, rows=9)],
    )
    with answering_app(answers, tmp_path) as url:
        yield url


@pytest.fixture
def page(browser: Browser, app: str) -> Iterator[Page]:
    """Return a page of a reader in New York, while the app is there."""
    with browser.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="America/New_York") as context:
        yield context.new_page()


def test_a_link_shows_every_reader_times_in_its_zone_until_they_choose_another(page: Page, app: str) -> None:
    open_whole(page, f"{app}/alerts?zone=Europe/Berlin")
    expect(page.locator(".st-key-alerts")).to_contain_text(f"{IN_BERLIN} CET")
    page.get_by_role("link", name="History").click()
    page.get_by_role("radio", name="Losses").click()
    losses = page.locator(".st-key-loss-table")
    expect(losses.locator("tr.day")).to_have_text("2026-01-01 CET", timeout=SHOWN_LIMIT_MS)
    expect(losses).to_contain_text("01:00:00")
    expect(page).to_have_url(BERLIN)
    page.locator(".menu summary").click()
    page.locator(".menu").get_by_role("link", name="UTC").click()
    expect(losses.locator("tr.day")).to_have_text("2026-01-01 UTC", timeout=SHOWN_LIMIT_MS)
    expect(losses).to_contain_text("00:00:00")
    expect(page).to_have_url(re.compile(r"[?&]zone=UTC"))
    open_whole(page, f"{app}/alerts")
    expect(page.locator(".st-key-alerts")).to_contain_text(f"{IN_UTC} UTC")
    page.wait_for_url(re.compile(r"/alerts\?zone=UTC$"), timeout=SHOWN_LIMIT_MS)


def test_a_link_to_the_overview_shows_it(page: Page, app: str) -> None:
    open_whole(page, f"{app}/overview")
    expect(page.locator(".st-key-overview")).to_be_visible()
    expect(page.get_by_text("Page not found")).to_have_count(0)


def test_the_zone_comes_into_the_address_without_a_step_back(page: Page, app: str) -> None:
    page.goto("about:blank")
    before = page.evaluate("history.length")
    open_whole(page, f"{app}/alerts")
    page.wait_for_url(re.compile(r"\?zone=UTC$"), timeout=SHOWN_LIMIT_MS)
    assert page.evaluate("history.length") == before + 1


def test_the_head_of_a_column_sorts_by_keyboard_and_keeps_the_focus(page: Page, app: str) -> None:
    open_whole(page, f"{app}/history?show=losses&loss-verdict=lost")
    names = page.locator(".st-key-loss-table td[data-name=Transaction]")
    expect(names).to_have_text(["few", "many"])
    page.evaluate("window.isSamePage = true")
    rows = page.locator(".st-key-loss-table th", has_text="Rows")
    for key, order, stands in (("Enter", ["many", "few"], "descending"), ("Enter", ["few", "many"], "ascending")):
        rows.get_by_role("link").focus()
        page.keyboard.press(key)
        expect(names).to_have_text(order, timeout=SHOWN_LIMIT_MS)
        expect(rows).to_have_attribute("aria-sort", stands)
        expect(rows.get_by_role("link")).to_be_focused()
    expect(page).to_have_url(re.compile(r"loss-sort=-Rows"))
    assert page.evaluate("window.isSamePage"), "the page was not loaded again"
    page.go_back()
    expect(names).to_have_text(["many", "few"], timeout=SHOWN_LIMIT_MS)
    page.set_viewport_size(PHONE)
    page.locator(".st-key-loss-table th", has_text="Transaction").get_by_role("link").click()
    expect(names).to_have_text(["few", "many"], timeout=SHOWN_LIMIT_MS)
    assert violations(page) == []
    assert too_wide(page) == []
