"""Every page in Chromium, with what a real broker holds: no error, nothing that axe-core finds, on desk, phone and in the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.shown_page import (
    DESK,
    PHONE,
    SHOWN_LIMIT_MS,
    focused,
    open_whole,
    show_in,
    too_wide,
    violations,
    wait_whole,
)
from tests.browser.stuck_cluster import FOREIGN, StuckCluster

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(600)]
ADDRESSES = (
    "/",
    "/transactions",
    "/transactions?show=batches",
    "/readers",
    "/pipelines",
    "/pipelines?show=checkpoints",
    "/pipelines?show=timeouts",
    "/alerts",
    "/history",
    "/history?show=losses",
    "/history?show=ids",
    "/history?show=search",
    "/audit",
    "/collector",
)
OBJECTS = ("transaction", "foreign transaction", "batch", "pipeline", "alert", "partition")
TABS = 25
SHOWS_WHAT_IS_SENT = """async selector => {
    const region = document.querySelector(selector).indoubt, socket = new WebSocket(region.socket.url);
    const whole = await new Promise(take => { socket.onmessage = event => take(JSON.parse(event.data)); });
    socket.close();
    const fresh = document.createElement("div");
    const text = html => { fresh.innerHTML = html; return fresh.textContent.replace(/\\d+/g, ""); };
    return whole.order.length === region.blocks.childElementCount && Object.entries(whole.blocks).every(([name, html]) =>
        text(html) === region.block(name).textContent.replace(/\\d+/g, ""));
}"""
"""A second connection is sent the whole picture: the first has the same text. Digits are left out: the browser counts times."""


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return one browser session for the module: its pages come out of its cache."""
    with browser.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="Europe/Berlin") as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Return a light page on a desk."""
    page = context.new_page()
    yield page
    page.close()


def look_everywhere(page: Page, address: str) -> None:
    """Open an address; expect nothing to be wrong in light, in the dark and on a phone."""
    open_whole(page, address)
    found = {"light": violations(page)}
    show_in(page, "dark")
    found["dark"] = violations(page)
    page.set_viewport_size(PHONE)
    wait_whole(page)
    found["phone"] = too_wide(page)
    assert {where: wrong for where, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_is_right_in_light_in_dark_and_on_a_phone(page: Page, stuck: StuckCluster, address: str) -> None:
    look_everywhere(page, stuck.app + address)


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_page_is_right_in_light_in_dark_and_on_a_phone(page: Page, stuck: StuckCluster, kind: str) -> None:
    look_everywhere(page, stuck.app + stuck.object_paths()[OBJECTS.index(kind)])


def test_one_crosshair_stands_in_all_plots_and_says_time_and_value(page: Page, stuck: StuckCluster) -> None:
    open_whole(page, stuck.app)
    areas = page.locator(".st-key-over-time .area")
    expect(areas.nth(1)).to_be_visible()
    first = box(areas.first)
    assert (first["height"], page.locator(".at-cross:not(:empty)").count()) == (73, 0), "72 px and its line"
    page.mouse.move(first["x"] + first["width"] / 2, first["y"] + 20)
    says = page.locator(".st-key-over-time .at-cross")
    expect(says).to_have_text([re.compile(r"^\d\d:\d\d:\d\d .+")] * areas.count())
    assert len({text[:8] for text in says.all_inner_texts()}) == 1, "at one time in all"
    lines = areas.evaluate_all(
        "all => all.map(one => parseFloat(getComputedStyle(one, '::after').left) / one.clientWidth)"
    )
    assert all(0.45 < share < 0.55 for share in lines)
    widths = {round(box(area)["width"]) for area in areas.all()}
    assert len(widths) == 1, "all have the same time axis"
    page.mouse.move(2, 2)
    expect(page.locator(".at-cross:not(:empty)")).to_have_count(0)


def test_on_a_phone_time_and_button_stand_under_each_sentence(page: Page, stuck: StuckCluster) -> None:
    page.set_viewport_size(PHONE)
    open_whole(page, stuck.app)
    card = page.locator(".st-key-overview article").filter(has=page.locator("[data-order=commit]")).first
    said, left, button = (box(card.locator(part).first) for part in (".said", ".left", "[data-order=commit]"))
    assert said["y"] + said["height"] <= left["y"]
    assert left["y"] + left["height"] <= button["y"]
    assert button["width"] >= 0.9 * said["width"]
    card.locator("[data-order=commit]").click()
    dialog = page.get_by_role("dialog")
    reason = dialog.get_by_label("Reason")
    reason.fill("to see it on a phone")
    for part in (dialog, reason, dialog.locator(".st-key-order-go button")):
        part.scroll_into_view_if_needed()
        where = box(part)
        assert where["x"] >= 0
        assert where["x"] + where["width"] <= PHONE["width"]
    dialog.locator(".st-key-order-dry-run button").click()
    expect(dialog.locator(".st-key-order-dry-result")).to_contain_text("nothing was sent", timeout=SHOWN_LIMIT_MS)


def test_on_a_phone_a_batch_is_one_column_from_its_verdict_to_its_remedy(page: Page, stuck: StuckCluster) -> None:
    page.set_viewport_size(PHONE)
    open_whole(page, f"{stuck.app}/transactions?show=batches")
    cards = page.locator(".st-key-batches article")
    card = cards.filter(has_text=f"{stuck.pipeline} batch 1")
    for fact in ("in doubt", "opened", "time left"):
        expect(card).to_contain_text(fact)
    expect(card.locator(".left time")).to_have_text(re.compile(r"^\d\d:\d\d$"))
    parts = (".title", ".facts-line", ".left", "[data-order=settle]")
    boxes = [box(card.locator(part).first) for part in parts]
    for above, below in pairwise(boxes):
        assert above["y"] + above["height"] <= below["y"]
    assert all(part["x"] >= 0 and part["x"] + part["width"] <= PHONE["width"] for part in boxes)
    lost = cards.filter(has=page.locator(".badge", has_text="lost"))
    expect(lost.locator("[data-order]")).to_have_text(["Restart …"])
    ended = page.locator(".st-key-batch-table tbody tr:not(.day)").first
    cells = [box(cell) for cell in ended.locator("td:visible").all()]
    assert {round(cell["y"]) for cell in cells} == {round(cells[0]["y"])}, "one line"
    assert all(cell["x"] + cell["width"] <= PHONE["width"] for cell in cells)


@pytest.mark.parametrize(("action", "colour"), [("commit", "main"), ("abort", "red")])
def test_the_dialog_of_an_order_is_right_in_light_and_dark(
    page: Page, stuck: StuckCluster, action: str, colour: str
) -> None:
    open_whole(page, f"{stuck.app}/transactions")
    page.locator(f"[data-order={action}]").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    go = dialog.locator(".st-key-order-go button")
    red = go.evaluate("button => getComputedStyle(button).backgroundColor").startswith("rgb(180, 35, 24)")
    assert red == (colour == "red")
    found = {"light": violations(page)}
    show_in(page, "dark")
    found["dark"] = violations(page)
    assert {scheme: wrong for scheme, wrong in found.items() if wrong} == {}
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0, timeout=SHOWN_LIMIT_MS)


def test_keys_walk_and_open_and_never_order(page: Page, stuck: StuckCluster) -> None:
    audited = len(stuck.collector.rows("audit"))
    open_whole(page, f"{stuck.app}/transactions")
    items = page.locator("[data-item]")
    for key, place in (("j", 0), ("j", 1), ("k", 0)):
        page.keyboard.press(key)
        expect(items.nth(place)).to_be_focused()
    for action, key in (("commit", "c"), ("abort", "a")):
        item = items.filter(has=page.locator(f"[data-order={action}]")).first
        item.focus()
        page.keyboard.press(key)
        reason = page.get_by_role("dialog").get_by_label("Reason")
        expect(reason).to_be_visible(timeout=SHOWN_LIMIT_MS)
        reason.fill("a key must not order")
        reason.press("Enter")
        expect(page.locator(".st-key-order-go")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0, timeout=SHOWN_LIMIT_MS)
        wait_whole(page)
    items.filter(has_text=FOREIGN).first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/transaction\?key="), timeout=SHOWN_LIMIT_MS)
    assert len(stuck.collector.rows("audit")) == audited


def test_keys_work_on_the_page_of_an_object(page: Page, stuck: StuckCluster) -> None:
    open_whole(page, stuck.app + stuck.object_paths()[OBJECTS.index("transaction")])
    expect(page.locator(".keys [data-of-items]")).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_visible(timeout=SHOWN_LIMIT_MS)


def test_firing_alerts_are_counted_in_the_navigation_and_what_needs_attention_in_the_tab(
    page: Page, stuck: StuckCluster
) -> None:
    open_whole(page, stuck.app)
    counted = "link => getComputedStyle(link, '::after').content"
    for size, link in ((DESK, "stTopNavLink"), (PHONE, "stSidebarNavLink")):
        page.set_viewport_size(size)
        # A phone has the links in a menu; what is drawn there is the same.
        alerts = page.locator(f"[data-testid={link}][href$='/alerts']")
        expect(alerts).to_have_attribute("data-count", re.compile(r"[1-9]"), timeout=SHOWN_LIMIT_MS)
        assert re.fullmatch(r'"[1-9][0-9]*!?"( "!")?', alerts.evaluate(counted)), alerts.evaluate(counted)
    expect(page).to_have_title(re.compile(r"^\([1-9]\d*\) "))
    expect(page.locator("link[rel~=icon]")).to_have_attribute("href", re.compile("^data:image/svg.*d92d20"))


def test_what_changes_make_of_a_block_is_what_a_new_viewer_gets(page: Page, stuck: StuckCluster) -> None:
    open_whole(page, f"{stuck.app}/alerts")
    card = page.locator(".st-key-alerts article").filter(has=page.locator("[data-order=silence]")).first
    card.locator("[data-order=silence]").first.click()
    page.get_by_role("dialog").get_by_label("Reason").fill("to see its card change")
    page.locator(".st-key-silence-form-go button").click()
    expect(page.locator(".st-key-alerts")).to_contain_text("silenced until", timeout=SHOWN_LIMIT_MS)
    page.wait_for_function(SHOWS_WHAT_IS_SENT, arg=".st-key-alerts .live-region", timeout=SHOWN_LIMIT_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_sees_where_the_focus_is(page: Page, stuck: StuckCluster, scheme: str) -> None:
    open_whole(page, stuck.app)
    show_in(page, scheme)
    reached, unseen = set(), []
    for _ in range(TABS):
        page.keyboard.press("Tab")
        at = focused(page)
        reached.add(at["text"])
        if not at["is_visible"]:
            unseen.append(at["text"])
    assert unseen == []
    assert any("Commit" in text for text in reached), reached


def box(element: Locator) -> dict[str, float]:
    """Return where an element stands."""
    found = element.bounding_box()
    assert found is not None, f"{element} is not shown"
    return dict(found)
