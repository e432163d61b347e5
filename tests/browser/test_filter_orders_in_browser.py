"""An order by filter in Chromium: a reload in the middle of it loses neither the order nor its result.

The pages ask a collector that answers by docs/api.md and keeps back its answers: a real one would be done before the reload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.answering_app import answering_app
from tests.browser.shown_page import SHOWN_LIMIT_MS, violations, wait_whole
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_rows import foreign

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
NUMBER = 620
LIMIT_S = 30.0


@pytest.fixture
def answers() -> Answers:
    """Return what the collector knows: transactions for three parts."""
    return Answers(transactions=[foreign(f"bank-{n:04}", pipeline="bank") for n in range(NUMBER)])


@pytest.fixture
def app(answers: Answers, tmp_path: Path) -> Iterator[str]:
    """Return the address of an app with this collector behind it."""
    with answering_app(answers, tmp_path) as url:
        yield url


def hook(page: Page, key: str) -> Locator:
    return page.locator(f".st-key-{key}")


def test_one_of_several_conditions_is_chosen_and_another_instead(page: Page, app: str, answers: Answers) -> None:
    for number, row in enumerate(answers.transactions):
        row |= {"may_commit": True, "may_abort": False, "commit_confirmation": f"chk-{number % 2 + 3}"}
    page.goto(f"{app}/transactions?verdict=foreign")
    page.get_by_role("button", name=f"Commit all {NUMBER} …").first.click(timeout=SHOWN_LIMIT_MS)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("310 transactions if the job is restored from chk-4 or later")
    assert violations(page) == []
    hook(page, "filter-order-choose-1").locator("button").click()
    expect(dialog).to_contain_text("type chk-4.")
    hook(page, "filter-order-other-condition").locator("button").click()
    hook(page, "filter-order-choose-0").locator("button").click()
    expect(dialog).to_contain_text("310 others with it rest on other conditions")
    hook(page, "filter-order-reason").locator("input").fill("it was restored from chk-3")
    hook(page, "filter-order-confirm").locator("input").fill("chk-3")
    answers.may_answer.clear()
    hook(page, "filter-order-go").locator("button").click()
    expect(hook(page, "filter-order-progress")).to_contain_text("0 of 310 transactions")
    expect(dialog.get_by_role("button")).to_have_text(["", "Stop after this part"])
    answers.may_answer.set()
    expect(hook(page, "filter-order-result")).to_contain_text("committed 310 of 310", timeout=SHOWN_LIMIT_MS)
    assert violations(page) == []
    assert {order["confirm"] for order in answers.orders} == {"chk-3"}


def abort_all(page: Page, app: str, answers: Answers) -> None:
    """Give an order for everything foreign; the collector does not answer its first part yet."""
    page.goto(f"{app}/transactions?verdict=foreign")
    page.get_by_role("button", name=f"Abort all {NUMBER} …").first.click(timeout=SHOWN_LIMIT_MS)
    hook(page, "filter-order-reason").locator("input").fill("the job is gone")
    hook(page, "filter-order-confirm").locator("input").fill("bank-0")
    answers.may_answer.clear()
    hook(page, "filter-order-go").locator("button").click()


def test_a_reload_in_the_middle_leads_back_to_the_order_and_its_result(page: Page, app: str, answers: Answers) -> None:
    abort_all(page, app, answers)
    expect(hook(page, "filter-order-progress")).to_contain_text(f"0 of {NUMBER} transactions")
    expect(hook(page, "filter-order-progress")).to_contain_text("Closing this hides it")
    expect(hook(page, "filter-order-go")).to_have_count(0)
    assert answers.runs.came.wait(LIMIT_S)

    page.reload()
    wait_whole(page)
    line = hook(page, "sent-orders")
    expect(line).to_contain_text(f"Abort of {NUMBER} transactions: 0 done · {NUMBER} to go")
    expect(line.get_by_role("button", name="Dismiss")).to_have_count(0)
    assert violations(page) == []

    line.get_by_role("button", name="Open").click()
    expect(hook(page, "filter-order-progress")).to_contain_text(f"0 of {NUMBER} transactions")
    page.keyboard.press("Escape")
    expect(hook(page, "filter-order-progress")).to_have_count(0)
    expect(line).to_contain_text("0 done")

    answers.may_answer.set()
    expect(line).to_contain_text(f"✔ Abort of {NUMBER} transactions: {NUMBER} done", timeout=SHOWN_LIMIT_MS)
    line.get_by_role("button", name="Open").click()
    result = hook(page, "filter-order-result")
    expect(result).to_contain_text(re.compile(rf"aborted {NUMBER} of {NUMBER} · audit 512 to 514"))
    assert violations(page) == []
    hook(page, "filter-order-close").locator("button").click()
    expect(page.get_by_text(f"Abort of {NUMBER} transactions")).to_have_count(0)
    assert len(answers.orders) == 1


def test_an_order_is_stopped_after_its_part(page: Page, app: str, answers: Answers) -> None:
    abort_all(page, app, answers)
    assert answers.runs.came.wait(LIMIT_S)
    hook(page, "filter-order-stop").locator("button").click()
    expect(hook(page, "filter-order-progress")).to_contain_text("it stops after this part")
    answers.may_answer.set()
    result = hook(page, "filter-order-result")
    expect(result).to_contain_text(f"aborted 250 of {NUMBER} · 370 not sent", timeout=SHOWN_LIMIT_MS)
    expect(result).to_contain_text("anna stopped it.")
