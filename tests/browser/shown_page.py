"""A page in Chromium: opened until it is whole, what axe-core finds on it, what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize

SHOWN_LIMIT_MS = 60_000
PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1440, "height": 1000}
IS_SHOWN = """() => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState === "notRunning"
    && document.querySelectorAll(".region-blocks").length > 0
    && [...document.querySelectorAll(".region-blocks")].every(blocks => blocks.childElementCount > 0)"""
"""Streamlit rests, and every live region has its rows."""
_AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
_NOT_OURS: dict[str, str] = {}
"""Selector of Streamlit's own markup -> why its violation cannot be mended here; nothing else is left out."""
_VIOLATIONS = """async (left_out) => (await axe.run({exclude: left_out})).violations.flatMap(rule => rule.nodes.map(node =>
    `${rule.id}: ${node.target.join(" ")}: ${node.html.slice(0, 200)}: ${node.failureSummary}`))"""
_TOO_WIDE = """() => [document.documentElement, document.querySelector("[data-testid=stMain]")]
    .filter(element => element.scrollWidth > element.clientWidth)
    .map(element => `${element.tagName} is ${element.scrollWidth} px wide in ${element.clientWidth}`)"""


def open_whole(page: Page, address: str) -> None:
    """Open an address, and wait until the page is whole; nothing on it moves by itself from then on."""
    page.goto(address)
    wait_whole(page)


def wait_whole(page: Page) -> None:
    """Wait until Streamlit rests and every live region has its rows; nothing moves by itself from then on.

    A region that has just got its rows fades in for 0.3 s, and pale text is a violation.
    """
    page.wait_for_function(IS_SHOWN, timeout=SHOWN_LIMIT_MS)
    page.add_style_tag(content="*, *::before, *::after { transition: none !important; animation: none !important }")


def show_in(page: Page, scheme: str) -> None:
    """Have the page be light or dark, as the system says."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.wait_for_function(
        "scheme => document.documentElement.style.colorScheme === scheme", arg=scheme, timeout=SHOWN_LIMIT_MS
    )


def violations(page: Page) -> list[str]:
    """Return what axe-core finds wrong, one line for each element."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(_AXE)
    found: list[str] = page.evaluate(_VIOLATIONS, list(_NOT_OURS))
    return found


def too_wide(page: Page) -> list[str]:
    """Return what one would have to scroll sideways."""
    found: list[str] = page.evaluate(_TOO_WIDE)
    return found


def focused(page: Page) -> dict[str, Any]:
    """Return the element that has the focus (``text``), and whether a line or a shadow around it shows that (``is_visible``)."""
    found: dict[str, Any] = page.evaluate(_FOCUSED)
    return found


_FOCUSED = """() => {
    const element = document.activeElement;
    if (element === document.body) return {text: "", is_visible: true};
    const around = [element, element.parentElement, element.parentElement.parentElement].filter(Boolean);
    const shows = style => (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || style.boxShadow !== "none";
    return {text: `${element.tagName} ${element.textContent.slice(0, 60)} ${element.getAttribute("aria-label") ?? ""}`,
        is_visible: around.some(one => shows(getComputedStyle(one)))};
}"""
