"""In Chromium a phone shows the answer of each page, then its first row, below the bar; nothing in the bar is covered.

The pages ask a collector that answers by docs/api.md: every page has rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.answering_app import answering_app
from tests.browser.shown_page import PHONE, SHOWN_LIMIT_MS, open_whole, too_wide
from tests.integration.kafka_fixtures import wait_until
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import alert
from tests.unit.app.contract_pipeline_rows import (
    checkpoint,
    checkpoint_durations,
    checkpoint_gap,
    checkpoint_gaps,
    timeout,
)
from tests.unit.app.contract_rows import abort, ended_transaction, foreign, given_order, loss, now_ms

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
BAR_PX = 48
ANSWER_PX, ROW_PX = 200, 280
"""How far below the bar the answer and the first row begin at most."""
PAGES = {
    "/pipelines?show=timeouts": ("text=1 too short", "article.card"),
    "/pipelines?show=checkpoints": ("text=No checkpoint is overdue.", ".st-key-checkpoint-table tbody tr:not(.day)"),
    "/alerts": ("text=1 firing", "article.card"),
    "/history?show=aborts": ("text=30 transactions since", ".st-key-abort-table tbody tr:not(.day)"),
    "/history?show=losses": ("text=is lost.", ".st-key-loss-table tbody tr:not(.day)"),
    "/history?show=search": ("text=20 transactions", ".st-key-search-table tbody tr:not(.day)"),
    "/audit": ("text=30 orders", ".st-key-audit-table tbody tr:not(.day)"),
}
"""What answers the question of a page, and its first row, by its address."""
BAR = """() => [...document.querySelectorAll("[data-testid=stLogoLink], [data-testid=stExpandSidebarButton], .st-key-topline > *")]
    .map(part => part.getBoundingClientRect()).filter(box => box.width > 0)
    .map(({left, right}) => [left, right]).sort(([one], [other]) => one - other)"""


def knowledge() -> Answers:
    """Return more of everything than a phone shows at once; one source is down."""
    answers = Answers(transactions=[foreign()], timeouts=[timeout()], alerts=[alert()])
    answers.aborts = [abort(f"orders-{number}") for number in range(30)]
    answers.losses = [loss(f"flink-orders-0-{number}", verdict="lost") for number in range(30)]
    answers.checkpoints = [checkpoint(number, pipeline=f"pipeline-{number % 2}") for number in range(30)]
    answers.checkpoint_durations = [checkpoint_durations("pipeline-0")]
    over = checkpoint_gap(now_ms() - 600_000, now_ms() - 540_000)
    answers.checkpoint_gaps = [checkpoint_gaps("pipeline-0", gaps=[over])]
    answers.audit = [given_order(number) for number in range(30)]
    answers.found = [ended_transaction(f"orders-{number}", cause=None, certainty=None) for number in range(30)]
    return answers


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the pages."""
    with answering_app(knowledge(), tmp_path_factory.mktemp("phone")) as url:
        yield url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page on a phone."""
    with browser.new_context(viewport=PHONE, timezone_id="UTC") as context:
        yield context.new_page()


@pytest.mark.parametrize("address", PAGES)
def test_the_answer_then_the_first_row_begin_below_the_bar(page: Page, app: str, address: str) -> None:
    open_whole(page, app + address)

    def top(selector: str) -> float:
        first = page.locator(selector).first
        first.wait_for(timeout=SHOWN_LIMIT_MS)
        box = first.bounding_box()
        assert box is not None
        return box["y"] - BAR_PX

    answer, row = PAGES[address]
    # The list comes in a live region, after the page around it, and is laid out a moment later.
    wait_until("the answer near the bar", lambda: 0 <= top(answer) <= ANSWER_PX, 10.0)
    wait_until("the first row near it", lambda: top(answer) < top(row) <= ROW_PX, 10.0)
    assert too_wide(page) == []


def test_nothing_in_the_bar_covers_its_neighbour(page: Page, app: str) -> None:
    open_whole(page, app + "/audit")
    page.locator(".topline .badge").wait_for(timeout=SHOWN_LIMIT_MS)
    boxes = page.evaluate(BAR)
    assert len(boxes) == 5
    assert all(left >= right for (_, right), (left, _) in pairwise(boxes)), boxes
