"""``python -m tests.browser.moving_picture`` writes docs/images/incident.gif: a driver freezes, its card, the commit, the restart.

    python -m tests.browser.moving_picture [--ready FILE] [--into docs/images/incident.gif]

Every frame is a picture of the demo's page as it was; only the time that each is shown is chosen here. The demo's own panel is
hidden. It takes two minutes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from demo import topics
from demo.faults import Fault
from demo.prerequisites import ROOT, find_chromium
from demo.readers import scan
from tests.browser.conftest import CHROMIUM_ARGUMENTS
from tests.browser.demo_process import wait_for
from tests.browser.pictures import HAS_REGIONS, PIPELINE, ROWS_BEFORE, TRAFFIC_LIMIT_S, cause, running_demo
from tests.browser.shown_page import SHOWN_LIMIT_MS

SIZE = ViewportSize(width=1000, height=620)
LARGEST_BYTES = 2_000_000
COLOURS = 255
PANEL_HIDDEN = "[data-testid=stSidebar], [data-testid=stExpandSidebarButton] { display: none !important; }"
RESTART_LIMIT_MS = 180_000
REASON = "its driver is frozen"


@dataclass(slots=True)
class Film:
    """Frames of a page, each with how long it is shown (ms)."""

    page: Page
    frames: list[Image.Image] = field(default_factory=list)
    shown_ms: list[int] = field(default_factory=list)

    def take(self, shown_ms: int) -> None:
        """Add the page as it stands."""
        self.frames.append(Image.open(BytesIO(self.page.screenshot())).convert("RGB"))
        self.shown_ms.append(shown_ms)

    def write(self, file: Path) -> None:
        """Write a GIF that begins anew at its end. Raises ValueError if it is too large for a README."""
        # One palette for all: colours that change between frames flicker.
        columns = Image.new("RGB", (SIZE["width"], SIZE["height"] * len(self.frames)))
        for number, frame in enumerate(self.frames):
            columns.paste(frame, (0, number * SIZE["height"]))
        palette = columns.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        first.save(file, save_all=True, append_images=others, duration=self.shown_ms, loop=0, optimize=True)
        if (size := file.stat().st_size) > LARGEST_BYTES:
            raise ValueError(f"{file} has {size:,} bytes")


def film(page: Page, demo: dict[str, str]) -> Film:
    """Go through the incident as a person on call would."""
    taken = Film(page)
    page.goto(demo["app"])
    page.add_style_tag(content=PANEL_HIDDEN)
    page.wait_for_function(HAS_REGIONS, timeout=SHOWN_LIMIT_MS)
    overview = page.locator(".st-key-overview")
    expect(overview).to_contain_text("All well", timeout=SHOWN_LIMIT_MS)
    taken.take(1_800)
    cause(demo, Fault.FREEZE_AFTER_DECISION)
    commit = overview.locator("[data-order=commit]").first
    expect(overview).to_contain_text("waits for", timeout=SHOWN_LIMIT_MS)
    taken.take(3_000)
    commit.click()
    dialog = page.get_by_role("dialog")
    reason = dialog.get_by_label("Reason")
    expect(reason).to_be_visible(timeout=SHOWN_LIMIT_MS)
    taken.take(2_200)
    reason.fill(REASON)
    taken.take(900)
    page.locator(".st-key-order-go button").click()
    expect(page.locator(".st-key-order-result")).to_contain_text("committed", timeout=SHOWN_LIMIT_MS)
    taken.take(1_800)
    page.locator(".st-key-order-close button").click()
    expect(dialog).to_have_count(0)
    restart = overview.locator("[data-order=restart]").first
    expect(restart).to_be_visible(timeout=SHOWN_LIMIT_MS)
    taken.take(2_400)
    restart.click()
    page.locator(".st-key-pipeline-order-reason input").fill(REASON)
    taken.take(1_600)
    page.locator(".st-key-pipeline-order-go button").click()
    expect(page.locator(".st-key-pipeline-order-result")).to_contain_text("restarted", timeout=RESTART_LIMIT_MS)
    page.locator(".st-key-pipeline-order-close button").click()
    expect(dialog).to_have_count(0)
    taken.take(1_800)
    over = overview.locator("article.over").filter(has_text=PIPELINE)
    expect(over).to_contain_text("Nothing was lost.", timeout=RESTART_LIMIT_MS)
    dismiss = page.get_by_role("button", name="Dismiss")
    while left := dismiss.count():
        dismiss.first.click()
        expect(dismiss).to_have_count(left - 1)
    taken.take(3_500)
    return taken


def main() -> int:
    """Write the film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ready", type=Path, help="ready file of a demo that runs")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images" / "incident.gif")
    arguments = parser.parse_args()
    with (
        running_demo(arguments.ready) as demo,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS) as browser,
        browser.new_context(viewport=SIZE, timezone_id="UTC") as context,
    ):
        wait_for(
            "rows to show", lambda: len(scan(demo["bootstrap_servers"], topics.SINK)) >= ROWS_BEFORE, TRAFFIC_LIMIT_S
        )
        film(context.new_page(), demo).write(arguments.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
