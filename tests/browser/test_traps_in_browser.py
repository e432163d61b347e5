"""In Chromium, on a real broker: an order that was overtaken, a wrong confirmation, a button that is pressed twice."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from indoubt.lifecycle import page_paths
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole
from tests.browser.stuck_cluster import LIMIT_S, TIMEOUT_MS, StuckCluster
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
ROW = b"a row of the owner"


class Owner:
    """Another application with a transaction open, on a topic of its own: nothing else holds its readers back."""

    def __init__(self, stuck: StuckCluster) -> None:
        self._stuck, self.id = stuck, f"owner-{uuid.uuid4().hex[:6]}-0"
        self.topic = ReportedPipeline(stuck.connection, stuck.lifecycle_topic, TIMEOUT_MS).sink.topic
        settings = {"transactional.id": self.id, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0}
        self._producer = Producer(stuck.connection.for_librdkafka(**settings))
        self._producer.init_transactions(LIMIT_S)
        self._producer.begin_transaction()
        self._producer.produce(self.topic, ROW, partition=0)
        assert self._producer.flush(LIMIT_S) == 0
        self.key: str = stuck.collector.wait_for(self.id, verdict="foreign")["key"]

    def commit(self) -> None:
        """Commit it, and return once the collector knows that."""
        self._producer.commit_transaction(LIMIT_S)
        self._stuck.collector.wait_for(self.id, state="committed")

    def visible(self) -> list[bytes]:
        """Return what a read_committed reader gets of it."""
        return sorted(read_committed(self._stuck.connection, self.topic))

    def outcomes(self) -> list[str]:
        """Return how each order about it ended, by the audit, the newest first."""
        return [row["outcome"] for row in self._stuck.collector.rows("audit") if self.key in row["keys"]]


@pytest.fixture
def owner(stuck: StuckCluster) -> Owner:
    return Owner(stuck)


def open_abort(page: Page, stuck: StuckCluster, owner: Owner, confirmation: str) -> None:
    """Open the dialog on its page, and fill it in."""
    open_whole(page, stuck.app + page_paths.transaction(owner.key))
    page.locator("[data-order=abort]").first.click()
    page.locator(".st-key-order-reason input").fill("its application is dead")
    page.locator(".st-key-order-confirm input").fill(confirmation)


def test_an_order_that_its_owner_overtook_is_refused(page: Page, stuck: StuckCluster, owner: Owner) -> None:
    open_abort(page, stuck, owner, owner.id)
    owner.commit()
    page.locator(".st-key-order-go button").click()
    refused = page.locator(".st-key-order-refused")
    expect(refused).to_contain_text("Refused: nothing was done.", timeout=SHOWN_LIMIT_MS)
    expect(refused).to_contain_text(f"Transaction {owner.id} changed since it was looked at: it is committed now")
    expect(page.locator(".st-key-order-current-state")).to_have_count(0)
    assert owner.outcomes() == ["refused"]
    assert owner.visible() == [ROW]


def test_a_wrong_confirmation_gives_no_order_and_two_presses_give_one(
    page: Page, stuck: StuckCluster, owner: Owner
) -> None:
    open_abort(page, stuck, owner, owner.id[:-1])
    go = page.locator(".st-key-order-go button")
    go.click()
    expect(page.get_by_role("alert")).to_contain_text(f"The confirmation is not {owner.id}", timeout=SHOWN_LIMIT_MS)
    assert owner.outcomes() == []
    stuck.collector.wait_for(owner.id, verdict="foreign")
    page.locator(".st-key-order-confirm input").fill(owner.id)
    go.dblclick()
    expect(page.locator(".st-key-order-result")).to_contain_text("aborted", timeout=SHOWN_LIMIT_MS)
    stuck.collector.wait_for(owner.id, state="aborted")
    page.locator(".st-key-order-close button").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert owner.outcomes() == ["accepted"]
    assert owner.visible() == []
