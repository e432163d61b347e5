"""A standing order's request that never reached its coordinator is given again once that is back, on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, running
from tests.integration.cutting_proxy import END_TXN, broker_behind_proxy
from tests.integration.flink_transactions import prepare
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.test_standing_orders_of_flink import CLUSTER, ORDER, job_manager, row

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
TIMEOUT_MS = 600_000
"""Longer than any broker takes to come back: nothing here may end by its timeout."""
SETTLED_S = 120.0


@pytest.mark.long
def test_a_commit_that_its_coordinator_never_got_is_given_again(tmp_path: Path) -> None:
    with broker_behind_proxy(tmp_path / "broker") as (broker, proxy, address):
        connection = KafkaConnection(address)
        prepared = prepare(connection, TIMEOUT_MS)
        file = tmp_path / "standing_orders.toml"
        file.write_text(ORDER)
        file.chmod(0o600)
        with job_manager(tmp_path, prepared) as manager:
            places = ["--flink", f"{CLUSTER}={manager.url}", "--flink-checkpoints", f"{CLUSTER}={tmp_path / 'flink'}"]
            settings = {"INDOUBT_FLINK_POLLING_MS": "100", "INDOUBT_ORDER_LIMIT_MS": "1000"}
            options = [*places, "--standing-orders", str(file)]
            with running(address, tmp_path / "collector", options, settings) as collector:
                for id_ in prepared.ids:
                    collector.wait_for(id_, verdict="commit it", may_commit=True, commit_confirmation="")
                cut = proxy.at_next(END_TXN, broker.kill, answer_lost=False)
                manager.die()
                wait_until("the request is lost", cut.done.is_set, LIMIT_S)
                wait_until("its end is not known", lambda: "pending" in outcomes(collector.rows("audit")), LIMIT_S)
                wait_until("it is held back", lambda: row(collector)["held"] > 0, LIMIT_S)
                broker.start()
                expected = {b"of " + id_.encode(): 1 for id_ in prepared.ids}
                wait_until(
                    "the rows are seen",
                    lambda: dict(read_committed(connection, prepared.sink.topic)) == expected,
                    SETTLED_S,
                )
                wait_until("nothing is held back", lambda: row(collector)["held"] == 0, LIMIT_S)
                audit = collector.rows("audit")
                (lost,) = (one for one in audit if one["outcome"] == "pending")
                again = [one for one in audit if one["keys"] == lost["keys"] and one["reason"] == lost["reason"]]
                assert "accepted" in outcomes(again)


def outcomes(audit: list[dict[str, Any]]) -> set[str]:
    return {one["outcome"] for one in audit}
