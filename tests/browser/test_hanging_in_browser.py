"""In Chromium a hanging transaction is aborted: rows that no coordinator knows of hold readers back until an order ends them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.browser.shown_page import SHOWN_LIMIT_MS, open_whole
from tests.browser.stuck_cluster import QUICK
from tests.integration.app_process import running_app
from tests.integration.collector_process import OPERATOR, CollectorProcess, running
from tests.integration.kafka_fixtures import LIMIT_S, make_sink, wait_until
from tests.integration.past_the_coordinator import SETTINGS, Writer
from tests.integration.pipeline_process import read_committed

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]
ID, LEFT_BEHIND, BEHIND_IT = "billing-export-7", b"past the coordinator", b"a row behind it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    """``app``: the address of the pages; ``topic``: where the rows hang, on partition 0."""

    app: str
    collector: CollectorProcess
    connection: KafkaConnection
    topic: str

    def visible(self) -> list[bytes]:
        """Return what a read_committed reader gets."""
        return sorted(read_committed(self.connection, self.topic))


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hanging]:
    """Return pages of a broker where the rows of a transaction came after its end, and a row of another producer behind them."""
    directory = Path(tmp_path_factory.mktemp("hanging"))
    with Broker(directory / "broker", settings=SETTINGS) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        topic = make_sink(connection).topic
        producer = Producer(connection.for_librdkafka(**{"transactional.id": ID, "linger.ms": 0}))
        producer.init_transactions(LIMIT_S)
        Writer.now(connection, ID).produce(topic, 0, LEFT_BEHIND)
        plain = Producer(connection.for_librdkafka())
        plain.produce(topic, BEHIND_IT, partition=0)
        assert plain.flush(LIMIT_S) == 0
        (directory / "collector").mkdir()
        with (
            running(connection.bootstrap_servers, directory / "collector", environment=QUICK) as collector,
            running_app(directory, INDOUBT_TOKEN=OPERATOR, INDOUBT_COLLECTOR_URL=collector.url) as port,
        ):
            yield Hanging(app=f"http://127.0.0.1:{port}", collector=collector, connection=connection, topic=topic)


def test_the_abort_of_a_hanging_transaction_lets_readers_go_on(page: Page, hanging: Hanging) -> None:
    assert hanging.visible() == []
    open_whole(page, f"{hanging.app}/readers")
    card = page.locator("article.card").filter(has_text=ID)
    expect(card).to_contain_text("hanging", timeout=SHOWN_LIMIT_MS)
    expect(card).to_contain_text(f"{hanging.topic}-0")
    card.locator("[data-order=abort]").click()
    dialog = page.get_by_role("dialog")
    page.locator(".st-key-order-reason input").fill("its rows came after its end")
    page.locator(".st-key-order-confirm input").fill(dialog.locator("code").last.inner_text())
    page.locator(".st-key-order-go button").click()
    expect(page.locator(".st-key-order-result")).to_contain_text("aborted", timeout=SHOWN_LIMIT_MS)
    wait_until("the reader to get the row behind it", lambda: hanging.visible() == [BEHIND_IT], LIMIT_S)
    page.locator(".st-key-order-close button").click()
    expect(page.locator("article.card").filter(has_text=ID)).to_have_count(0, timeout=SHOWN_LIMIT_MS)
    audited = [(row["action"], row["outcome"]) for row in hanging.collector.rows("audit")]
    assert audited == [("abort", "accepted")]
