"""A real browser with the whole running demo. Any error on a page fails its test; a failed test leaves a picture of the page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, BrowserType, Playwright, expect, sync_playwright

from demo.broker import Broker
from demo.prerequisites import ROOT, find_chromium
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.browser.demo_process import DemoProcess
from tests.browser.page_errors import PageErrors
from tests.browser.shown_page import SHOWN_LIMIT_MS
from tests.browser.stuck_cluster import StuckCluster, running_stuck_cluster

PICTURES = ROOT / ".run" / "failed-pages"
# A machine may be busy: what does not come fails a test all the same.
expect.set_options(timeout=SHOWN_LIMIT_MS)
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


@pytest.fixture(scope="module", autouse=True)
def page_errors() -> PageErrors:
    """What goes wrong on the pages of the module's browser, whoever opens them."""
    return PageErrors()


@pytest.fixture(scope="module")
def browser(
    browser_type: BrowserType, browser_type_launch_args: dict[str, Any], page_errors: PageErrors
) -> Iterator[Browser]:
    """A browser for the tests of one module, in which no page is opened unwatched."""
    with browser_type.launch(**browser_type_launch_args) as running:
        make = running.new_context

        @wraps(make)
        def watched(**options: Any) -> BrowserContext:
            context = make(**options)
            context.set_default_timeout(SHOWN_LIMIT_MS)
            page_errors.watch(context)
            return context

        running.new_context = watched  # type: ignore[method-assign]
        yield running


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """The whole demo, ready, for all tests of a module: each test settles what it caused. Leaves no process behind.

    The scope is not the session, because the demo would then run during all later tests.
    """
    with DemoProcess(Path(tmp_path_factory.mktemp("demo"))) as process:
        yield process


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StuckCluster]:
    """Return a cluster that is stuck, with a broker of its own: what other tests leave open would be on the pages too."""
    directory = Path(tmp_path_factory.mktemp("stuck"))
    with (
        Broker(directory / "broker") as broker,
        running_stuck_cluster(KafkaConnection(broker.bootstrap_servers), directory) as cluster,
    ):
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Have the test fail with what went wrong on its pages, while they are open; marker ``page_errors``: what it provokes."""
    errors = item.funcargs["page_errors"]
    errors.take()  # what came while the test before was torn down, with its servers
    result = yield
    expected = [pattern for marker in item.iter_markers("page_errors") for pattern in marker.args]
    wrong = errors.take(expected)
    assert not wrong, "\n".join(["on the pages:", *wrong])
    return result


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
