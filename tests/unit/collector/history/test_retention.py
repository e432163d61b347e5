"""What leaves history and what stays: open transactions and counts stay, rows leave oldest first, and nothing is counted twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from indoubt.collector.history import retention, rollups
from indoubt.collector.history.retention import Maintenance
from indoubt.collector.history.rollups import Aborted
from indoubt.collector.history.sql import ADD_GROUP_LAGS, ADD_PARTITION_ENDS, ADD_READER_WAITS
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    BranchProof,
    BrokerRecord,
    CheckpointFile,
    CheckpointFileKind,
    DecisionSeen,
    EventSeen,
    Observation,
    Observed,
    OffsetsSeen,
    Position,
)
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from indoubt.lifecycle.events import EventType, encode
from tests.unit.collector.observations import (
    PREFIX,
    branch_gone,
    branch_listed,
    checkpoint_taken_over,
    database_handle,
    decided,
    event,
    run_started,
)

pytestmark = pytest.mark.slow

NOW = 1_795_000_000_000 // HOUR_MS * HOUR_MS + 30 * MINUTE_MS
OLD = NOW - 40 * DAY_MS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "history.duckdb")
    yield store
    store.close()


class History:
    """Appends observations, each at the next offset of one source."""

    def __init__(self, store: Store) -> None:
        self._store, self._offset = store, 0

    def append(self, *observations: Observation, raw: str = "") -> None:
        observed = []
        for observation in observations:
            position = Position(source="topic", partition=0, offset=self._offset)
            observed.append(Observed(position=position, observation=observation, raw=raw))
            self._offset += 1
        self._store.append(observed)

    def transaction(self, transaction: str, start_ms: int, *ends: BrokerStatus) -> None:
        self.append(
            *(
                BrokerRecord(
                    transaction=transaction,
                    producer_id=1,
                    producer_epoch=0,
                    status=status,
                    start_ms=start_ms,
                    update_ms=start_ms + n,
                    timeout_ms=60_000,
                    partitions=("t-0",),
                    client_transaction_version=2,
                    source="topic",
                )
                for n, status in enumerate((BrokerStatus.ONGOING, *ends))
            )
        )


def maintain(
    store: Store,
    rounds: int = 30,
    days: int = 30,
    megabytes: int = 1_000,
    causes: str = "timeout",
    now_ms: int = NOW,
) -> None:
    """Do many steps of maintenance at once, in the writer's thread."""

    def explain(aborted: Sequence[Aborted]) -> list[str]:
        return [causes] * len(aborted)

    maintenance = Maintenance(explain, lambda: now_ms, days=days, megabytes=megabytes)

    def step(cursor: object) -> None:
        for _ in range(rounds):
            maintenance.do_step(cursor, is_round_due=True)  # type: ignore[arg-type]

    store._in_writer(step)


COMMITTED = (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
ABORTED = (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)


def test_old_rows_leave_and_their_counts_and_open_transactions_stay(store: Store) -> None:
    history = History(store)
    for n in range(50):
        history.transaction(f"old-{n % 3}", OLD + n, *COMMITTED)
    history.transaction("old-open", OLD)
    history.transaction("new-1", NOW - DAY_MS, *ABORTED)
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10)
    store.flushed()
    maintain(store)
    left = store.rows("select transaction_id, count(*) from transaction_records group by all order by all")
    assert left == [("new-1", 3), ("old-open", 1)]
    assert store.rows(
        "select application, outcome, sum(transactions)::int from transaction_counts group by all order by all"
    ) == [
        ("new", "aborted", 1),
        ("old", "committed", 50),
    ]
    current.load()
    assert [one.view.transaction for one in current.transactions.judged() if one.view.is_running] == ["old-open"]
    assert current.counts() == (154, 0), "what has left was folded too"


@pytest.mark.long
@pytest.mark.parametrize("wrong_ms", [365 * DAY_MS, -365 * DAY_MS])
def test_nothing_leaves_because_this_machines_clock_is_wrong(store: Store, wrong_ms: int) -> None:
    history = History(store)
    for days in range(30):
        history.transaction(f"t-{days}", NOW - days * DAY_MS, *COMMITTED)
    store.flushed()
    maintain(store, now_ms=NOW + wrong_ms)
    maintain(store)
    assert store.rows("select count(*) from transaction_records") == [(90,)]
    assert store.rows("select max(span_ms), count(*) from transaction_counts") == [(MINUTE_MS, 30)], "nor an hour each"


def test_where_all_stands_still_the_last_days_stay(store: Store) -> None:
    history = History(store)
    history.transaction("older-1", OLD - DAY_MS, *COMMITTED)
    history.transaction("old-1", OLD, *COMMITTED)
    store.flushed()
    maintain(store, days=1)
    assert store.rows("select distinct transaction_id from transaction_records order by 1") == [
        ("old-1",),
        ("older-1",),
    ]
    history.transaction("new-1", NOW, *COMMITTED)
    store.flushed()
    maintain(store, days=1)
    assert store.rows("select distinct transaction_id from transaction_records") == [("new-1",)]


def test_rows_leave_a_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 20)
    history = History(store)
    for n in range(20):
        history.transaction("old-1", OLD + n, *COMMITTED)
    history.transaction("new-1", NOW, *COMMITTED)
    store.flushed()
    maintain(store, rounds=2)  # one finds out that something is to leave, one lets it
    assert store.rows("select count(*), min(start_ms) from transaction_records") == [(43, OLD + 6)]


def test_a_file_that_is_too_large_loses_its_oldest_rows(store: Store) -> None:
    history = History(store)
    told = event(EventType.CHECKPOINT_STARTED, 0, batch=1)
    for n in range(30):
        text = json.dumps([n * 7919 % 104729 + k * 31337 % 99991 for k in range(60_000)])
        history.append(EventSeen(event=told.event), raw=text)
        history.transaction("app-1", NOW - (30 - n) * MINUTE_MS, *COMMITTED)
    store.flushed()
    store._in_writer(lambda cursor: cursor.execute("checkpoint"))
    before = store.rows("select count(*) from lifecycle_events")[0][0]
    maintain(store, megabytes=1)
    assert 0 <= store.rows("select count(*) from lifecycle_events")[0][0] < before
    counted = "select begin_ms, outcome, sum(transactions)::bigint from transaction_counts group by all"
    assert sorted(store.rows(counted)) == [
        ((NOW - (30 - n) * MINUTE_MS) // MINUTE_MS * MINUTE_MS, "committed", 1) for n in range(30)
    ]


def test_counts_are_merged_once_and_become_hours_when_they_are_old(store: Store) -> None:
    history = History(store)
    for n in range(10):  # ten commits, in two minutes of one hour, and again in two young stretches of ten seconds
        history.transaction("app-1", OLD // HOUR_MS * HOUR_MS + n % 2 * MINUTE_MS, *COMMITTED)
        history.transaction("app-2", NOW - (n % 2 + 3) * MINUTE_MS, *COMMITTED)
        store.flushed()
    rows = "select begin_ms, span_ms, transactions from transaction_counts order by all"
    maintain(store, days=400)
    expected = [
        (OLD // HOUR_MS * HOUR_MS, HOUR_MS, 10),
        (NOW - 4 * MINUTE_MS, 10_000, 5),
        (NOW - 3 * MINUTE_MS, 10_000, 5),
    ]
    assert store.rows(rows) == expected
    history.transaction("app-1", OLD // HOUR_MS * HOUR_MS + 7 * MINUTE_MS, *COMMITTED)
    store.flushed()
    maintain(store, days=400)
    assert store.rows(rows) == [(expected[0][0], HOUR_MS, 11), *expected[1:]], "what comes late is added to its hour"


def test_waits_become_minutes_and_hours_with_their_worst(store: Store) -> None:
    History(store).transaction("app-1", NOW, *COMMITTED)
    hour, minute = OLD // HOUR_MS * HOUR_MS, NOW - HOUR_MS
    rows = [
        (hour, 3, 100, 9, 4),
        (hour + 2 * MINUTE_MS, 1, 900, 2, 5),
        (minute, 1, 5, 7, 6),
        (minute + 10_000, 2, 3, 1, 7),
    ]
    young = [(NOW - 5 * MINUTE_MS, 1, 1, 1, 1), (NOW - 5 * MINUTE_MS + 10_000, 2, 2, 2, 2)]
    for begin_ms, *most in (*rows, *young):
        columns = [[begin_ms], 10_000, ["app"], *([value] for value in most)]
        store.transact([(ADD_READER_WAITS, columns)])
    store.flushed()
    expected = [
        (hour, HOUR_MS, 3, 900, 9, 5),
        (minute, MINUTE_MS, 2, 5, 7, 7),
        *((begin_ms, 10_000, *most) for begin_ms, *most in young),
    ]
    for _ in range(2):
        maintain(store, days=400)
        found = store.rows(
            "select begin_ms, span_ms, waiting, longest_wait_ms, hidden, lag from reader_waits order by all"
        )
        assert found == expected


def test_samples_of_groups_and_partitions_become_minutes_and_leave_after_a_day(store: Store) -> None:
    History(store).transaction("app-1", NOW, *COMMITTED)
    old, minute, young = NOW - 26 * HOUR_MS, (NOW - HOUR_MS) // MINUTE_MS * MINUTE_MS, NOW - 5 * MINUTE_MS
    for begin_ms, most in ((old, 9), (minute, 3), (minute + 10_000, 5), (young, 4)):
        store.transact([
            (ADD_GROUP_LAGS, [[begin_ms], 10_000, ["readers"], [most], [2 * most]]),
            (ADD_PARTITION_ENDS, [[begin_ms], 10_000, ["orders"], [3], [100 + most], [most]]),
        ])  # fmt: skip
    maintain(store, days=400)
    lags = store.rows("select begin_ms, span_ms, lag, hidden from group_lags order by all")
    assert lags == [(minute, MINUTE_MS, 5, 10), (young, 10_000, 4, 8)]
    ends = store.rows(
        "select begin_ms, span_ms, topic, partition, high_watermark, hidden from partition_ends order by all"
    )
    assert ends == [(minute, MINUTE_MS, "orders", 3, 105, 5), (young, 10_000, "orders", 3, 104, 4)]


@pytest.mark.long
def test_the_cause_of_each_abort_is_counted_once(store: Store) -> None:
    history = History(store)
    for n in range(3):
        history.transaction(f"app-{n}", NOW - HOUR_MS, *ABORTED)
    store.flushed()
    maintain(store)
    maintain(store, causes="fenced")
    counted = "select application, cause, sum(transactions)::int from abort_counts group by all"
    assert store.rows(counted) == [("app", "timeout", 3)]
    assert store.rows("select count(*) from aborts_to_explain") == [(0,)]


def test_an_abort_of_just_now_waits_for_its_evidence(store: Store) -> None:
    History(store).transaction("app-1", NOW - rollups.EXPLAINED_AFTER_MS + 5_000, *ABORTED)
    store.flushed()
    maintain(store)
    assert store.rows("select count(*) from aborts_to_explain") == [(1,)]


def test_checkpoint_durations_are_counted_wherever_they_are_seen(store: Store) -> None:
    history = History(store)
    done = event(EventType.CHECKPOINT_COMPLETED, 0, batch=1, rows=3, duration_ms=700)
    history.append(done, raw=encode(done.event).decode())
    for kind, at_ms in ((CheckpointFileKind.OFFSETS, NOW), (CheckpointFileKind.COMMITS, NOW + 250)):
        history.append(CheckpointFile(pipeline="p", number=4, kind=kind, at_ms=at_ms, modified_ns=1))
        store.flushed()
    found = store.rows("select pipeline, longest_ms from longest_checkpoints order by all")
    assert found == [("ip-count", 700), ("p", 250)]


def test_old_rows_of_flink_and_of_offsets_leave_except_what_a_source_still_tells(store: Store) -> None:
    history = History(store)
    checkpoint = FlinkCheckpoint(
        cluster="eu", job="a", job_name="orders", number=0, status=FlinkStatus.COMPLETED, kind=FlinkKind.CHECKPOINT,
        triggered_ms=OLD, ended_ms=OLD + 5,
    )  # fmt: skip
    number = retention.FLINK_CHECKPOINTS_KEPT + 3
    history.append(*(replace(checkpoint, number=n) for n in range(number)))
    job = FlinkJob(cluster="eu", job="a", name="orders", state="RUNNING", started_ms=OLD, changed_ms=OLD, seen_ms=OLD)
    ended = replace(job, job="b", state="FINISHED", ended_ms=OLD)
    history.append(job, replace(job, restarts=1), ended)
    offsets = OffsetsSeen(
        transaction="old-1", producer_id=1, start_ms=OLD, partition="t-0", first=0, first_is_exact=True, next_offset=9,
        how="", at_ms=OLD,
    )  # fmt: skip
    history.append(
        offsets, replace(offsets, transaction="old-open"), replace(offsets, transaction="new-1", start_ms=NOW)
    )
    history.transaction("new-1", NOW, *COMMITTED)
    history.transaction("old-open", OLD)
    store.flushed()
    maintain(store)
    kept = [(n,) for n in range(3, number)]
    assert store.rows("select number from flink_checkpoints order by 1") == kept
    assert store.rows("select job, restarts from flink_jobs") == [("a", 1)]
    assert store.rows("select transaction_id from transaction_offsets order by 1") == [("new-1",), ("old-open",)]


def test_what_no_column_takes_is_quarantined_and_stops_nothing(store: Store) -> None:
    history = History(store)
    good = event(EventType.CHECKPOINT_COMPLETED, 0, batch=1, duration_ms=5)
    surrogate = event(EventType.CHECKPOINT_COMPLETED, 0, batch=1)
    surrogate.event.data["pipeline"] = "\ud800"
    huge = CheckpointFile(pipeline="p", number=2**70, kind=CheckpointFileKind.COMMITS, at_ms=NOW, modified_ns=1)
    not_json = event(EventType.CHECKPOINT_COMPLETED, 0, batch=2, duration_ms=5)
    history.append(good, surrogate, huge, raw=encode(good.event).decode())
    history.append(not_json, raw="not JSON")
    store.flushed()
    assert store.rows("select count(*) from lifecycle_events") == [(2,)]
    aside = store.rows('select source, partition, "offset", error from quarantined order by "offset"')
    assert [(row[:3], row[3].partition(" ")[0]) for row in aside] == [
        (("topic", 0, 1), "lifecycle_events"),
        (("topic", 0, 2), "checkpoint_files"),
    ]
    assert store.next_offsets("topic") == {0: 4}
    assert store.error == ""


def test_a_listed_branch_keeps_when_it_was_first_seen(store: Store) -> None:
    history = History(store)
    listed, ended = database_handle(), database_handle(slot=1)
    old = -40 * DAY_MS
    seen = [branch_listed(listed, at=old), branch_listed(ended, at=old)]
    history.append(*seen, branch_gone(ended, BranchProof.COMMITTED, at=old + 1))
    store.flushed()
    maintain(store)
    assert store.rows("select transaction_id from prepared_branches") == [(listed.transaction,)]


def test_the_newest_decisions_of_each_pipeline_stay_however_old(store: Store) -> None:
    history = History(store)
    idle = [replace(decided(0, batch=n).record, prefix="idle", at_ms=OLD) for n in range(3)]
    busy = [replace(decided(0, batch=n).record, at_ms=OLD + n) for n in range(retention.DECISIONS_KEPT + 7)]
    history.append(*(DecisionSeen(offset=0, record=record, counts=True) for record in (*idle, *busy)), raw="{}")
    history.append(DecisionSeen(offset=0, record=replace(run_started().record, at_ms=OLD), counts=True), raw="{}")
    history.transaction("new", NOW - DAY_MS, *COMMITTED)
    over = replace(checkpoint_taken_over(0, attempt=0, prefix="idle").record, at_ms=OLD)
    history.append(DecisionSeen(offset=0, record=over, counts=True), raw="{}")
    maintain(store)
    counted = store.rows("select prefix, type, count(*) from decision_records group by all order by all")
    assert counted == [
        ("idle", "checkpoint_taken_over", 1),
        ("idle", "decision", 3),
        (PREFIX, "decision", retention.DECISIONS_KEPT),
        (PREFIX, "run_started", 1),
    ]
    ((first,),) = store.rows("select min(at_ms) from decision_records where type = 'decision' and prefix <> 'idle'")
    assert first == OLD + 7, "the oldest leave"
