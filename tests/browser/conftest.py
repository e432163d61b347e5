"""A real browser with the whole running demo; a failed test leaves a picture of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserType, Playwright, sync_playwright

from demo.prerequisites import ROOT, find_chromium
from tests.browser.demo_process import DemoProcess

PICTURES = ROOT / ".run" / "failed-pages"
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Use the system's Chromium; without Chromium these tests fail and say what to do."""
    chromium = find_chromium()
    assert chromium is not None, "there is no Chromium for the browser tests: run 'make setup-tests'"
    return {"executable_path": chromium, "args": CHROMIUM_ARGUMENTS}


@pytest.fixture(scope="session")
def browser_context_args() -> dict[str, Any]:
    """A desktop screen in UTC."""
    return {"viewport": {"width": 1440, "height": 1000}, "timezone_id": "UTC"}


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Playwright for the tests of one module.

    The plugin's own lasts for the session, and its event loop counts as running in this thread: asyncio.run would fail in
    every later test of the process.
    """
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def browser_type(playwright: Playwright) -> BrowserType:
    """Chromium."""
    return playwright.chromium


@pytest.fixture(scope="module")
def browser(browser_type: BrowserType, browser_type_launch_args: dict[str, Any]) -> Iterator[Browser]:
    """A browser for the tests of one module."""
    with browser_type.launch(**browser_type_launch_args) as running:
        yield running


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """The whole demo, ready, for all tests of a module: each test settles what it caused. Leaves no process behind.

    The scope is not the session, because the demo would then run during all later tests.
    """
    with DemoProcess(Path(tmp_path_factory.mktemp("demo"))) as process:
        yield process


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        picture = PICTURES / f"{item.name}.png"
        page.screenshot(path=picture, full_page=True)
        report.sections.append(("page", f"a picture of the page: {picture}"))
    return report
