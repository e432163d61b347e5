"""In Chromium a lost batch is restored: its card's Restart has the real supervisor start the next run, which replays it.

No Spark: the driver does the rest of a run (tests/integration/supervisor_process.py), on a real broker.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole, wait_whole
from tests.integration.app_process import running_app
from tests.integration.collector_process import OPERATOR, CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import make_topics
from tests.integration.protocol_run import ProtocolSinks, protocol_sinks
from tests.integration.supervisor_process import SLOTS, SupervisorProcess

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
TIMEOUT_MS = 6_000
"""Of the driver's transactions: the broker aborts them in front of the page."""
NO_RESTART_MS = 600_000
"""The supervisor does not start the next run by itself while a test looks."""
QUICK = {"INDOUBT_DRIVER_SILENT_MS": "1000", "INDOUBT_ALERT_KEEP_FIRING_MS": "500"}
LIMIT_S = 60.0
ROWS = {b"%d" % slot: 1 for slot in range(SLOTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A pipeline to be, with the collector and the pages (``app``: their address) that watch it."""

    app: str
    collector: CollectorProcess
    sinks: ProtocolSinks
    lifecycle_topic: str

    def cards(self, page: Page) -> Locator:
        """Return the incident of this pipeline, on the overview, while it lasts."""
        return page.locator(".st-key-overview article:not(.over)").filter(has_text=self.sinks.prefix)


@pytest.fixture
def watched(broker: Broker, connection: KafkaConnection, tmp_path: Path) -> Iterator[Watched]:
    """Return a place for one pipeline, which nothing has written to."""
    lifecycle_topic = f"lifecycle-{uuid.uuid4().hex[:8]}"
    make_topics(connection, lifecycle_topic)
    sinks = protocol_sinks(connection, tmp_path, [], ["kafka"])
    settings = {**QUICK, "INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic}
    with (
        running(broker.bootstrap_servers, tmp_path / "collector", environment=settings) as collector,
        running_app(tmp_path, INDOUBT_TOKEN=OPERATOR, INDOUBT_COLLECTOR_URL=collector.url) as port,
    ):
        yield Watched(app=f"http://127.0.0.1:{port}", collector=collector, sinks=sinks, lifecycle_topic=lifecycle_topic)


@pytest.mark.long
@pytest.mark.parametrize("deed", ["freeze", "kill"])
def test_a_lost_batch_has_a_restart_that_brings_its_rows(
    page: Page, watched: Watched, tmp_path: Path, deed: str
) -> None:
    sinks, cards = watched.sinks, watched.cards(page)
    changes = {"lifecycle_topic": watched.lifecycle_topic, "transaction_timeout_ms": TIMEOUT_MS}
    with SupervisorProcess(sinks, tmp_path, "after-decision", deed, restart_delay_ms=NO_RESTART_MS, **changes) as run:
        open_whole(page, watched.app)
        run.wait_until_struck()
        lost = cards.filter(has=page.locator(".badge", has_text="lost"))
        expect(lost).to_contain_text(f"Readers do not see {SLOTS} rows until the pipeline starts again")
        expect(lost.locator("[data-order]")).to_have_text(["Restart …"])
        assert sinks.pending() == 0
        assert not sinks.seen()

        lost.locator("[data-order=restart]").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"Restart {sinks.prefix}?")
        go = page.locator(".st-key-pipeline-order-go button")
        go.click()
        expect(dialog.get_by_role("alert")).to_contain_text("Give a reason")
        page.locator(".st-key-pipeline-order-reason input").fill("its batch is lost")
        go.click()
        expect(page.locator(".st-key-pipeline-order-result")).to_contain_text("✔ restarted in", timeout=SHOWN_LIMIT_MS)
        page.locator(".st-key-pipeline-order-close button").click()
        expect(dialog).to_have_count(0)

        expect(cards).to_have_count(0, timeout=SHOWN_LIMIT_MS)
        wait_until("a reader to get the rows", lambda: sinks.seen() == ROWS, LIMIT_S)
        assert "restart ordered by anna: its batch is lost" in run.log
        assert orders(watched) == [("restart", "accepted", "its batch is lost")]
        page.reload()
        wait_whole(page)
        expect(cards).to_have_count(0)
        over = page.locator(".st-key-overview article.over").filter(has_text=sinks.prefix)
        expect(over).to_contain_text("Nothing was lost.")
        expect(over).to_contain_text("was lost, then written again")
        expect(over).to_contain_text("by anna")


def orders(watched: Watched) -> list[tuple[str, str, str]]:
    """Return what the audit has about the pipeline: action, outcome, reason."""
    rows = watched.collector.rows("audit")
    about = [row for row in rows if row["keys"] == [f"pipeline:{watched.sinks.prefix}"]]
    return [(row["action"], row["outcome"], row["reason"]) for row in about]
