"""The search over everything in Chromium: a key opens it over any page, what is typed at once is not lost, and it never orders."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.shown_page import PHONE, SHOWN_LIMIT_MS, open_whole, show_in, too_wide, violations
from tests.browser.stuck_cluster import FOREIGN, StuckCluster

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page on a desk."""
    with browser.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="UTC") as context:
        yield context.new_page()


def test_what_is_typed_after_the_key_leads_there(page: Page, stuck: StuckCluster) -> None:
    open_whole(page, stuck.app)
    page.evaluate("window.notLoadedAnew = true")
    page.keyboard.press("/")
    page.keyboard.type(FOREIGN)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/(pipeline|transaction)\?.*billing-export"), timeout=SHOWN_LIMIT_MS)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search everything")
    expect(field).to_be_focused()
    field.fill("checkpoints")
    expect(page.get_by_role("option", selected=True)).to_contain_text("Pipelines › Checkpoints")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_contain_text("Search all of history")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/pipelines\?show=checkpoints"), timeout=SHOWN_LIMIT_MS)
    assert page.evaluate("window.notLoadedAnew")


def test_an_action_opens_its_dialog_and_orders_nothing(page: Page, stuck: StuckCluster) -> None:
    audited = len(stuck.collector.rows("audit"))
    open_whole(page, f"{stuck.app}/readers")
    page.get_by_role("button", name="Search everything").click()
    page.keyboard.type("commit batch 1")
    expect(page.get_by_role("option", selected=True)).to_contain_text(f"Commit batch 1 of {stuck.pipeline} …")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    assert len(stuck.collector.rows("audit")) == audited


def test_it_is_right_in_light_in_dark_and_on_a_phone_and_escape_leaves_it(page: Page, stuck: StuckCluster) -> None:
    open_whole(page, f"{stuck.app}/audit")
    page.keyboard.press("/")
    page.keyboard.type(stuck.topic)
    expect(page.get_by_role("option").filter(has_text="its transactions")).to_have_count(1)
    found = {"light": violations(page)}
    show_in(page, "dark")
    found["dark"] = violations(page)
    page.set_viewport_size(PHONE)
    found["phone"] = too_wide(page)
    assert {where: wrong for where, wrong in found.items() if wrong} == {}
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile("/audit"))
