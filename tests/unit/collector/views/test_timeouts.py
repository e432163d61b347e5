"""Timeouts and how long transactions were open: the figures from a real history (the rules: test_timeout_risk.py)."""

from __future__ import annotations

from pathlib import Path

from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.timeouts import cached_lengths
from tests.unit.collector.observations import T0, broker_record
from tests.unit.collector.serve.api.served_api import VIEWER, Api, observed

COMMITTED, ABORTED = BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT


def test_percentiles_are_at_most_a_tenth_too_large(tmp_path: Path) -> None:
    lengths = [100 + 20 * n for n in range(1_000)]
    ended = [(f"orders-{n % 4}-{n % 2}", ABORTED if n % 10 == 0 else COMMITTED, ms) for n, ms in enumerate(lengths)]
    store = filled(tmp_path, *ended, ("orders-9-0", ABORTED, 60_000), ("orders-9-1", ABORTED, 71_000))
    (found,) = cached_lengths(knowing_nothing(store), store).at(T0)
    assert (found.application, found.timeout_ms, found.ended, found.timed_out) == ("orders", 60_000, 1_000, 2)
    for told, share in ((found.p50_ms, 0.5), (found.p95_ms, 0.95), (found.p99_ms, 0.99)):
        exact = lengths[int(share * len(lengths)) - 1]
        assert told is not None
        assert exact <= told <= 1.1 * exact
    assert (found.longest_ms, found.longest_transaction) == (lengths[-1], "orders-3-1")
    store.close()


def test_durations_of_older_days_or_another_timeout_do_not_count(tmp_path: Path) -> None:
    store = filled(tmp_path, ("orders-0-0", ABORTED, 60_000))
    assert [one.timed_out for one in cached_lengths(knowing_nothing(store), store).at(T0)] == [1]
    assert cached_lengths(knowing_nothing(store), store).at(T0 + 25 * 3_600_000) == []
    longer = broker_record(COMMITTED, 3_600_500, transaction="orders-0-0", start=3_600_000, timeout_ms=120_000)
    store.append([observed(10_000, longer)])
    store.flushed()
    (found,) = cached_lengths(knowing_nothing(store), store).at(T0)
    assert (found.timeout_ms, found.ended, found.timed_out) == (120_000, 1, 0)
    store.close()


def test_the_api_has_each_application_with_what_is_open_of_it(tmp_path: Path) -> None:
    api, began = Api(tmp_path), now_ms() - T0 - 120_000
    api.current.observe([
        observed(100 + n, broker_record(status, began + 61_000, transaction="gone-4", start=began))
        for n, status in enumerate((BrokerStatus.ONGOING, BrokerStatus.PREPARE_ABORT, ABORTED))
    ])  # fmt: skip
    api.store.flushed()
    found = {row["pipeline"]: row for row in api.rows("timeouts")}
    assert set(found) == {"ip-count", "flink-orders", "gone"}
    ip_count, gone = found["ip-count"], found["gone"]
    assert (ip_count["managed"], ip_count["open"], ip_count["oldest_opened_at_ms"]) == (True, 1, T0)
    assert ip_count["oldest_deadline_ms"] == T0 + ip_count["timeout_ms"]
    assert ip_count["oldest_key"] in {row["key"] for row in api.rows("transactions")}
    assert "restart delay 10 s" in ip_count["recovery"]
    assert (gone["risk"], gone["timed_out"], gone["open"], gone["p99_ms"]) == ("timed out", 1, 0, None)
    assert next(row["pipeline"] for row in api.rows("timeouts")) == "gone", "the worst first"
    assert [row["pipeline"] for row in api.rows("timeouts?pipeline=gone")] == ["gone"]
    first = api.client.get("/api/v1/timeouts?limit=2", headers=VIEWER).json()
    assert first["more"] == 1
    rest = api.rows(f"timeouts?limit=2&after={first['next']}")
    assert [row["pipeline"] for row in (*first["rows"], *rest)] == [row["pipeline"] for row in api.rows("timeouts")]


def knowing_nothing(store: Store) -> CurrentState:
    """Return a state that knows of no pipeline and no Flink: applications go by their ids alone."""
    return CurrentState(store, settled_kept=1, checkpoints_kept=1)


def filled(directory: Path, *ended: tuple[str, BrokerStatus, int]) -> Store:
    """Return a history of transactions that all opened at T0: id, end, and how long they were open."""
    store = Store(directory / "history.duckdb")
    store.append([
        observed(n, broker_record(status, ms, transaction=id_, producer_id=n)) for n, (id_, status, ms) in enumerate(ended)
    ])  # fmt: skip
    store.flushed()
    return store
