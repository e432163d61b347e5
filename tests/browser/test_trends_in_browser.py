"""In Chromium one looks at three months: what the job over archived history made of each application's days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from demo.ports import free_port
from indoubt.pipeline.jobs import history_rollup
from indoubt.resource_managers.history_archive import HistoryArchive
from tests.browser.shown_page import DESK, PHONE, SHOWN_LIMIT_MS, open_whole, too_wide, violations
from tests.integration.app_process import running_app
from tests.integration.collector_process import OPERATOR, CollectorProcess

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
DAYS = 90


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the pages of a collector whose archive has results, and that reaches no broker."""
    directory = Path(tmp_path_factory.mktemp("trends"))
    write_results(HistoryArchive.open(str(directory / "archive")))
    settings = {"INDOUBT_HISTORY_ARCHIVE": str(directory / "archive")}
    collector = CollectorProcess(
        f"127.0.0.1:{free_port()}", directory / "collector", ["--cluster", "east"], environment=settings
    )
    try:
        collector.start()
        with running_app(directory, INDOUBT_COLLECTOR_URL=collector.url, INDOUBT_TOKEN=OPERATOR) as port:
            yield f"http://127.0.0.1:{port}"
    finally:
        collector.kill()


def write_results(archive: HistoryArchive) -> None:
    archive.begin("east")
    today = datetime.now(UTC).date()
    rows = []
    for number, name in enumerate(("orders", "billing", "word-count")):
        for day in range(DAYS):
            if day in (40, 41) or (number == 2 and day < 60):
                continue  # nothing was archived
            busy = 5_000 * (number + 1) + 900 * (day % 7)
            rows.append(
                {
                    "cluster": "east",
                    "day": str(today - timedelta(days=DAYS - 1 - day)),
                    "application": name,
                    "committed": busy,
                    "aborted": busy // 60,
                    "lost": 3 if number == 0 and day == 70 else 0,
                    "aborted_timeout": busy // 100,
                    "aborted_client": busy // 150,
                    "open_p50_ms": 400,
                    "open_p99_ms": 2_500 + 10 * day,
                    "open_longest_ms": 20_000 + 380 * day,
                    "timeout_ms": 60_000,
                    "margin_least_ms": 40_000 - 380 * day,
                    "ids": 20 + number * day,
                    "new_ids": number,
                }
            )
    history_rollup.write(archive, pa.Table.from_pylist(rows))


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_each_application_s_days_are_drawn(page: Page, app: str, size: dict[str, int], tmp_path: Path) -> None:
    page.set_viewport_size(size)
    open_whole(page, f"{app}/history?show=trends")
    shown = page.locator("section.series")
    expect(shown).to_have_count(3, timeout=SHOWN_LIMIT_MS)
    expect(shown.locator("h3").first).to_have_text("orders")
    expect(shown.first).to_contain_text("3 lost")
    expect(shown.first).to_contain_text("left of the timeout")
    page.screenshot(path=tmp_path / "trends.png", full_page=True)
    assert violations(page) == []
    assert too_wide(page) == []


def test_one_application_is_asked_for_by_its_name(page: Page, app: str) -> None:
    open_whole(page, f"{app}/history?show=trends")
    page.get_by_placeholder("application, its whole name").fill("billing")
    page.keyboard.press("Enter")
    expect(page.locator("section.series h3")).to_have_text(["billing"], timeout=SHOWN_LIMIT_MS)
