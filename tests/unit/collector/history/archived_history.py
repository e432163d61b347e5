"""A store and its archiver, with transactions of a topic that are appended, archived, and leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb

from indoubt.collector.history.archiver import Archiver, Knowledge
from indoubt.collector.history.retention import Maintenance
from indoubt.collector.history.rollups import Aborted
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord, Observed, Position
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS

NOW = 20_800 * DAY_MS + 3 * HOUR_MS
"""Three hours into a day."""
TOPIC = "__transaction_state"
COMMITTED = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
ABORTED = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)


class History:
    """A store and its archiver, with transactions that are appended one offset after the other."""

    def __init__(self, directory: Path, archive: Path, *, hour_rows: int = 1_000, source: str = TOPIC) -> None:
        self.now_ms, self.source = NOW, source
        self.lost: list[Aborted] = []
        self.store = Store(directory / "history.duckdb")
        if source == TOPIC:
            self.store.begin_source(TOPIC, "id-of-topic")
        self.offset = self.store.next_offsets(source).get(0, 0)
        knowledge = Knowledge(names=self._names, lost=lambda: self.lost)
        self.archiver = Archiver(
            self.store, str(archive), knowledge, lambda: "kafka/1", lambda: self.now_ms, hour_rows=hour_rows
        )

    def _names(self, ids: Sequence[str], of_branches: bool) -> list[str]:
        return [f"application of {id_}" for id_ in ids]

    def transaction(
        self, name: str, start_ms: int, states: Sequence[BrokerStatus] = COMMITTED, step_ms: int = 1_000
    ) -> None:
        observed = []
        for number, status in enumerate(states):
            record = BrokerRecord(
                transaction=name,
                producer_id=7,
                producer_epoch=0,
                status=status,
                start_ms=start_ms,
                update_ms=start_ms + number * step_ms,
                timeout_ms=60_000,
                partitions=("t-0",),
                client_transaction_version=2,
                source=self.source,
            )
            position = Position(source=self.source, partition=0, offset=self.offset)
            observed.append(Observed(position=position, observation=record, raw=""))
            self.offset += 1
        self.store.append(observed)
        self.store.flushed()

    def archive(self) -> None:
        self.archiver.round()

    def retire(self, days: int = 1, rounds: int = 20) -> None:
        """Let leave what is older."""
        maintenance = Maintenance(
            lambda aborted: ["fenced"] * len(aborted),
            lambda: self.now_ms,
            self.store.past,
            days=days,
            megabytes=1_000,
        )

        def steps(cursor: duckdb.DuckDBPyConnection) -> None:
            for _ in range(rounds):
                maintenance.do_step(cursor, is_round_due=True)

        self.store._in_writer(steps)

    def in_file(self) -> int:
        return int(self.store.rows("select count(*) from transaction_records")[0][0])

    def read(self) -> Counter[str]:
        """Return how many rows of each transaction a query of the past has."""
        query = "select transaction_id, count(*) from past.transaction_records group by all"
        return Counter(dict(self.store.rows(query)))
