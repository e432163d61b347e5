"""In Chromium one looks back: a search and its CSV, a link that shows another the same, a time that is drawn or typed."""

from __future__ import annotations

import csv
import re

import pytest
from playwright.sync_api import Page, expect

from indoubt.lifecycle import page_paths
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole
from tests.browser.stuck_cluster import FOREIGN, StuckCluster

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
LOST = "nightly-export-0"
CHECKPOINTS = "/pipelines?show=checkpoints"
CHOSEN = re.compile(r"[?&]from=\d+.*&until=\d+")


def test_a_search_finds_and_its_rows_are_downloaded(page: Page, stuck: StuckCluster) -> None:
    page.goto(f"{stuck.app}/history?show=search")
    page.get_by_label("Transaction", exact=True).fill("export")
    page.keyboard.press("Enter")
    table = page.locator(".st-key-search-table")
    expect(table).to_contain_text(FOREIGN, timeout=SHOWN_LIMIT_MS)
    expect(table).to_contain_text(LOST)
    expect(table.locator("tbody tr:not(.day)")).to_have_count(2)
    expect(page).to_have_url(re.compile("search-transaction=export"))
    page.locator(".st-key-menu-search button").click()
    with page.expect_download() as download:
        page.locator(".st-key-search-csv button").click()
    page.keyboard.press("Escape")
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert {row["transaction"] for row in rows} == {FOREIGN, LOST}
    assert {row["state"] for row in rows if row["transaction"] == LOST} == {"aborted"}

    page.get_by_label("Transaction", exact=True).fill("no such id")
    page.keyboard.press("Enter")
    expect(page.locator(".how-many")).to_contain_text("Nothing that was opened", timeout=SHOWN_LIMIT_MS)


def test_a_copied_link_shows_another_the_same(page: Page, stuck: StuckCluster) -> None:
    open_whole(page, stuck.app + page_paths.transaction(stuck.foreign))
    page.locator(".st-key-object-share").get_by_text("Copy link").click()
    address = page.get_by_test_id("stPopoverBody").locator("code").inner_text().strip()
    assert address.startswith(stuck.app)
    other = page.context.new_page()
    open_whole(other, address)
    expect(other.locator(".st-key-transaction")).to_contain_text(FOREIGN, timeout=SHOWN_LIMIT_MS)


def test_a_part_of_the_picture_is_pressed(page: Page, stuck: StuckCluster) -> None:
    page.goto(stuck.app + CHECKPOINTS)
    page.locator(".st-key-checkpoint-chart .columns").first.locator("a").nth(20).click()
    expect(page).to_have_url(CHOSEN, timeout=SHOWN_LIMIT_MS)
    page.get_by_role("button", name="Whole time").click()
    expect(page).not_to_have_url(CHOSEN, timeout=SHOWN_LIMIT_MS)


def test_a_time_is_typed(page: Page, stuck: StuckCluster) -> None:
    page.goto(stuck.app + CHECKPOINTS)
    expect(page.locator(".st-key-checkpoint-table")).to_contain_text("completed", timeout=SHOWN_LIMIT_MS)
    page.get_by_role("button", name="Choose a time").focus()
    page.keyboard.press("Enter")
    page.get_by_label("From", exact=True).fill("2026-01-01 10:00")
    page.get_by_label("Until", exact=True).fill("2026-01-01 11:00")
    page.get_by_role("button", name="Show this time").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("from=1767261600000.*until=1767265200000"), timeout=SHOWN_LIMIT_MS)
    expect(page.get_by_text("0 checkpoints")).to_be_visible(timeout=SHOWN_LIMIT_MS)
