"""Sign-in as a person does it, in Chromium, at a real OpenID provider; and what a page shows when the session is over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from demo.broker import Broker
from tests.browser.shown_page import DESK, PHONE, SHOWN_LIMIT_MS, violations, wait_whole
from tests.integration.app_process import running_app
from tests.integration.collector_process import running
from tests.integration.openid_provider import CARLA, EMIL, running_provider

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.page_errors("https://"),
]
PAGES_TOKEN = "a-token-of-the-pages-that-speaks-for-persons"
PLACE = "/transactions?show=batches"


@pytest.fixture(scope="module")
def app(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of an app that wants a sign-in, with a collector behind it."""
    directory = Path(tmp_path_factory.mktemp("signed-in"))
    tokens = {"INDOUBT_FOR_PERSONS_TOKEN": f"pages:{PAGES_TOKEN}"}
    with (
        running_provider() as provider,
        running(broker.bootstrap_servers, directory / "collector", environment=tokens) as collector,
        running_app(
            directory,
            *provider.options(),
            INDOUBT_TOKEN=PAGES_TOKEN,
            INDOUBT_COLLECTOR_URL=collector.url,
            **provider.variables(),
        ) as port,
    ):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser without a session; the provider's page has a style sheet from outside, which is not fetched."""
    with browser.new_context(viewport={"width": 1440, "height": 1000}) as context:
        context.route("https://**", lambda route: route.abort())
        yield context


def sign_in(page: Page, address: str) -> None:
    """Sign in at the provider, to which the address leads."""
    page.get_by_role("button", name=CARLA).click()
    expect(page).to_have_url(re.compile(f"^{re.escape(address)}&zone=UTC$"), timeout=SHOWN_LIMIT_MS)
    wait_whole(page)


def test_a_person_signs_in_sees_the_live_page_asked_for_and_leaves(context: BrowserContext, app: str) -> None:
    page = context.new_page()
    page.goto(app + PLACE)
    sign_in(page, app + PLACE)
    page.locator(".menu summary").click()
    expect(page.locator(".menu")).to_contain_text(f"{CARLA} (operator)")
    expect(page.locator("[data-live]")).to_have_text("live")
    page.get_by_role("link", name="Sign out").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading")).to_have_text("You are signed out")
    assert violations(page) == []
    page.goto(app + PLACE)
    expect(page.get_by_role("button", name=CARLA)).to_be_visible()


@pytest.mark.page_errors("403")
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_person_without_a_role_reads_whom_to_ask(context: BrowserContext, app: str, size: ViewportSize) -> None:
    page = context.new_page()
    page.set_viewport_size(size)
    page.goto(app + PLACE)
    page.get_by_role("button", name=EMIL).click()
    expect(page.get_by_role("heading")).to_have_text("You may not use indoubt")
    said = page.get_by_role("main")
    expect(said).to_contain_text(f"You are signed in as {EMIL}, and none of your groups has a role here.")
    expect(said).to_contain_text("--viewer-group")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert violations(page) == []
    said.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("button", name=CARLA)).to_be_visible()


@pytest.mark.page_errors("401", "WebSocket handshake: Unexpected response code: 403")
def test_a_page_whose_session_is_over_leads_to_the_sign_in(context: BrowserContext, app: str) -> None:
    page, other = context.new_page(), context.new_page()
    page.goto(app + PLACE)
    sign_in(page, app + PLACE)
    other.goto(f"{app}/sign-out")
    other.get_by_role("button", name="Sign out").click()

    over = page.locator(".session-over")
    expect(over).to_contain_text("Your session is over", timeout=SHOWN_LIMIT_MS)
    expect(page.locator(".live-region.old").first).to_be_attached()
    # Streamlit says so too, in a dialog in front of everything, once it has asked in vain.
    with page.expect_response(re.compile("_stcore/host-config"), timeout=SHOWN_LIMIT_MS):
        pass
    expect(page.get_by_role("dialog")).to_have_count(0)
    over.get_by_role("link", name="Sign in again").click()
    sign_in(page, app + PLACE)
    expect(over).to_have_count(0)
