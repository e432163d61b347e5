"""In Chromium no cell of a list runs into its neighbour, at four widths, with the longest badges and names.

The pages ask a collector that answers by docs/api.md: no real one has every verdict and such names at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from indoubt.lifecycle.verdicts import Certainty, Verdict
from tests.browser.answering_app import answering_app
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole, too_wide
from tests.integration.kafka_fixtures import wait_until
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import checkpoint
from tests.unit.app.contract_rows import application, batch, blocked, foreign, loss

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
LONG = "settlement-department-of-the-cards-business-in-northern-europe"
UNBROKEN = "x" * 90
WIDTHS = (390, 1024, 1400, 1920)
ADDRESSES = (
    "/transactions",
    "/readers",
    "/pipelines?show=checkpoints",
    "/history?show=losses",
    "/history?show=search",
)
OVERLAPS = """() => {
    // Where the text of a cell is seen: what an element around it cuts off is not.
    const seen = cell => {
        const found = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            if (!texts.currentNode.textContent.trim()) continue;
            const range = document.createRange();
            range.selectNodeContents(texts.currentNode);
            for (const {left, top, right, bottom} of range.getClientRects()) {
                const box = {left, top, right, bottom};
                for (let around = texts.currentNode.parentElement; ; around = around.parentElement) {
                    const style = getComputedStyle(around), edge = around.getBoundingClientRect();
                    if (style.overflowX !== "visible" || style.display === "none") {
                        box.left = Math.max(box.left, edge.left);
                        box.right = Math.min(box.right, edge.right);
                    }
                    if (style.borderStyle !== "none" && around !== cell && style.display === "inline-block") {
                        box.left = Math.min(box.left, edge.left);
                        box.right = Math.max(box.right, edge.right);
                    }
                    if (around === cell) break;
                }
                if (box.right > box.left && box.bottom > box.top) found.push(box);
            }
        }
        return found;
    };
    const overlap = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
        && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;
    const wrong = [];
    for (const row of document.querySelectorAll(".line, table.rows tr")) {
        const cells = [...row.children];
        const actions = row.matches(".line") && row.parentElement.querySelector(":scope > .remedies");
        if (actions) cells.push(actions);
        const boxes = cells.map(seen);
        for (let at = 0; at < cells.length; at++)
            for (let other = at + 1; other < cells.length; other++)
                if (boxes[at].some(one => boxes[other].some(two => overlap(one, two))))
                    wrong.push(`${cells[at].textContent.slice(0, 60)} | ${cells[other].textContent.slice(0, 60)}`);
    }
    return [document.querySelectorAll(".line > *, table.rows td").length, wrong];
}"""


def knowledge() -> Answers:
    """Return every verdict with every certainty, and names as long as they come."""
    rows = []
    for number, verdict in enumerate(Verdict):
        for certainty in Certainty:
            name = LONG if number % 2 else UNBROKEN
            wanted = {
                "verdict": verdict.value,
                "certainty": certainty.value,
                "pipeline": f"{name}-{certainty.value}",
                "rows": 1_234_567_890,
            }
            rows += batch(1_000_000 + number, slots=2, **wanted, application=application(wanted["pipeline"]))
        rows.append(
            foreign(f"{LONG}-{UNBROKEN}-{number}", partitions=[f"{LONG}-{UNBROKEN}-{part}" for part in range(5)])
        )
    holds = [
        blocked(topic=f"{LONG}.{UNBROKEN}", partition=number, holder_transaction=f"{LONG}-{UNBROKEN}")
        for number in range(3)
    ]
    answers = Answers(transactions=rows, blocked=holds)
    answers.losses = [
        loss(f"{LONG}-{UNBROKEN}", pipeline=LONG, verdict=verdict) for verdict in ("lost", "lost, then written again")
    ]
    answers.checkpoints = [checkpoint(number, pipeline=f"{LONG}-{UNBROKEN}") for number in range(3)]
    return answers


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the pages."""
    with answering_app(knowledge(), tmp_path_factory.mktemp("columns")) as url:
        yield url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page."""
    with browser.new_context(timezone_id="UTC") as context:
        yield context.new_page()


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_cell_runs_into_its_neighbour(page: Page, app: str, address: str) -> None:
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        open_whole(page, app + address)
        if "search" not in address:
            # The list comes in a live region, after the page around it, and is laid out a moment later.
            page.wait_for_function(f"({OVERLAPS})()[0] > 0", timeout=SHOWN_LIMIT_MS)
        wait_until(f"nothing to be wider than {width} px", lambda: not too_wide(page), 10.0)
        _, wrong = page.evaluate(OVERLAPS)
        found[width] = wrong
    assert {width: wrong for width, wrong in found.items() if wrong} == {}
