"""``python -m tests.browser.pictures`` writes docs/images: each page of a demo with a fault, on a desk, in the dark, on a phone;

and what an order looks like from its dialog to its end.

    python -m tests.browser.pictures [--ready FILE] [--into docs/images]

It starts the demo, waits until there is traffic to show, freezes the driver after its decision, abandons a foreign transaction,
and takes what shows the batch first: the broker aborts it after a minute.
With --ready it uses a demo that runs already: the file that ``python -m demo --ready-file FILE`` wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from demo import topics
from demo.faults import Fault
from demo.prerequisites import ROOT, find_chromium
from demo.readers import scan
from indoubt.lifecycle import page_paths
from tests.browser.conftest import CHROMIUM_ARGUMENTS
from tests.browser.demo_process import DemoProcess, wait_for
from tests.browser.shown_page import DESK, PHONE, SHOWN_LIMIT_MS, show_in
from tests.integration.app_process import running_app

PIPELINE = "ip-count"
ROWS_BEFORE, TRAFFIC_LIMIT_S = 1_000, 240.0
COLOURS = (256, 128, 64)
"""Fewer are tried where a picture is larger than LARGEST_BYTES."""
LARGEST_BYTES = 150_000
VARIANTS = (("desk", "light", DESK), ("phone", "light", PHONE), ("dark", "dark", DESK))
"""The end of a picture's name, the scheme, the size."""
GUEST = {"X-Forwarded-User": "emil@example.org", "X-Forwarded-Groups": "guests"}
"""What a proxy says of a person without a role."""
FOREIGN = "billing-export-1"
"""What the demo's fault names the transaction that it abandons first."""
WITH_FAULT = (
    ("transactions", "/transactions"),
    ("readers", "/readers"),
    ("transactions-batches", "/transactions?show=batches"),
    ("alerts", "/alerts"),
)
SIDEBAR_RESTS = """isClosed => {
    const edges = document.querySelector("[data-testid=stSidebar]")?.getBoundingClientRect();
    return !edges || (isClosed ? edges.right <= 0 : edges.left === 0);
}"""
"""It slides away when the page becomes narrow, and comes back."""
HAS_REGIONS = """() => document.querySelectorAll(".region-blocks").length > 0
    && [...document.querySelectorAll(".region-blocks")].every(blocks => blocks.childElementCount > 0)
    && !document.querySelector("[data-stale=true], [data-testid=stSkeleton]")"""
"""Streamlit itself may run: the demo's panel writes itself again all the time."""
AT_REST = (
    ("pipelines", "/pipelines"),
    ("pipeline", page_paths.pipeline(PIPELINE)),
    ("pipelines-checkpoints", "/pipelines?show=checkpoints"),
    ("pipelines-timeouts", "/pipelines?show=timeouts"),
    ("history", "/history"),
    ("history-losses", "/history?show=losses"),
    ("history-ids", "/history?show=ids"),
    ("history-search", "/history?show=search"),
    ("audit", "/audit"),
    ("collector", "/collector"),
)


def cause(demo: dict[str, str], fault: Fault) -> None:
    """Cause a fault of the demo. Raises AssertionError if the demo does not take it."""
    answer = httpx.post(f"{demo['fault_injection']}/faults/{fault.value}", timeout=60).json()
    assert answer["accepted"], answer["message"]


def take(page: Page, into: Path, name: str) -> None:
    """Write a page as it stands: on a desk in light, on a phone, on a desk in dark."""
    for variant, scheme, size in VARIANTS:
        page.set_viewport_size(size)
        show_in(page, scheme)
        page.wait_for_function(HAS_REGIONS, timeout=SHOWN_LIMIT_MS)
        page.wait_for_function(SIDEBAR_RESTS, arg=variant == "phone", timeout=SHOWN_LIMIT_MS)
        write_small(page.screenshot(), into / f"{name}-{variant}.png")


def write_small(png: bytes, file: Path) -> None:
    """Write a picture with few colours, and fewer until it is small enough. Raises ValueError if it stays too large."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    for colours in COLOURS:
        picture.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, optimize=True)
        if file.stat().st_size <= LARGEST_BYTES:
            return
    raise ValueError(f"{file} has {file.stat().st_size:,} bytes")


def take_from(context: BrowserContext, demo: dict[str, str], into: Path, pages: Iterable[tuple[str, str]]) -> None:
    """Write pages of the demo by their addresses. One is open at a time: the demo's panel writes itself again in each."""
    for name, path in pages:
        page = context.new_page()
        page.goto(demo["app"] + path)
        page.wait_for_function(HAS_REGIONS, timeout=SHOWN_LIMIT_MS)
        take(page, into, name)
        page.close()


def take_fault(context: BrowserContext, demo: dict[str, str], into: Path) -> None:
    """Cause the faults, and take the pages that show them, those first that show the batch: it is there for a minute."""
    overview = context.new_page()
    overview.goto(demo["app"])
    cause(demo, Fault.FREEZE_AFTER_DECISION)
    card = overview.locator(".st-key-overview article").filter(has=overview.locator("[data-order=commit]")).first
    expect(card).to_contain_text("waits for", timeout=SHOWN_LIMIT_MS)
    transaction = card.locator("[data-opens]").get_attribute("href") or ""
    number = re.search(r"batch (\d+)", card.inner_text())
    assert number is not None, card.inner_text()
    # Only now: readers would wait behind this one.
    cause(demo, Fault.ABANDONED_PRODUCER)
    take(overview, into, "overview")
    overview.set_viewport_size(DESK)
    card.locator("[data-order=commit]").click()
    expect(overview.get_by_role("dialog").get_by_label("Reason")).to_be_visible(timeout=SHOWN_LIMIT_MS)
    take(overview, into, "order-commit")
    overview.keyboard.press("Escape")
    batch = page_paths.batch(PIPELINE, int(number.group(1)))
    take_from(context, demo, into, [("transaction", transaction), *WITH_FAULT, ("batch", batch)])
    overview.goto(demo["app"] + transaction)
    alert = overview.locator("a[href^='/alert?']").first
    expect(alert).to_be_visible(timeout=SHOWN_LIMIT_MS)
    found = alert.get_attribute("href") or ""
    overview.close()
    take_from(context, demo, into, [("alert", found), ("partition", page_paths.partition(topics.SINK, 0))])


def ask_to_abort(page: Page, demo: dict[str, str]) -> None:
    """Open the dialog that aborts the abandoned transaction, and fill it in."""
    page.goto(f"{demo['app']}/transactions")
    row = page.locator(".st-key-pending article").filter(has_text=FOREIGN)
    row.locator("[data-order=abort]").click(timeout=SHOWN_LIMIT_MS)
    page.locator(".st-key-order-reason input").fill("its machine is gone, and its owner agreed")
    page.locator(".st-key-order-confirm input").fill(FOREIGN)


def take_orders(context: BrowserContext, demo: dict[str, str], into: Path) -> None:
    """Abort the abandoned transaction in one of two windows: the dialog in the other one says so."""
    first, second = context.new_page(), context.new_page()
    ask_to_abort(first, demo)
    take(first, into, "order-abort")
    ask_to_abort(second, demo)
    first.locator(".st-key-order-go button").click()
    for page, name in ((first, "order-result"), (second, "order-overtaken")):
        expect(page.locator(f".st-key-{name}")).to_be_visible(timeout=SHOWN_LIMIT_MS)
        take(page, into, name)
        page.close()


def take_refusal(browser: Browser, into: Path) -> None:
    """Write what a person reads who signed in and has no role."""
    with (
        tempfile.TemporaryDirectory() as directory,
        running_app(Path(directory), "--trusted-proxy", "127.0.0.1", "--operator-group", "oncall") as port,
        browser.new_context(extra_http_headers=GUEST) as context,
    ):
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        for variant, scheme, size in VARIANTS:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            write_small(page.screenshot(), into / f"no-role-{variant}.png")


def take_all(context: BrowserContext, demo: dict[str, str], into: Path) -> None:
    """Write every picture."""
    into.mkdir(parents=True, exist_ok=True)
    wait_for("rows to show", lambda: len(scan(demo["bootstrap_servers"], topics.SINK)) >= ROWS_BEFORE, TRAFFIC_LIMIT_S)
    take_fault(context, demo, into)
    take_orders(context, demo, into)
    take_from(context, demo, into, AT_REST)


@contextlib.contextmanager
def running_demo(ready: Path | None) -> Iterator[dict[str, str]]:
    """Return the addresses of a demo: of one that runs, or of one of its own."""
    if ready is not None:
        yield json.loads(ready.read_text())
        return
    with tempfile.TemporaryDirectory() as directory, DemoProcess(Path(directory)) as process:
        yield process.addresses


def main() -> int:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ready", type=Path, help="ready file of a demo that runs")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    with (
        running_demo(arguments.ready) as demo,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS) as browser,
        browser.new_context(viewport=DESK, timezone_id="UTC") as context,
    ):
        take_all(context, demo, arguments.into)
        take_refusal(browser, arguments.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
