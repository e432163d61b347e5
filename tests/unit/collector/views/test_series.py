"""Applications over time: what was counted, who waited, what happened; and null, not zero, where nobody looked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.observe.time_samples import TimeSamples
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import EventSeen, Observation
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views import application_names, series
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.series import Buckets, Window, cached_series, of_pipeline
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
from tests.unit.collector.partition_sightings import partition_findings
from tests.unit.collector.serve.api.served_api import event_seen, observed

LOG, WHERE = ObserverKind.TRANSACTION_LOG.value, ObserverKind.PARTITIONS.value
NOW = T0 + 10 * MINUTE_MS
Ask = Callable[..., Series]


class History:
    """A collector's state over real history, in which sources were observed when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self._offset = 0

    def observe(self, *observations: Observation) -> None:
        for one in observations:
            self._offset += 1
            is_event = isinstance(one, EventSeen)
            self.current.observe([event_seen(self._offset, one) if is_event else observed(self._offset, one)])

    def commit(self, at: int, transaction: str = "ip-count-0-1", producer_id: int = 0, *, abort: bool = False) -> None:
        what = BrokerStatus.COMPLETE_ABORT if abort else BrokerStatus.COMPLETE_COMMIT
        self.observe(broker_record(what, at, transaction=transaction, producer_id=producer_id, start=at - 100))

    def watch(self, source: str, *spans: tuple[int, int]) -> None:
        columns = [[source] * len(spans), [T0 + begin for begin, _ in spans], [T0 + end for _, end in spans]]
        self.store.transact([(sql.KEEP_SOURCE_WATCHES, columns)])

    def wait(self, application: str, at: int, *, waiting: int = 0, longest_ms: int = 0, hidden: int = 0) -> None:
        columns = [[T0 + at], 10_000, [application], [waiting], [longest_ms], [hidden]]
        self.store.transact([(sql.ADD_READER_WAITS, columns)])

    def audit(self, at: int, action: str, keys: str, outcome: str = "accepted") -> None:
        self.store.append_audit((T0 + at, "anna", action, keys, "a reason", outcome, "", "[]"))


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def ask(history: History) -> Ask:
    """Return what asks for the series as of a time, by default ten minutes after T0."""

    def asked(window: Window = Window.HOUR, until_ms: int | None = None, now_ms: int = NOW) -> Series:
        history.store.flushed()
        return cached_series(history.current, history.store).at(now_ms, window, until_ms)

    return asked


def always(history: History) -> None:
    for source in (series.COLLECTOR, LOG, WHERE):
        history.watch(source, (-2 * DAY_MS, NOW - T0))


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
    lost = transaction_event(EventType.TRANSACTION_LOST, 5 * MINUTE_MS, handle(producer_id=8), reason="timeout")
    history.observe(lost)
    found = one(ask(window))
    assert found.managed
    assert (sum(map(int, found.commits)), sum(map(int, found.aborts)), sum(map(int, found.lost))) == (3, 1, 1)
    buckets = Buckets.of(window, None, NOW)
    assert found.commits[(T0 + MINUTE_MS - buckets.from_ms) // buckets.bucket_ms] == 3
    assert found.lost[(T0 + 5 * MINUTE_MS - buckets.from_ms) // buckets.bucket_ms] == 1


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
    history.watch(series.COLLECTOR, (-DAY_MS, minutes[2]), (minutes[5], NOW - T0))
    history.watch(LOG, (-DAY_MS, minutes[2]), (minutes[5], NOW - T0))
    history.watch(WHERE, (-DAY_MS, minutes[2]), (minutes[5], minutes[6]), (minutes[8], NOW - T0))
    history.commit(minutes[3] + 5)  # read later, from the coordinator's log
    history.wait(PREFIX, minutes[9], waiting=2, longest_ms=4_000, hidden=40)
    found = ask()
    application = one(found)
    assert by_minute(found, application.commits) == {2: None, 3: 1, 4: None}
    assert by_minute(found, application.waiting) == {2: None, 3: None, 4: None, 6: None, 7: None, 9: 2}
    assert by_minute(found, application.hidden)[9] == 40
    assert by_minute(found, application.longest_wait_ms)[9] == 4_000
    assert [(gap.source, gap.text) for gap in found.gaps] == [
        ("collector", "the collector did not run for 3 min 00 s"),
        ("partitions", "partitions could not be observed for 2 min 00 s"),
    ]


def test_before_the_first_note_nothing_is_claimed(history: History, ask: Ask) -> None:
    for source in (series.COLLECTOR, LOG, WHERE):
        history.watch(source, (0, NOW - T0))
    (gap,) = ask(Window.QUARTER_HOUR).gaps
    assert gap.text.startswith("no record of the collector's running")
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


def test_marks_say_what_happened_when_and_to_whom(history: History, ask: Ask) -> None:
    always(history)
    history.observe(
        run_started(),
        event(EventType.PIPELINE_STARTED, 1_000, job="ip_count"),
        *(event(EventType.PIPELINE_ALIVE, at, job="ip_count") for at in range(1_500, 1_900)),
        event(EventType.PIPELINE_RESTARTING, 2_000, reason="its driver died", restart=1),
        event(EventType.PIPELINE_STOPPED, 3_000, reason="stopped on request"),
    )
    history.audit(4_000, "abort", f'["kafka:{PREFIX}-0-1:0:4@{T0}"]')
    history.audit(5_000, "restart", f'["pipeline:{PREFIX}"]')
    history.audit(6_000, "settle", f'["{PREFIX}/some-id/41/0", "mysql:{PREFIX}:41:0:0:0a1b2c3d"]')
    history.commit(6_500, "shop-1f0a91b4-3", producer_id=70)
    history.audit(7_000, "commit", '["hanging:orders-3:70:2:100"]')
    history.audit(7_500, "commit", '["hanging:orders-3:71:2:100"]')
    gone = broker_record(
        BrokerStatus.COMPLETE_COMMIT, 6_600, transaction="bills-2f0a91b4-3", producer_id=72, start=6_500
    )
    history.store.append([observed(9_000, gone)])
    history.store.flushed()
    history.audit(7_600, "abort", '["hanging:orders-3:72:2:100"]')
    history.audit(8_000, "abort", f'["kafka:{PREFIX}-0-1:0:4@{T0}"]', "refused")
    history.audit(9_000, "backup", "[]")
    found = ask()
    assert [(mark.at_ms - T0, mark.kind, mark.pipeline, mark.text) for mark in found.marks] == [
        (1_000, MarkKind.START, PREFIX, "started"),
        (2_000, MarkKind.RESTART, PREFIX, "restarting: its driver died"),
        (3_000, MarkKind.STOP, PREFIX, "stopped: stopped on request"),
        (4_000, MarkKind.ORDER, PREFIX, "abort by anna: accepted (audit 1)"),
        (5_000, MarkKind.ORDER, PREFIX, "restart by anna: accepted (audit 2)"),
        (6_000, MarkKind.ORDER, PREFIX, "settle by anna: accepted (audit 3)"),
        (7_000, MarkKind.ORDER, "shop", "commit by anna: accepted (audit 4)"),
        (7_500, MarkKind.ORDER, "", "commit by anna: accepted (audit 5)"),
        (7_600, MarkKind.ORDER, "bills", "abort by anna: accepted (audit 6)"),
    ]
    assert {mark.pipeline for mark in of_pipeline(found, PREFIX, 10).marks} == {PREFIX}


def test_lost_transactions_of_a_moment_are_one_mark(history: History, ask: Ask) -> None:
    always(history)
    handles = [handle(f"ip-count-{slot}-1", slot=slot, producer_id=slot) for slot in range(3)]
    history.observe(run_started())
    for one_handle in handles:
        history.observe(
            broker_record(BrokerStatus.ONGOING, 0, transaction=one_handle.transaction, producer_id=one_handle.slot)
        )
    history.observe(decided(1, *handles))
    for one_handle in handles:
        name, number = one_handle.transaction, one_handle.slot
        for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT):
            history.observe(broker_record(status, 61_000, transaction=name, producer_id=number, epoch=5))
    (mark,) = ask().marks
    assert (mark.kind, mark.pipeline) == (MarkKind.LOST, PREFIX)
    assert mark.text == "lost: 3 transactions, ip-count-0-1 among them"


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
