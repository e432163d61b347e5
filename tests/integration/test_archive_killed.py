"""A collector killed while it archives: each row is in the archive once, none is lost, and lists of the past have all of them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from demo.object_store import BUCKET, ObjectStore
from demo.ports import free_port
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord, Observed, Position
from indoubt.lifecycle.durations import DAY_MS
from tests.integration.collector_process import LIMIT_S, CollectorProcess
from tests.integration.kafka_fixtures import wait_until
from tests.integration.struck_collector import REACHED

pytestmark = [pytest.mark.integration, pytest.mark.long]

TRANSACTIONS, DAYS = 40, 4
LEFT_LIMIT_S = 60.0
STATES = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
LEFT = "rows of transaction_records older than the limits have left history"
STEPS = (
    "before the archived file",
    "after the archived file",
    "before the list within the archived rows",
    "after the list within the archived rows",
)


def write_history(directory: Path) -> set[tuple[str, int, int]]:
    """Write transactions of the last days; return the positions of their records."""
    store = Store(directory / "history.duckdb")
    store.begin_source("__transaction_state", "id-of-topic")
    now_ms, observed = time.time_ns() // 1_000_000, []
    for number in range(TRANSACTIONS * len(STATES)):
        of, state = divmod(number, len(STATES))
        start_ms = now_ms - DAYS * DAY_MS + of * DAYS * DAY_MS // TRANSACTIONS
        record = BrokerRecord(
            transaction=f"orders-{of}-0",
            producer_id=of,
            producer_epoch=0,
            status=STATES[state],
            start_ms=start_ms,
            update_ms=start_ms + state,
            timeout_ms=60_000,
            partitions=("t-0",),
            client_transaction_version=2,
            source="__transaction_state",
        )
        position = Position(source="__transaction_state", partition=of % 3, offset=number)
        observed.append(Observed(position=position, observation=record, raw=""))
    store.append(observed)
    store.close()
    return {(one.position.source, one.position.partition, one.position.offset) for one in observed}


class ArchivingCollector(CollectorProcess):
    """A collector without any broker: what it has of the past is all it knows. It stops where ``mark`` says."""

    def __init__(self, directory: Path, archive: str, environment: Mapping[str, str]) -> None:
        settings = {"INDOUBT_HISTORY_ARCHIVE": archive, "INDOUBT_HISTORY_DAYS": "1", **environment}
        super().__init__(f"127.0.0.1:{free_port()}", directory, ["--cluster", "east"], settings)
        self.mark = directory / "mark"
        self.program = (sys.executable, "-m", "tests.integration.struck_collector", str(self.mark))

    def found(self) -> Counter[str]:
        """Return how often a search finds each transaction."""
        return Counter(row["transaction"] for row in self.rows("search?transaction=orders&limit=500"))

    def in_file(self) -> list[tuple[str, int, int]]:
        with duckdb.connect(str(self.directory / "history.duckdb"), read_only=True) as history:
            return history.execute('select source, partition, "offset" from transaction_records').fetchall()


def archived(files: str) -> Counter[tuple[str, int, int]]:
    """Return how often each record is in the files of a folder, whether a list has them or not."""
    with duckdb.connect() as reader:
        return Counter(reader.read_parquet(files).select("source", "partition", "offset").fetchall())


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_each_row_is_there_once(step: str, tmp_path: Path) -> None:
    every = write_history(tmp_path)
    collector = ArchivingCollector(tmp_path, str(tmp_path / "archive"), {})
    collector.mark.write_text(step)
    try:
        collector.start()
        wait_until(f"the collector stops {step}", lambda: collector.mark.read_text() == REACHED, LIMIT_S)
        collector.kill()
        collector.mark.unlink()
        collector.start()
        wait_until("old rows leave", lambda: LEFT in collector.log.read_text(), LEFT_LIMIT_S)
        assert collector.stop() == 0
        here, there = collector.in_file(), archived(f"{tmp_path}/archive/v1/transaction_records/**/*.parquet")
        assert len(here) < len(every), "rows have left the file"
        assert {*here, *there} == every, "none is lost"
        assert set(there.values()) == {1}, "none is in the archive twice"
        collector.start()
        assert collector.found() == {f"orders-{of}-0": 1 for of in range(TRANSACTIONS)}
    finally:
        collector.kill()


def test_an_object_store_takes_it_too_and_while_it_is_away_nothing_leaves(tmp_path: Path) -> None:
    every = write_history(tmp_path / "collector")
    with ObjectStore(tmp_path / "store") as store:
        collector = ArchivingCollector(tmp_path / "collector", f"s3://{BUCKET}/history", store.environment)
        try:
            store.disturb("503")
            collector.start()
            wait_until("it says why", lambda: collector.get("status")["history"]["archive_error"], LIMIT_S)
            store.heal()
            wait_until("old rows leave", lambda: LEFT in collector.log.read_text(), LEFT_LIMIT_S)
            assert collector.get("status")["history"]["archive_error"] == ""
            assert collector.stop() == 0
            here = collector.in_file()
            assert len(here) < len(every)
            collector.start()
            wait_until("the archive is read", lambda: len(collector.found()) == TRANSACTIONS, LIMIT_S)
            assert set(collector.found().values()) == {1}
        finally:
            collector.kill()
