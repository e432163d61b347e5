"""Applications over time: what was counted, who waited, what happened; and null, not zero, where nobody looked."""

from __future__ import annotations

import pytest

from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.observe.time_samples import TimeSamples
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import CheckpointFile, CheckpointFileKind
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.partition_state import PartitionFindings, PartitionTracker
from indoubt.collector.views import application_names, series, time_buckets
from indoubt.collector.views.series import cached_series
from indoubt.collector.views.time_buckets import Buckets, Window
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.series import ApplicationSeries, MarkKind, Series
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    broker_record,
    database_handle,
    decided,
    event,
    handle,
    run_started,
    transaction_event,
)
from tests.unit.collector.partition_sightings import PARTITION, partition_findings
from tests.unit.collector.views.counted_history import LOG, NOW, WHERE, Ask, History, always


def one(found: Series, name: str = PREFIX) -> ApplicationSeries:
    return next(application for application in found.applications if application.pipeline == name)


def by_minute(found: Series, values: tuple[int | None, ...]) -> dict[int, int | None]:
    """Return the values that are not zero, by their bucket's begin in minutes after T0's own minute."""
    first = (found.from_ms - T0 // MINUTE_MS * MINUTE_MS) // MINUTE_MS
    return {first + place * found.bucket_ms // MINUTE_MS: value for place, value in enumerate(values) if value != 0}


@pytest.mark.parametrize(
    ("window", "until_ms", "bucket_ms", "count"),
    [
        (Window.QUARTER_HOUR, None, 10_000, 90),
        (Window.QUARTER_HOUR, NOW - 4 * MINUTE_MS, 10_000, 90),
        (Window.QUARTER_HOUR, NOW - HOUR_MS, MINUTE_MS, 15),
        (Window.HOUR, None, MINUTE_MS, 60),
        (Window.SIX_HOURS, None, 3 * MINUTE_MS, 120),
        (Window.DAY, None, 12 * MINUTE_MS, 120),
        (Window.DAY, NOW + DAY_MS, 12 * MINUTE_MS, 120),
    ],
)
def test_a_window_has_at_most_120_buckets_and_ends_now(
    window: Window, until_ms: int | None, bucket_ms: int, count: int
) -> None:
    buckets = Buckets.of(window, until_ms, NOW)
    assert (buckets.bucket_ms, buckets.count) == (bucket_ms, count)
    assert buckets.from_ms % bucket_ms == 0
    end_ms = min(NOW, until_ms or NOW)
    assert 0 <= buckets.until_ms - end_ms < bucket_ms


@pytest.mark.parametrize("window", list(Window))
def test_commits_aborts_and_losses_stand_in_their_buckets(history: History, ask: Ask, window: Window) -> None:
    always(history)
    history.observe(run_started())
    for n in range(3):
        history.commit(MINUTE_MS + n, producer_id=n)
    history.commit(5 * MINUTE_MS, producer_id=7, abort=True)
    history.commit(5 * MINUTE_MS, producer_id=8, abort=True)
    found = one(ask(window))
    assert found.managed
    assert (sum(map(int, found.commits)), sum(map(int, found.aborts)), sum(map(int, found.lost))) == (3, 2, 0)
    buckets = Buckets.of(window, None, NOW)
    assert found.commits[(T0 + MINUTE_MS - buckets.from_ms) // buckets.bucket_ms] == 3
    assert found.aborts[(T0 + 5 * MINUTE_MS - buckets.from_ms) // buckets.bucket_ms] == 2


@pytest.mark.parametrize("window", list(Window))
def test_what_is_lost_is_an_abort_once_it_is_written_again(history: History, ask: Ask, window: Window) -> None:
    always(history)
    lost = handle(producer_id=8)
    history.observe(run_started(), decided(1, lost))
    history.commit(5 * MINUTE_MS, producer_id=8, abort=True)
    history.observe(transaction_event(EventType.TRANSACTION_LOST, 5 * MINUTE_MS, lost, reason="timeout"))
    found, (mark,) = one(ask(window)), ask(window).marks
    buckets = Buckets.of(window, None, NOW)
    assert found.lost[(T0 + 5 * MINUTE_MS - buckets.from_ms) // buckets.bucket_ms] == 1
    assert (sum(map(int, found.aborts)), sum(map(int, found.lost))) == (0, 1)
    assert mark.kind is MarkKind.LOST
    batch = CheckpointFile(
        pipeline=PREFIX, number=41, kind=CheckpointFileKind.COMMITS, at_ms=T0 + 6 * MINUTE_MS, modified_ns=1
    )
    history.observe(batch)
    found = one(ask(window))
    assert (sum(map(int, found.aborts)), sum(map(int, found.lost))) == (1, 0)
    assert ask(window).marks == ()


@pytest.mark.parametrize("window", [Window.QUARTER_HOUR, Window.HOUR])
def test_branches_of_databases_are_counted_by_what_pipelines_report(history: History, ask: Ask, window: Window) -> None:
    always(history)
    history.observe(
        run_started(),
        transaction_event(EventType.TRANSACTION_COMMITTED, 60_000, database_handle()),
        transaction_event(EventType.TRANSACTION_ABORTED, 60_000, database_handle(nonce="1a1b2c3d")),
        # The coordinator's own log tells of this one.
        transaction_event(EventType.TRANSACTION_COMMITTED, 60_000, handle()),
    )
    found = one(ask(window))
    assert (sum(map(int, found.commits)), sum(map(int, found.aborts))) == (1, 1)


def test_where_nobody_looked_there_is_null_and_no_zero(history: History, ask: Ask) -> None:
    minutes = [n * MINUTE_MS - T0 % MINUTE_MS for n in range(11)]
    history.observe(run_started())
    # The collector was away from minute 2 to 5; partitions could not be asked in minute 6 and 7 either.
    history.watch(time_buckets.COLLECTOR, (-DAY_MS, minutes[2]), (minutes[5], NOW - T0))
    history.watch(LOG, (-DAY_MS, minutes[2]), (minutes[5], NOW - T0))
    history.watch(WHERE, (-DAY_MS, minutes[2]), (minutes[5], minutes[6]), (minutes[8], NOW - T0))
    history.commit(minutes[3] + 5)  # read later, from the coordinator's log
    history.wait(PREFIX, minutes[9], waiting=2, longest_ms=4_000, hidden=40, lag=70)
    found = ask()
    application = one(found)
    assert by_minute(found, application.commits) == {2: None, 3: 1, 4: None}
    assert by_minute(found, application.waiting) == {2: None, 3: None, 4: None, 6: None, 7: None, 9: 2}
    assert by_minute(found, application.hidden)[9] == 40
    assert by_minute(found, application.lag)[9] == 70
    assert by_minute(found, application.longest_wait_ms)[9] == 4_000
    assert [(gap.source, gap.text) for gap in found.gaps] == [
        ("collector", "no data for 3 min 00 s: the collector did not run"),
        ("partitions", "no data of partitions for 2 min 00 s"),
    ]


def test_before_the_first_note_nothing_is_claimed(history: History, ask: Ask) -> None:
    for source in (time_buckets.COLLECTOR, LOG, WHERE):
        history.watch(source, (0, NOW - T0))
    (gap,) = ask(Window.QUARTER_HOUR).gaps
    assert gap.text.endswith("the collector had not run yet")
    assert gap.until_ms == T0


def test_the_worst_of_a_bucket_is_shown(history: History, ask: Ask) -> None:
    always(history)
    history.wait("other", 60_000, waiting=1, longest_ms=9_000, hidden=3)
    history.wait("other", 70_000, waiting=2, longest_ms=1_000, hidden=1)
    found = one(ask(Window.DAY), "other")
    assert (max(map(int, found.waiting)), max(map(int, found.longest_wait_ms)), max(map(int, found.hidden))) == (
        2,
        9_000,
        3,
    )


def test_how_long_transactions_were_open_stands_against_their_timeout(history: History, ask: Ask) -> None:
    always(history)
    history.observe(run_started())
    history.observe(
        broker_record(BrokerStatus.COMPLETE_COMMIT, 2 * MINUTE_MS + 9_000, start=2 * MINUTE_MS, timeout_ms=60_000)
    )
    history.observe(
        broker_record(BrokerStatus.ONGOING, 9 * MINUTE_MS, start=9 * MINUTE_MS, producer_id=1, timeout_ms=60_000)
    )
    found = ask()
    application = one(found)
    assert application.timeout_ms == 60_000
    opened = {minute: value for minute, value in by_minute(found, application.longest_open_ms).items() if value}
    assert opened[2] == 9_000
    assert opened[10] == MINUTE_MS, "the one that is open has been for so long now"


def test_checkpoints_have_the_longest_of_each_bucket_and_what_half_of_them_took(history: History, ask: Ask) -> None:
    always(history)
    history.observe(run_started())
    for number, took_ms in enumerate((100, 200, 900)):
        at = MINUTE_MS + 1_000 * number
        history.observe(event(EventType.CHECKPOINT_COMPLETED, at, batch=number, duration_ms=took_ms))
    for window in Window:
        application = one(ask(window))
        assert max(value or 0 for value in application.checkpoint_ms) == 900, window
        assert application.checkpoint_p50_ms == 200


def test_the_last_commit_is_known_however_long_ago(history: History, ask: Ask) -> None:
    always(history)
    history.observe(run_started())
    history.commit(MINUTE_MS)
    history.commit(2 * MINUTE_MS, producer_id=1, abort=True)
    assert one(ask(Window.HOUR)).last_commit_ms == T0 + MINUTE_MS
    assert one(ask(Window.HOUR, now_ms=NOW + DAY_MS)).last_commit_ms == T0 + MINUTE_MS


@pytest.mark.parametrize(
    ("transaction", "name"),
    [
        ("ip-count-0-1", PREFIX),
        ("orders-1-0-5", "orders-1"),
        ("billing-export-1", "billing-export"),
        ("app-3b241101-e2bb-4255-8caf-4136c566a962-1", "app"),
        ("app-0_1", "app"),
        ("connect-cluster-files-0", "connect-cluster-files"),
        ("worker.7", "worker"),
        ("alone", "alone"),
    ],
)
def test_counts_go_by_the_name_that_every_list_has(history: History, ask: Ask, transaction: str, name: str) -> None:
    always(history)
    history.observe(run_started())
    history.commit(1_000, transaction)
    assert sum(map(int, one(ask(Window.HOUR), name).commits)) == 1
    assert sum(map(int, one(ask(Window.QUARTER_HOUR), name).commits)) == 1
    with history.current.reading() as state:
        assert application_names.name_of_id(state, transaction) == name


def test_all_who_ask_within_two_seconds_get_one_answer(history: History) -> None:
    kept = cached_series(history.current, history.store)
    first = kept.at(NOW, Window.HOUR, None)
    assert kept.at(NOW + 1, Window.HOUR, None) is first
    assert kept.at(NOW, Window.DAY, None) is not first
    assert kept.at(NOW + series.RECOUNT_MS, Window.HOUR, None) is not first


def test_samples_keep_who_waits_and_what_was_observed(history: History) -> None:
    status = ObserverStatus(
        kind=ObserverKind.PARTITIONS, state=ObserverState.UP, delay_ms=500, since_ms=T0, error="", records=0
    )
    seen = [status]
    samples = TimeSamples(history.current, history.store, partition_findings, lambda: seen)
    samples.look(T0 + 2_000)
    samples.look(T0 + 4_000)
    samples.write()
    seen.clear()
    samples.look(T0 + 9_000)
    samples.write()
    seen.append(ObserverStatus(kind=ObserverKind.PARTITIONS, state=ObserverState.UP, delay_ms=0, since_ms=T0 + 11_000,
                               error="", records=0))  # fmt: skip
    samples.look(T0 + 12_000)
    samples.write()
    watches = history.store.rows("select source, from_ms - ?, until_ms - ? from source_watches order by all", T0, T0)
    assert watches == [("collector", 2_000, 12_000), ("partitions", 0, 3_500), ("partitions", 11_000, 12_000)]
    waits = history.store.rows(
        "select begin_ms - ?, application, waiting, longest_wait_ms, hidden from reader_waits", T0
    )
    assert waits == [(0, "", 1, 3_000, 5)], "one look is written once"


def test_samples_keep_what_groups_have_not_read_and_where_partitions_end(history: History) -> None:
    tracker = PartitionTracker(stalled_ms=30_000)
    looks: list[PartitionFindings] = []

    def look(at: int, stable: int, end: int, offset: int) -> None:
        tracker.saw_group("readers", "Stable", {PARTITION: offset, ("idle", 0): 7}, T0 + at, is_whole=True)
        tracker.saw_partition(PARTITION, stable, end, T0 + at)
        tracker.saw_partition(("idle", 0), 7, 7, T0 + at)
        tracker.saw_partition(("not read", 0), 7, 7 + at, T0 + at)
        seen = PartitionFindings(at_ms=T0 + at, blocked=tracker.blocked(), read_by=tracker.read_by(),
                                 snapshots=tracker.snapshots())  # fmt: skip
        looks.append(seen)
        samples.look(T0 + at)

    samples = TimeSamples(history.current, history.store, lambda: looks[-1], lambda: [])
    first = -(T0 % 10_000)
    look(first, 100, 100, 100)
    look(first + 1_000, 100, 140, 100)
    look(first + 2_000, 140, 140, 130)
    look(first + 10_000, 140, 140, 140)
    look(first + 20_000, 150, 150, 145)
    samples.write()
    ends = history.store.rows("select begin_ms - ?, topic, high_watermark, hidden from partition_ends order by all", T0)
    moved = [row for row in ends if row[1] == PARTITION[0]]
    assert moved == [(first, "orders", 140, 40), (first + 20_000, "orders", 150, 0)], (
        "where it stands, nothing is written"
    )
    assert [row for row in ends if row[1] == "idle"] == [(first, "idle", 7, 0)]
    lags = history.store.rows("select begin_ms - ?, consumer_group, lag, hidden from group_lags order by all", T0)
    assert lags == [(first, "readers", 10, 40), (first + 20_000, "readers", 5, 0)]
