"""Two persons in two browsers, whom a proxy names: an order by filter of one is not seen, and not stopped, by the other.

An order of one takes the place of the form that the other has open for the same batch.

The pages ask a collector that answers by docs/api.md and keeps back its answers, so that the order is under way all the while.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.answering_app import answering_app
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole, wait_whole
from tests.browser.test_filter_orders_in_browser import LIMIT_S, NUMBER, abort_all, hook
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import batch, foreign

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
PROXY = ("--trusted-proxy", "127.0.0.1", "--operator-group", "oncall")


@pytest.fixture
def answers() -> Answers:
    """Return what the collector knows: transactions for three parts."""
    return Answers(transactions=[foreign(f"bank-{n:04}", pipeline="bank") for n in range(NUMBER)])


@pytest.fixture
def app(answers: Answers, tmp_path: Path) -> Iterator[str]:
    """Return the address of an app that believes a proxy on this machine."""
    with answering_app(answers, tmp_path, *PROXY) as url:
        yield url


@pytest.fixture
def persons(browser: Browser) -> Iterator[tuple[Page, Page]]:
    """Return a page of Carla and one of Dora, each in a browser of her own that says who she is, as the proxy would."""
    with ExitStack() as stack:
        contexts = [
            stack.enter_context(
                browser.new_context(
                    viewport={"width": 1440, "height": 1000},
                    extra_http_headers={"X-Forwarded-User": name, "X-Forwarded-Groups": "oncall"},
                )
            )
            for name in ("carla", "dora")
        ]
        yield contexts[0].new_page(), contexts[1].new_page()


def test_an_order_by_filter_is_only_for_the_person_who_gave_it(
    persons: tuple[Page, Page], app: str, answers: Answers
) -> None:
    carla, dora = persons
    abort_all(carla, app, answers)
    assert answers.runs.came.wait(LIMIT_S)

    open_whole(dora, f"{app}/transactions?verdict=foreign")
    expect(hook(dora, "sent-orders")).to_have_count(0)
    expect(dora.get_by_text("Abort of")).to_have_count(0)
    dora.get_by_role("button", name=f"Abort all {NUMBER} …").first.click(timeout=SHOWN_LIMIT_MS)
    expect(hook(dora, "filter-order-go")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    expect(hook(dora, "filter-order-stop")).to_have_count(0)
    expect(hook(dora, "filter-order-progress")).to_have_count(0)

    carla.reload()
    wait_whole(carla)
    expect(hook(carla, "sent-orders")).to_contain_text(f"Abort of {NUMBER} transactions: 0 done")
    answers.may_answer.set()
    expect(hook(carla, "sent-orders")).to_contain_text(f"{NUMBER} done", timeout=SHOWN_LIMIT_MS)

    dora.reload()
    wait_whole(dora)
    expect(hook(dora, "sent-orders")).to_have_count(0)
    assert [run["who"] for run in answers.runs.rows.values()] == ["carla"]


def test_the_order_of_one_takes_the_place_of_the_form_of_the_other(
    persons: tuple[Page, Page], app: str, answers: Answers
) -> None:
    answers.transactions = batch()
    for person in persons:
        open_whole(person, app)
        person.locator("[data-order=commit]").first.click(timeout=SHOWN_LIMIT_MS)
        expect(person.get_by_label("Reason")).to_be_focused()
        person.keyboard.type("its driver is frozen")
    carla, dora = persons
    carla.get_by_role("button", name="Commit 4 transactions").click()
    expect(hook(carla, "order-result")).to_contain_text("committed 4 of 4")
    expect(hook(dora, "order-overtaken")).to_contain_text("carla committed this")
    expect(hook(dora, "order-overtaken")).to_contain_text(" s ago")
    expect(dora.get_by_label("Reason")).to_have_count(0)
    expect(dora.get_by_role("button", name="Commit 4 transactions")).to_have_count(0)
    hook(dora, "order-close").locator("button").click()
    expect(dora.get_by_role("dialog")).to_have_count(0)
    assert [order["who"] for order in answers.orders] == ["carla"]
