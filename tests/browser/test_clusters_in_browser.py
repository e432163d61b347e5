"""In Chromium: several clusters over one app. What is pressed on the pages of one cluster reaches its collector and no other.

The pages ask collectors that answer by docs/api.md. Two of them have the same transactions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from demo.ports import free_port
from demo.prerequisites import ROOT
from tests.browser.shown_page import DESK, PHONE, open_whole, show_in, too_wide, violations, wait_whole
from tests.integration.app_process import running_app
from tests.integration.kafka_fixtures import wait_until
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_rows import batch, foreign, now_ms
from tests.unit.app.contract_server import ContractServer

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
PICTURES = ROOT / ".run" / "pictures"
GONE = "asia"


@dataclass(frozen=True, slots=True)
class Clusters:
    """The address of the pages, and what each collector knows and was sent."""

    address: str
    known: dict[str, Answers]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Two with the same batch, one that is well, and one that does not answer."""
    known = {
        "orders-eu": Answers(transactions=[*batch(1841), foreign("billing-export-1")], cluster_name="orders-eu"),
        # Asked second, and first by deadline.
        "orders-us": Answers(transactions=batch(1841, deadline_ms=now_ms() + 5_000), cluster_name="orders-us"),
        "staging": Answers(cluster_name="staging"),
    }
    with ExitStack() as running:
        urls = {name: running.enter_context(ContractServer(answers)).url for name, answers in known.items()}
        urls[GONE] = f"http://127.0.0.1:{free_port()}"
        words = [f"--collector={name}={url}" for name, url in urls.items()]
        directory = Path(tmp_path_factory.mktemp("clusters"))
        port = running.enter_context(running_app(directory, *words, INDOUBT_TOKEN=TOKEN))
        yield Clusters(f"http://127.0.0.1:{port}", known)


def test_all_clusters_come_first_by_deadline_and_say_which_does_not_answer(page: Page, clusters: Clusters) -> None:
    page.set_viewport_size({"width": 1400, "height": 1000})
    open_whole(page, clusters.address)
    shown = page.locator(".st-key-clusters")
    expect(shown.locator("h2")).to_contain_text("incidents in 2 clusters need you")
    expect(shown.get_by_role("alert").filter(has_text=f"{GONE} does not answer since")).to_have_count(1)
    expect(shown.locator("article .of-cluster")).to_have_text(["orders-us", "orders-eu", "orders-eu"])
    expect(shown.locator("p.of-cluster")).to_have_text([re.compile(name) for name in clusters.known])
    expect(shown.locator("[data-order]")).to_have_count(0)
    expect(page.locator(".switch summary")).to_have_text("All clusters")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "all-clusters-1400.png")
    found = {"light": [*violations(page), *too_wide(page)]}
    show_in(page, "dark")
    found["dark"] = violations(page)
    show_in(page, "light")
    page.set_viewport_size(PHONE)
    page.screenshot(path=PICTURES / "all-clusters-390.png")
    found["phone"] = [*violations(page), *too_wide(page)]
    page.locator(".switch summary").click()
    expect(page.locator(".switch li a").first).to_be_visible()
    page.screenshot(path=PICTURES / "switch-390.png")
    assert {where: wrong for where, wrong in found.items() if wrong} == {}


def test_an_order_goes_to_the_cluster_of_its_page(page: Page, clusters: Clusters) -> None:
    page.set_viewport_size(DESK)
    open_whole(page, clusters.address)
    page.locator(".st-key-clusters p.of-cluster").get_by_role("link", name="orders-us").click()
    expect(page).to_have_url(re.compile(r"/overview\?.*cluster=orders-us"))
    expect(page.locator(".switch summary")).to_have_text("orders-us")
    page.get_by_role("link", name="Transactions").first.click()
    expect(page).to_have_url(re.compile(r"/transactions\?.*cluster=orders-us"))
    wait_whole(page)
    page.locator("[data-order=commit]").first.click()
    page.locator(".st-key-order-reason input").fill("the driver is frozen")
    page.locator(".st-key-order-go button").click()
    wait_until("the order", lambda: clusters.known["orders-us"].orders, 20.0)
    assert [name for name, answers in clusters.known.items() if answers.orders] == ["orders-us"]
    page.locator(".st-key-order-close button").click()

    page.locator(".switch summary").click()
    page.locator(".switch").get_by_role("link", name="orders-eu").click()
    expect(page).to_have_url(re.compile(r"/overview\?.*cluster=orders-eu"))
    expect(page.locator(".switch summary")).to_have_text("orders-eu")
    expect(page.locator(".st-key-last-order")).to_have_count(0)
    wait_whole(page)
    links = page.locator(".live-region a[href^='/']").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    others = {name for name in (*clusters.known, GONE) if name != "orders-eu"}
    of_others = [link for link in links if any(f"cluster={name}" in link for name in others)]
    assert len(of_others) == len(others), "the switch alone leads to others"
    assert [link for link in links if "cluster=" not in link] == ["/"]


def test_a_dialog_of_one_cluster_is_not_there_on_another(page: Page, clusters: Clusters) -> None:
    open_whole(page, f"{clusters.address}/transactions?cluster=orders-eu")
    before = len(clusters.known["orders-eu"].orders)
    page.locator("[data-order=commit]").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate(
        "history.pushState({}, '', '/transactions?cluster=orders-us'); dispatchEvent(new PopStateEvent('popstate'))"
    )
    expect(page.locator(".switch summary")).to_have_text("orders-us")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(clusters.known["orders-eu"].orders) == before


def test_an_address_without_a_cluster_asks_for_it_and_one_with_a_wrong_name_shows_nothing(
    page: Page, clusters: Clusters
) -> None:
    page.goto(f"{clusters.address}/readers")
    page.get_by_role("link", name="staging").last.click()
    expect(page).to_have_url(re.compile(r"/readers\?.*cluster=staging"))
    page.goto(f"{clusters.address}/readers?cluster=nowhere")
    expect(page.get_by_role("alert").filter(has_text="these pages show no cluster 'nowhere'")).to_be_visible()
    expect(page.locator("article")).to_have_count(0)
    page.get_by_role("link", name="orders-eu").last.click()
    expect(page).to_have_url(re.compile(r"/readers\?.*cluster=orders-eu"))


def test_the_palette_searches_this_cluster_and_offers_the_others(page: Page, clusters: Clusters) -> None:
    open_whole(page, f"{clusters.address}/readers?cluster=staging")
    page.keyboard.press("/")
    page.keyboard.type("orders-us")
    page.get_by_role("option", name=re.compile("^orders-us.*cluster")).click()
    expect(page).to_have_url(re.compile(r"/overview\?.*cluster=orders-us"))
    expect(page.locator(".switch summary")).to_have_text("orders-us")
