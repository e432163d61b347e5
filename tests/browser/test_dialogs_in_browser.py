"""The dialogs of orders in a browser: their size, where the focus is, what is in view.

The pages ask a collector that answers by docs/api.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.answering_app import answering_app
from tests.browser.shown_page import DESK, PHONE, SHOWN_LIMIT_MS, open_whole, violations
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import batch

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
WIDTH_PX = 640
SLOTS = 30


@pytest.fixture
def answers() -> Answers:
    """Return what the collector knows: a batch of more transactions than a screen is high."""
    return Answers(transactions=batch(slots=SLOTS))


@pytest.fixture
def app(answers: Answers, tmp_path: Path) -> Iterator[str]:
    """Return the address of an app with this collector behind it."""
    with answering_app(answers, tmp_path) as url:
        yield url


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_reason_has_the_focus_and_the_buttons_are_in_view(browser: Browser, app: str, size: ViewportSize) -> None:
    with browser.new_context(viewport=size) as context:
        page = context.new_page()
        open_whole(page, app)
        page.locator("[data-order=commit]").first.click(timeout=SHOWN_LIMIT_MS)
        expect(page.get_by_label("Reason")).to_be_focused()
        page.keyboard.type("its driver is frozen")
        dialog = page.get_by_role("dialog")
        box = dialog.bounding_box()
        assert box is not None
        assert box["width"] <= min(WIDTH_PX, size["width"])
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= size["height"]
        _is_whole_in_view(page, f"Commit {SLOTS} transactions")
        dialog.locator("details").first.click()
        expect(dialog).to_contain_text("EndTxn(commit)")
        _is_whole_in_view(page, f"Commit {SLOTS} transactions")
        assert violations(page) == []
        page.get_by_role("button", name=f"Commit {SLOTS} transactions").click()
        expect(page.locator(".st-key-order-result")).to_contain_text(f"committed {SLOTS} of {SLOTS}")


def _is_whole_in_view(page: Page, name: str) -> None:
    button = page.get_by_role("button", name=name)
    expect(button).to_be_in_viewport(ratio=1)
    on_top = (
        "button => button.contains(document.elementFromPoint(...['x', 'y'].map((axis, n) => { const r = "
        "button.getBoundingClientRect(); return r[axis] + [r.width, r.height][n] / 2; })))"
    )
    assert button.evaluate(on_top), "something lies over it"
